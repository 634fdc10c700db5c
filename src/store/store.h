// Storage of the server: profiles are durable before they are acknowledged, take little space, and
// are read within a memory budget. A driver does the work (store/driver.h). The default driver
// keeps one SQLite database per tenant and UTC day in a directory (docs/reference/store-format.md).
//
// A series is a set of labels. The caller supplies `__name__`, `service_name` and the user's
// labels. The store adds the labels that depend on the sample type: a profile with four sample
// types is one put, and queries see four series, each with these labels added:
//     __profile_type__  name:type:unit:period_type:period_unit
//     __type__ __unit__ __period_type__ __period_unit__ __service_name__ (= service_name)
//
// Threads: any number of threads may use a store at once. Results are allocated in the arena that
// the caller passes; one thread at a time may use an arena.
// Times are nanoseconds since 1970. Both ends of a range are inclusive.
#pragma once

#include "model/profile.h"
#include "model/regex.h"

// Return codes besides 0. All but STORE_FAILED tell the caller how to answer the request.
enum store_code {
    STORE_FAILED = -1,
    STORE_BAD_INPUT = -2, // invalid request: HTTP 400
    STORE_BUSY = -3,      // over the memory budget: HTTP 429, retry later
    STORE_FULL = -4,      // disk full or not writable: HTTP 503
    STORE_CORRUPT = -5,   // one day is unreadable; the other days are not affected
    STORE_FORMAT = -6, // like STORE_CORRUPT: the day has an unknown format. A put gets HTTP 400, as
                       // no retry helps
};

struct store;

struct store_label {
    struct str name, value;
};

struct store_trace {
    uint64_t high, low;
};

struct store_options {
    size_t memory;        // memory limit in bytes, all caches included; 0: 128 MiB
    int64_t commit_nanos; // longest time a commit waits for more puts; 0: 50 ms; negative: no wait
    // How often the store's maintenance thread closes hours and drops old days; 0: every 30 s;
    // negative: no thread, the caller calls store_maintain.
    int64_t maintain_nanos;
    int64_t keep_nanos;  // drop days that ended longer ago than this; 0: keep all. Age counts from
                         // the newest data if that is older than now (store/retention.h)
    uint64_t keep_bytes; // drop the oldest days above this size; 0: no limit
    uint64_t keep_free;  // drop the oldest days if less than this is free on the disk; 0: no limit
    const char *directory;  // local spool directory of a remote store
    int64_t (*clock)(void); // current time; NULL: CLOCK_REALTIME
    // A clock that cannot be set; NULL: clock, or CLOCK_BOOTTIME without one.
    int64_t (*uptime)(void);
    // Read-only; another process may have the store open. Only queries, store_backup and
    // store_check may be called.
    bool look_only;
    // Receives messages for the operator (a damaged day, a dropped day). Called by any thread. May
    // be NULL.
    void (*note)(void *ctx, const char *text);
    void *note_ctx;
};

// Opens a directory, which it creates if missing, or clickhouse://... (docs/guides/clickhouse.md).
// Takes milliseconds whatever the size of the store. Only one process may open a directory; a
// second one gets an error. Returns NULL and fills e on failure.
struct store *store_open(const char *where, const struct store_options *options, struct err *e);
// Commits all submitted puts, then closes. No other call may be running.
void store_close(struct store *store);

// `[A-Za-z0-9!._*'()-]{1,150}` and not `.` or `..`.
bool store_is_tenant(struct str tenant);

// --- writing ---

struct store_put {
    struct str tenant;
    // Sorted by name (bytewise), without duplicate or empty names. Must contain `__name__` and
    // `service_name`, and none of the labels that the store adds (see above).
    const struct store_label *labels;
    size_t n_labels;
    int64_t time;    // start of the profile, > 0; its day decides where the profile is stored
    bool is_untimed; // the sender gave no usable time: time is the arrival time and not part of the
                     // id
    int64_t duration;
    // The store keeps every sample type, the period and the stacks. Of the sample labels it keeps
    // only span_id and trace_id (strings of up to 16 and 32 hexadecimal digits); see store_split
    // for the others.
    const struct model_profile *profile;
    // Chosen by the sender. A put with the same tenant, labels, time and id as an earlier one (of
    // about the last day) is acknowledged and not stored again. Empty: no deduplication.
    struct str id;
};

enum { STORE_PUT_DAYS = 40 }; // maximum number of days in one call

// Stores all puts or none, and returns once they are durable. Concurrent callers share a commit.
// Returns STORE_BUSY immediately if the waiting puts would exceed the memory budget.
//
// Exceptions: each day is a file, so a crash between the commits of two days may keep one day of an
// unacknowledged put. Puts of more than two days, or more than 500 puts, are stored in parts: if
// one part fails, the call returns an error although the other parts are stored.
int store_put(struct store *store, const struct store_put *puts, size_t n, struct err *e);

// Like store_put, without waiting. A store thread calls done once, when the puts are durable (code
// 0) or have failed. Until then the caller keeps puts and everything they refer to alive. done must
// be quick and must not call the store. If the result is not 0, done is not called.
typedef void store_done_fn(void *ctx, int code, const struct err *e);
int store_submit(struct store *store, const struct store_put *puts, size_t n, store_done_fn *done,
                 void *ctx, struct err *e);

// Returns STORE_BUSY if profiles of this compressed size would be rejected now. A busy server asks
// before it decodes them, to avoid wasted work.
int store_expect(struct store *store, struct str tenant, size_t bytes, struct err *e);

// Splits a profile whose samples have string labels into one series per distinct label set;
// span_id, trace_id and profile_id do not count. Labels in `labels` take precedence, labels that
// the store adds are dropped, and the first of several values of a key wins. A profile without such
// labels or without samples becomes one series that shares all its data with p.
struct store_part {
    const struct store_label *labels; // sorted
    size_t n_labels;
    const struct model_profile *profile;
};
int store_split(const struct model_profile *p, const struct store_label *labels, size_t n_labels,
                struct arena *arena, struct store_part **parts, size_t *n_parts, struct err *e);

// --- queries ---

enum store_op { STORE_EQ, STORE_NE, STORE_RE, STORE_NRE };

// A missing label counts as empty. regex is used by STORE_RE and STORE_NRE; the code that compiles
// it anchors it.
struct store_matcher {
    enum store_op op;
    struct str name, value;
    struct model_regex *regex;
};

// Stacks that contain a function, or stacks below a call site. A frame is named by its function's
// name, else by its system name; see store/pick.h for frames without both.
struct store_filter {
    // A function of any frame; a stack counts once even if the function is in it several times.
    struct str function;
    // Alternative to function: the names of the first frames, starting at the root.
    const struct str *call_site;
    size_t n_call_site;
    // The store may join lines and label the result with the labels of any of them: a caller that
    // adds up all lines does not need them separately. Not for gauges, whose means are computed per
    // series.
    bool join_lines;
};

struct store_series;

// Splits a merge by time window and by series group, to measure how much the parts differ.
struct store_blocks {
    int64_t origin, step; // the window of a time is (time - origin) / step
    uint32_t n_windows;   // must cover every time of the select
    uint32_t n_groups;    // number of series groups; 0: none
    uint32_t (*group)(void *ctx, const struct store_series *series);
    void *ctx;
};

struct store_select {
    struct str tenant;
    struct str type; // __profile_type__; empty: all
    const struct store_matcher *matchers;
    size_t n_matchers;
    int64_t start, end;    // inclusive; start 0 and end INT64_MAX: everything
    const uint64_t *spans; // store_merge only: keep samples with one of these span ids
    size_t n_spans;
    // store_merge only: keep samples of one of these traces; exclusive with spans.
    const struct store_trace *traces;
    size_t n_traces;
    const struct store_filter *filter; // store_lines only: points count only these stacks
    // store_merge only, and not for gauges: extra results besides the sums.
    bool with_variance;
    const struct store_blocks *blocks; // NULL: none
};

// Parses up to 32 hexadecimal digits.
bool store_trace_parse(struct str text, struct store_trace *trace);

// Days that are unreadable, wholly or in part, are missing from the answer and counted here. The
// note callback has received the reason.
struct store_answer {
    uint32_t damaged_days; // includes format_days
    uint32_t format_days;
    // The first of them, one sentence each, for the client.
    uint32_t n_warnings;
    char warnings[4][160];
};

// A series as clients see it: all labels, sorted by name.
struct store_series {
    const struct store_label *labels;
    size_t n_labels;
    struct str type; // the value of __profile_type__
};

// Returns the matching series that have a profile in the range, sorted by labels.
int store_series(struct store *store, const struct store_select *select, struct arena *arena,
                 struct store_series **series, size_t *n, struct store_answer *answer,
                 struct err *e);

// A tree of stacks with values. A node is a frame below its parent. Node 0 is the root and has no
// location. A node comes after its parent, and no two nodes have the same parent and location.
struct store_stacks {
    uint32_t n_nodes;
    const uint32_t *parent;   // parent[0] is 0
    const uint32_t *location; // index into symbols->locations
    const int64_t *self;
    // Strings, functions, locations and mappings; no samples. types[0] is the requested type;
    // period_type and period are those of the profiles.
    const struct model_profile *symbols;
    uint64_t n_profiles;
    int64_t duration; // sum over all profiles
    // Sampling variance of self; NULL unless with_variance was set. is_counted: the weights of some
    // events are unknown, so each count is treated as one event.
    const double *variance;
    bool is_counted;
    // The share of self in each window, followed by each group: n_blocks values per node.
    const int64_t *blocks;
    uint32_t n_blocks, n_windows;
};

// Sums all profiles of the select; select->type is required. Gauges (inuse_*) are averaged over the
// profiles of each series, and the means are added up over the series. The result contains at least
// node 0.
int store_merge(struct store *store, const struct store_select *select, struct arena *arena,
                struct store_stacks **stacks, struct store_answer *answer, struct err *e);

// A point of a series on a time grid: a profile counts for the first start + i * step that is not
// before its time. Points are sorted by index; points without profiles are omitted.
struct store_point {
    int64_t index;
    double sum; // of the profile totals
    uint64_t n; // number of profiles, including those without a stack of the filter
    // Values of the filter's stacks. self: of the stacks that end in the function or at the call
    // site.
    double total, self;
};

struct store_line {
    struct store_series series;
    const struct store_point *points;
    size_t n_points;
};

// select->type is required; step > 0.
int store_lines(struct store *store, const struct store_select *select, int64_t step,
                struct arena *arena, struct store_line **lines, size_t *n,
                struct store_answer *answer, struct err *e);

// Whether a type is a gauge (inuse_* and goroutines): averaged over time, never added up.
bool store_type_is_gauge(struct str type_id);

struct store_stats {
    bool any;               // whether there is any profile
    int64_t oldest, newest; // rounded to the hour
    uint64_t bytes;         // on disk
    uint32_t days, damaged_days;
};
// Of one tenant, or of all if tenant is empty. budget may end the call early; it may be NULL.
int store_stats(struct store *store, struct str tenant, struct budget *budget,
                struct store_stats *stats, struct err *e);

// Counters since store_open, for /metrics.
struct store_counters {
    uint64_t profiles, samples, repeated; // stored; repeated: duplicates recognized by their id
    uint64_t commits, commit_nanos;
    uint64_t failed, refused; // puts; refused: rejected with STORE_BUSY
    uint64_t waiting_bytes;   // current size of the queued puts
    uint64_t cache_bytes;     // current
    uint64_t days_dropped, hours_closed;
    uint64_t close_failures; // failed attempts to close an hour of a service
    uint64_t bytes;          // like store_stats, up to some minutes old
    uint32_t days, damaged_days;
    // Of a remote store.
    bool remote, remote_up; // up: the remote store accepted the last batch
    uint64_t spool_bytes, spool_limit, spool_batches; // acknowledged but not yet sent
    uint64_t spool_nanos;                             // age of the oldest unsent data
    uint64_t remote_batches, remote_failures;
};
void store_counters(struct store *store, struct store_counters *counters);

int store_tenants(struct store *store, struct arena *arena, struct str **tenants, size_t *n,
                  struct err *e);

// --- maintenance ---

// Closes past hours (roll-ups) and drops days beyond the retention limits, as the maintenance
// thread does. all: closes the current hour too, for tests and exports.
int store_maintain(struct store *store, bool all, struct err *e);
// The clock's time, or an earlier time while the clock is far ahead of the data
// (store/retention.h).
int64_t store_time(const struct store *store);
// Deletes everything of a service before it returns, put ids included: a repeated put is stored
// again. *n: number of removed profiles. budget (may be NULL) limits the wait for another machine;
// a deletion that it ends can be repeated.
int store_delete_service(struct store *store, struct str tenant, struct str service,
                         struct budget *budget, uint64_t *n, struct err *e);
// Writes a consistent copy into directory to, which is created if missing and must not contain a
// store. Reads and writes continue meanwhile. If the call fails, the caller removes what is left in
// to.
int store_backup(struct store *store, const char *to, struct err *e);
// Reads everything and reports each defect as a line. Returns 0 if there is none, else
// STORE_CORRUPT.
int store_check(struct store *store, void (*found)(void *ctx, const char *text), void *ctx,
                struct err *e);

// Calls give for every stored profile, several at a time: as they were put, with late names
// included and with a stable id. They are valid until give returns. A non-zero result of give ends
// the call.
typedef int store_each_fn(void *ctx, const struct store_put *puts, size_t n, struct err *e);
int store_each(struct store *store, store_each_fn *give, void *ctx, struct err *e);

// --- late names ---

// An address without a function name, which a debug file can resolve. offset is the file offset:
// address - mapping start + mapping offset.
struct store_address {
    struct str build_id, file;
    uint64_t offset;
};
// Returns the addresses with build_id of all days in the range; an empty build_id: of any build id.
int store_unnamed(struct store *store, struct str tenant, struct str build_id, int64_t start,
                  int64_t end, struct arena *arena, struct store_address **addresses, size_t *n,
                  struct err *e);

struct store_frame {
    struct str name, system_name, file;
    int64_t line, start_line;
};
// Sets the frames (innermost first) that store_merge shows for the address, in old and new
// profiles. Durable on return. Replaces earlier names.
struct store_name {
    struct str build_id;
    uint64_t offset;
    const struct store_frame *frames;
    size_t n_frames;
};
int store_name(struct store *store, struct str tenant, const struct store_name *names, size_t n,
               struct err *e);
// Removes all names of a build id, whose debug file was replaced.
int store_forget_names(struct store *store, struct str tenant, struct str build_id, struct err *e);
