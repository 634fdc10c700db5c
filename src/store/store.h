// Where the server keeps profiles: durable before it says so, in little space, within a memory
// budget. What is behind it is a driver (store/driver.h); the default one keeps one SQLite
// database per tenant and UTC day in a directory (docs/store-format.md).
//
// A series is a set of labels. The caller gives `__name__`, `service_name` and the user's; what
// depends on the sample type is the store's: a profile with four sample types is one put, and
// four series to whoever asks, each with these labels added:
//     __profile_type__  name:type:unit:period_type:period_unit
//     __type__ __unit__ __period_type__ __period_unit__ __service_name__ (= service_name)
//
// Threads: a store may be used by any number of threads at once. Everything that a function
// returns is in the arena that it was given, which is the caller's and used by one thread.
// Times are nanoseconds since 1970; both ends of a range are inclusive.
#pragma once

#include "model/profile.h"
#include "model/regex.h"

// What functions here return besides 0; all but STORE_FAILED tell the caller what to answer.
enum store_code {
    STORE_FAILED = -1,
    STORE_BAD_INPUT = -2, // the caller's: 400
    STORE_BUSY = -3,      // over the memory budget: 429, try again later
    STORE_FULL = -4,      // no space, or the disk does not take writes: 503
    STORE_CORRUPT = -5,   // a day cannot be read; the others can
    STORE_FORMAT = -6,    // the same: its format is unknown. Of a put: no retry helps, 400
};

struct store;

struct store_label {
    struct str name, value;
};

struct store_trace {
    uint64_t high, low;
};

struct store_options {
    size_t memory;          // bytes that the store may hold, all caches included; 0: 128 MiB
    int64_t commit_nanos;   // how long a commit waits for company at most; 0: 50 ms; negative: not
    int64_t maintain_nanos; // how often hours are closed and old days dropped by a thread of the
                            // store; 0: every 30 s; negative: only by store_maintain
    int64_t keep_nanos;     // days that ended longer ago than this are dropped; 0: kept. The newest
                            // data counts as now if it is older (store/retention.h)
    uint64_t keep_bytes;    // the oldest days are dropped above this size; 0: no bound
    uint64_t keep_free;     // and when less than this is free on the disk; 0: no bound
    const char *directory;  // of a store that is elsewhere: where what waits for it is kept
    int64_t (*clock)(void); // now; NULL: CLOCK_REALTIME
    int64_t (*uptime)(void); // a clock that nobody sets; NULL: clock, or CLOCK_BOOTTIME without one
    // Only to be looked at, also while another process has it open: everything that asks, and
    // store_backup and store_check. Nothing else may be called.
    bool look_only;
    // What an operator should know (a damaged day, a day dropped); any thread; may be NULL.
    void (*note)(void *ctx, const char *text);
    void *note_ctx;
};

// Opens what is at where: a directory, made if it is missing, or clickhouse://...
// (docs/clickhouse.md). It takes milliseconds however much is in it. One process at a time: a
// second one gets an error. NULL with e filled.
struct store *store_open(const char *where, const struct store_options *options, struct err *e);
// Commits what was submitted, then closes. No other call may be under way.
void store_close(struct store *store);

// --- writing ---

struct store_put {
    struct str tenant;
    // Sorted by name (bytewise), no name twice, no empty name; `__name__` and `service_name` must
    // be there. The labels of above that are the store's must not.
    const struct store_label *labels;
    size_t n_labels;
    int64_t time;    // of the profile's start, > 0; its day is where it is kept
    bool is_untimed; // the sender gave no usable time: time is when it came, and not part of its id
    int64_t duration;
    // Every sample type, the period and the stacks are kept. Of the samples' labels only span_id
    // and trace_id (strings of up to 16 and 32 hexadecimal digits) are: see store_split for the
    // others.
    const struct model_profile *profile;
    // Chosen by the sender: a put with the tenant, labels, time and id of an earlier one (of about
    // the last day) is acknowledged and not stored again. Empty: no such check.
    struct str id;
};

enum { STORE_PUT_DAYS = 40 }; // days that the puts of one call may have

// Stores all of puts or none, and returns once they are durable. Puts of many callers share one
// commit. STORE_BUSY at once if what waits would go beyond the budget. (Puts of different days are
// different files: there a crash between the two may keep one of them, unacknowledged. Puts of more
// than two days, or more than 500 puts, are stored in parts: if one fails, which the result tells,
// the others are kept.)
int store_put(struct store *store, const struct store_put *puts, size_t n, struct err *e);

// The same without waiting: done is called once, by a thread of the store, when the puts are
// durable (code 0) or failed. Until then everything that puts refer to, and puts itself, stays the
// caller's to keep. done must be quick and not call the store. A result other than 0 says that
// done will not be called.
typedef void store_done_fn(void *ctx, int code, const struct err *e);
int store_submit(struct store *store, const struct store_put *puts, size_t n, store_done_fn *done,
                 void *ctx, struct err *e);

// STORE_BUSY if what is made of so many compressed bytes would not be taken now: asked before they
// are decoded, so that a server with too much to do does not do it in vain.
int store_expect(struct store *store, struct str tenant, size_t bytes, struct err *e);

// The series of a profile whose samples carry string labels: one for each different set of them,
// span_id, trace_id and profile_id aside. Names that labels already has are not overridden, names
// that the store owns are left out; of several values of one key the first counts. A profile
// without such labels, and one without samples, is one series that shares everything with p.
struct store_part {
    const struct store_label *labels; // sorted
    size_t n_labels;
    const struct model_profile *profile;
};
int store_split(const struct model_profile *p, const struct store_label *labels, size_t n_labels,
                struct arena *arena, struct store_part **parts, size_t *n_parts, struct err *e);

// --- asking ---

enum store_op { STORE_EQ, STORE_NE, STORE_RE, STORE_NRE };

// A label that is not there counts as empty. regex (of the last two) is anchored by its maker.
struct store_matcher {
    enum store_op op;
    struct str name, value;
    struct model_regex *regex;
};

// Stacks with a function in them, or those below a call site. A frame is called by its function's
// name, else by its system name; see store/pick.h for frames that have neither.
struct store_filter {
    struct str function;         // of any frame; a stack counts once, however often it is there
    const struct str *call_site; // instead: the names of the first frames, from the root on
    size_t n_call_site;
    // Lines may be joined, with the labels of any of them: who adds all of them up saves the store
    // telling them apart. Not for gauges, whose means are those of single series.
    bool join_lines;
};

struct store_series;

// A merge in parts, to see how much they differ: by time, and by series.
struct store_blocks {
    int64_t origin, step; // the window of a time is (time - origin) / step
    uint32_t n_windows;   // every time of the select is in one
    uint32_t n_groups;    // of series; 0: none
    uint32_t (*group)(void *ctx, const struct store_series *series);
    void *ctx;
};

struct store_select {
    struct str tenant;
    struct str type; // __profile_type__; empty: all
    const struct store_matcher *matchers;
    size_t n_matchers;
    int64_t start, end;    // inclusive; start 0 and end INT64_MAX: everything
    const uint64_t *spans; // store_merge only: samples with one of these span ids
    size_t n_spans;
    const struct store_trace *traces; // the same: of one of these traces; not both
    size_t n_traces;
    const struct store_filter *filter; // store_lines only: points tell what these stacks amount to
    // store_merge only, and not for types whose values are a state: what to tell beside the sums.
    bool with_variance;
    const struct store_blocks *blocks; // NULL: none
};

// Up to 32 hexadecimal digits.
bool store_trace_parse(struct str text, struct store_trace *trace);

// Days that could not be read, in part or as a whole, are left out of an answer and counted here;
// note has said why.
struct store_answer {
    uint32_t damaged_days; // those of another format included
    uint32_t format_days;
    // The first of them as a sentence each, for whoever asked.
    uint32_t n_warnings;
    char warnings[4][160];
};

// One series as the outside sees it: all its labels, sorted by name.
struct store_series {
    const struct store_label *labels;
    size_t n_labels;
    struct str type; // the value of __profile_type__
};

// The series that match and have a profile in the range, in the order of their labels.
int store_series(struct store *store, const struct store_select *select, struct arena *arena,
                 struct store_series **series, size_t *n, struct store_answer *answer,
                 struct err *e);

// Stacks with their values: a node is a frame below its parent. Node 0 is the root and has no
// location; a node comes after its parent, and no two nodes have both the same.
struct store_stacks {
    uint32_t n_nodes;
    const uint32_t *parent;   // parent[0] is 0
    const uint32_t *location; // an index into symbols->locations
    const int64_t *self;
    // Strings, functions, locations and mappings; no samples. types[0] is the type that was asked
    // for, period_type and period are the profiles'.
    const struct model_profile *symbols;
    uint64_t n_profiles;
    int64_t duration; // of all profiles together
    // What sampling adds to the variance of self; NULL: nobody asked. is_counted: the weights of
    // some events are not known, and each count was taken for one.
    const double *variance;
    bool is_counted;
    // What of self is in each window, then in each group: n_blocks for each node.
    const int64_t *blocks;
    uint32_t n_blocks, n_windows;
};

// The sum of all profiles of the select; select->type must be given. Types whose values are a
// state, not a flow (inuse_*), are averaged over a series' profiles and then added up over the
// series. The result has node 0 at least.
int store_merge(struct store *store, const struct store_select *select, struct arena *arena,
                struct store_stacks **stacks, struct store_answer *answer, struct err *e);

// What a series amounts to on a grid: a profile counts for the first start + i * step that is not
// before its time. Points in order of their index; those without a profile are left out.
struct store_point {
    int64_t index;
    double sum; // of the profiles' totals
    uint64_t n; // profiles, those without a stack of the filter included
    // Of the filter's stacks; self: of those that end in the function, or at the call site.
    double total, self;
};

struct store_line {
    struct store_series series;
    const struct store_point *points;
    size_t n_points;
};

// select->type must be given; step > 0.
int store_lines(struct store *store, const struct store_select *select, int64_t step,
                struct arena *arena, struct store_line **lines, size_t *n,
                struct store_answer *answer, struct err *e);

// inuse_* and goroutines: averaged over time, never added up.
bool store_type_is_gauge(struct str type_id);

struct store_stats {
    bool any;               // whether there is a profile at all
    int64_t oldest, newest; // to the hour
    uint64_t bytes;         // on disk
    uint32_t days, damaged_days;
};
// Of a tenant; of all with an empty one. The budget ends it early; may be NULL.
int store_stats(struct store *store, struct str tenant, struct budget *budget,
                struct store_stats *stats, struct err *e);

// Since store_open; for /metrics.
struct store_counters {
    uint64_t profiles, samples, repeated; // stored; repeated: known by their id
    uint64_t commits, commit_nanos;
    uint64_t failed, refused; // puts; refused: STORE_BUSY
    uint64_t waiting_bytes;   // now, of submitted puts
    uint64_t cache_bytes;     // now
    uint64_t days_dropped, hours_closed;
    uint64_t close_failures; // hours of a service that could not be closed, each time
    uint64_t bytes;          // as of store_stats, at some time in the last minutes
    uint32_t days, damaged_days;
    // Of a store that is elsewhere.
    bool remote, remote_up;                           // up: it took the last batch
    uint64_t spool_bytes, spool_limit, spool_batches; // acknowledged, and not there yet
    uint64_t spool_nanos;                             // how long the oldest of it waits
    uint64_t remote_batches, remote_failures;
};
void store_counters(struct store *store, struct store_counters *counters);

int store_tenants(struct store *store, struct arena *arena, struct str **tenants, size_t *n,
                  struct err *e);

// --- looking after it ---

// Closes hours that are over (roll-ups), drops what is too old or too much; what the store's own
// thread does. all: hours that are not over as well, which a test or an export wants.
int store_maintain(struct store *store, bool all, struct err *e);
// The clock's time, or an earlier one while the clock is far ahead of the data (store/retention.h).
int64_t store_time(const struct store *store);
// Everything of a service is gone when it returns, ids included: a put that was there and comes
// again is stored. *n: profiles that were removed.
int store_delete_service(struct store *store, struct str tenant, struct str service, uint64_t *n,
                         struct err *e);
// A consistent copy into directory to, made if it is missing, which has no store yet; reading and
// writing go on. What a failed one leaves in to is the caller's to remove.
int store_backup(struct store *store, const char *to, struct err *e);
// Reads everything and says what is wrong, a line each; 0 if nothing is, else STORE_CORRUPT.
int store_check(struct store *store, void (*found)(void *ctx, const char *text), void *ctx,
                struct err *e);

// Every profile that there is, some together: as they were put, names that came late included, with
// an id that is the same each time. They are good until give returns, whose result other than 0
// ends it.
typedef int store_each_fn(void *ctx, const struct store_put *puts, size_t n, struct err *e);
int store_each(struct store *store, store_each_fn *give, void *ctx, struct err *e);

// --- names that come late ---

// An address that has no function name: what a debug file can repair. offset is the address's
// place in the file: address - mapping start + mapping offset.
struct store_address {
    struct str build_id, file;
    uint64_t offset;
};
// Those with build_id, of all days in the range; an empty build_id: all that have one.
int store_unnamed(struct store *store, struct str tenant, struct str build_id, int64_t start,
                  int64_t end, struct arena *arena, struct store_address **addresses, size_t *n,
                  struct err *e);

struct store_frame {
    struct str name, system_name, file;
    int64_t line, start_line;
};
// From now on store_merge shows these frames (innermost first) for the address, in profiles old
// and new. Durable when it returns. Replaces what was named before.
struct store_name {
    struct str build_id;
    uint64_t offset;
    const struct store_frame *frames;
    size_t n_frames;
};
int store_name(struct store *store, struct str tenant, const struct store_name *names, size_t n,
               struct err *e);
// Forgets all names of a build id, whose debug file was replaced.
int store_forget_names(struct store *store, struct str tenant, struct str build_id, struct err *e);
