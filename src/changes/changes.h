// Changes found by the server: a job that watches every service of every tenant, deploys and notes
// that it attributes changes to, and what people said about them.
//
// state.c       a database per tenant, in DATA/changes: the job's memory and its findings
// windows.c     functions by window: read from the store, kept, put together to a history
// deploys.c     labels that tell a deploy; markers
// runs.c        versions that run at the same time
// canary.c      compares them with each other
// entries.c     changes that are known
// stacks.c      stacks of a time, as the statistics ask for them
// look.c        one look at a tenant: read, scan, settle, keep
// turns.c       tenants take turns
// job.c         the thread: when to look, how much CPU to use, pause, stop
// list.c        findings, as they are asked for and marked
// annotations.c notes from outside
// alerts.c      which changes receivers of alerts have yet to hear of
//
// docs/decisions/0037-changes.md has the statistics, 0038-changes-job.md the job. Threads:
// everything here may be called by any thread; each call opens the tenant's database by itself.
#pragma once

#include "stats/changes.h"
#include "store/store.h"

struct changes;

enum {
    CHANGES_WINDOWS = 336, // of a history: two weeks of hours
    CHANGES_LASTING = 6,   // windows that a change lasts, by default
};

struct changes_options {
    const char *data; // the server's directory
    struct store *store;
    struct budget_account *memory; // of the server; the job has a part of it
    bool paused;
    int64_t window;  // ns, divides a day; 0: an hour
    int64_t lasting; // of a step; 0: CHANGES_LASTING windows
    // Labels whose change is a deploy, before those that every kiln knows.
    const struct str *deploy_labels;
    size_t n_deploy_labels;
    double cpu; // of a core that the job may use; 0: as much as it needs, for tests
    // What an operator should know; any thread; may be NULL.
    void (*note)(void *ctx, const char *text);
    void *note_ctx;
    // A look or a mark has changed which changes are open; any thread; may be NULL.
    void (*changed)(void *ctx);
    void *changed_ctx;
};

// The options' pointers must outlive it. It does nothing by itself before changes_start. NULL with
// e filled.
struct changes *changes_open(const struct changes_options *options, struct err *e);
int changes_start(struct changes *c, struct err *e);
// While it runs: whether the job looks.
void changes_pause(struct changes *c, bool paused);
// Ends the job at once: a look that is under way is made again after the next start.
void changes_close(struct changes *c);

// Looks at all tenants once, as the job does at that time. An enum store_code.
int changes_look(struct changes *c, int64_t now, struct err *e);

struct changes_counters {
    uint64_t looks, found, skipped, failed; // at tenants; entries; services; tenants
    uint64_t cpu_nanos;
    bool paused;
};
void changes_counters(struct changes *c, struct changes_counters *counters);

// After store_delete_service: forgets the service.
int changes_forget_service(struct changes *c, struct str tenant, struct str service, struct err *e);

// data: a server's directory; the server may be running. found is called for each damaged database.
//
// Copies all databases into the directory to, which must not exist; leaves out those that cannot be
// read.
int changes_backup(const char *data, const char *to, void (*found)(void *ctx, const char *text),
                   void *ctx, struct err *e);
void changes_check(const char *data, void (*found)(void *ctx, const char *text), void *ctx);

// --- findings ---

enum changes_mark { CHANGES_OPEN, CHANGES_ACKNOWLEDGED, CHANGES_MUTED };

// Two versions that ran at the same time.
struct changes_versions {
    struct str label;         // that tells them; empty: the entry is not about versions
    struct str before, after; // its values
    double part;              // of the service's profiles that were of `after`
};

struct changes_entry {
    int64_t id;
    struct str service, type;
    struct stats_entry entry; // its marker is in the arena
    // With a label: its sides are the same time, of one version each.
    struct changes_versions versions;
    int64_t found, gone; // the end of the last window of that look; gone 0: it lasts
    enum changes_mark mark;
    struct str who, comment; // of mark
    int64_t marked, until;   // when; until: of CHANGES_MUTED, 0: for good
};

struct changes_filter {
    struct str service, type; // empty: any
    int64_t from, until;      // of the step's time; both inclusive
    enum { CHANGES_VERDICT_LASTING, CHANGES_VERDICT_SHIFT, CHANGES_VERDICT_ANY } verdict;
    enum {
        CHANGES_STATE_ANY,
        CHANGES_STATE_OPEN, // neither gone nor marked
        CHANGES_STATE_ACKNOWLEDGED,
        CHANGES_STATE_MUTED,
        CHANGES_STATE_GONE,
    } state;
    int64_t now; // mutes that ended before are over
    size_t limit;
    int64_t after_found, after_id; // what comes after this one; 0: from the newest on
};

// The newest first: by when they were found.
int changes_list(struct changes *c, struct str tenant, const struct changes_filter *filter,
                 struct arena *arena, struct changes_entry **entries, size_t *n, struct err *e);

struct changes_marking {
    int64_t id;
    enum changes_mark mark; // MUTED: of all changes of the function, also those to come
    int64_t until, now;
    struct str who, comment;
};
// *found: whether there is such an entry.
int changes_mark(struct changes *c, struct str tenant, const struct changes_marking *marking,
                 bool *found, struct err *e);

// --- alerts ---

// A change that is open (lasting, not gone, not marked), or was open when a receiver heard of it.
struct changes_alert {
    int64_t id; // of the change
    bool open;
    bool known, told; // an attempt to send it was kept; the receiver has acknowledged it
    struct str service;
    int64_t starts;             // of an open one: 0
    struct str text;            // as it was kept; of an open one: empty
    struct changes_entry entry; // of an open one
    size_t total;               // of open ones of a service: how many there are
};

struct changes_alert_query {
    struct str receiver;
    bool decreases; // those that cost less are open, too
    int64_t now;
    struct str service; // p NULL: of all services, in the order of ids
    int64_t after;      // id; 0: from the first on
    size_t limit;
};

// The alerts of a tenant, used by one thread at a time. *outbox is NULL if the tenant has no
// database.
struct changes_outbox;
int changes_outbox_open(struct changes *c, struct str tenant, struct changes_outbox **outbox,
                        struct err *e);
void changes_outbox_close(struct changes_outbox *o);

// Open ones; those of one service that the receiver has not acknowledged come first.
int changes_alerts_open(struct changes_outbox *o, const struct changes_alert_query *q,
                        struct arena *arena, struct changes_alert **alerts, size_t *n,
                        struct err *e);
// Those that the receiver may know and that are not open any more, deleted ones included.
int changes_alerts_ended(struct changes_outbox *o, const struct changes_alert_query *q,
                         struct arena *arena, struct changes_alert **alerts, size_t *n,
                         struct err *e);
// The first service behind q->service with a change that the receiver has not acknowledged as open
// or as ended. service->p is NULL if there is none.
int changes_alerts_service(struct changes_outbox *o, const struct changes_alert_query *q,
                           struct arena *arena, struct str *service, struct err *e);
// Before open ones are sent, whose starts and text are filled: from now on the receiver may know
// them.
int changes_alerts_try(struct changes_outbox *o, struct str receiver,
                       const struct changes_alert *alerts, size_t n, struct err *e);
// The receiver has acknowledged them as they are in alerts.
int changes_alerts_told(struct changes_outbox *o, struct str receiver,
                        const struct changes_alert *alerts, size_t n, struct err *e);
// Forgets what receivers other than these know.
int changes_alerts_keep(struct changes_outbox *o, const struct str *receivers, size_t n,
                        struct err *e);

// Those that have a database.
int changes_tenants(const struct changes *c, struct arena *arena, struct str **tenants, size_t *n,
                    struct err *e);

// --- annotations ---

enum {
    // Limits of a tenant: annotations, each counted once for every service that it names, and the
    // bytes of their texts, tags and users. The oldest go first.
    CHANGES_ANNOTATIONS = 100000,
    CHANGES_ANNOTATION_BYTES = 64 << 20,
    CHANGES_TAGS = 64,
    CHANGES_TAG_BYTES = 1024,
    CHANGES_TEXT_BYTES = 16384,
    CHANGES_MARKER_BYTES = 256, // of the text that a change has as its deploy
};

struct changes_annotation {
    int64_t id, time, end; // ns; end: time if it is a moment
    struct str text;
    struct str *tags;
    size_t n_tags;
    struct str who;
};

// Every annotation is a marker: of the services that tags name (service_name:NAME, or with =), of
// all services without such a tag. Fills its id.
int changes_annotate(struct changes *c, struct str tenant, struct changes_annotation *annotation,
                     struct err *e);
int changes_remove_annotation(struct changes *c, struct str tenant, int64_t id, bool *found,
                              struct err *e);

struct changes_annotation_filter {
    int64_t from, until; // those that overlap with it
    const struct str *tags;
    size_t n_tags; // all of them, or any
    bool any_tag;
    size_t limit;
};
// The newest first.
int changes_annotations(struct changes *c, struct str tenant,
                        const struct changes_annotation_filter *filter, struct arena *arena,
                        struct changes_annotation **annotations, size_t *n, struct err *e);
// --- markers ---

// What may have caused a change: a deploy that labels tell, or an annotation.
struct changes_marker {
    int64_t time;
    struct str text;    // up to CHANGES_MARKER_BYTES
    int64_t annotation; // its id; 0: labels tell it
};

struct changes_marker_filter {
    struct str service;  // its own markers, and those of all services
    int64_t from, until; // both inclusive
    size_t limit;
};
// The newest first.
int changes_markers(struct changes *c, struct str tenant,
                    const struct changes_marker_filter *filter, struct arena *arena,
                    struct changes_marker **markers, size_t *n, struct err *e);

// Whether a tag names a service.
bool changes_tag_service(struct str tag, struct str *service);
