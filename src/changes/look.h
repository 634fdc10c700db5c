// One look at a tenant, and the parts of it.
//
// A look goes on in turns (turns.c), each with the database opened again. Between two turns it
// keeps what it watches and the candidates that it has found.
#pragma once

#include "changes/state.h"

struct watched;

struct watching {
    struct watched *items;
    struct stats_candidates *found; // of each
    size_t n, at;                   // at: the next one
    bool is_listed;                 // items are known
    bool settles;                   // all have been scanned; those with candidates are settled
    unsigned n_errors;
};

struct look {
    struct changes *c;
    struct db *db; // of this turn
    struct str tenant;
    int64_t window, begin, end; // of the history: begin to end
    struct watching watching;
    // Of a series and of a piece of its history: who catches a jump out of another arena frees
    // them.
    struct arena *series, *chunk;
};

// A service and a profile type.
struct watched {
    struct str service, type;
    bool gauge;
    int64_t id, read_until;
};

enum { LOOK_SERIES = 8 }; // that a turn reads

// A turn of a look. arena outlives the turn; it may jump out of it. 1: the look is not over, 0: it
// is, else an enum store_code.
int look_go_on(struct look *l, struct arena *arena, struct err *e);

// --- turns ---

// The end of the last complete window.
int64_t turns_window(const struct changes *c, int64_t now);
// Looks at all tenants with a history that ends there. A tenant whose look is under way gets
// another one afterwards.
int turns_begin(struct changes *c, int64_t end, struct err *e);
// The next tenant's turn. False: no look is under way. *code: why the tenant's look has failed, 0
// if it has not.
bool turns_next(struct changes *c, int *code, struct err *e);
// Gives up all looks; they begin again at the next turns_begin.
void turns_drop(struct changes *c);

// --- the job ---

// After work outside of a transaction: waits until the job's share of the CPU is kept.
void job_throttle(struct changes *c);
// The same; jumps out of arena when the look is to end.
void job_rest(struct changes *c, struct arena *arena);
void job_note(struct changes *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Frees what a jump has left behind.
void look_clear(struct look *l);
// Begins a transaction for what was read of a series: STORE_BUSY if its service has been deleted.
int look_begin(struct look *l, const struct watched *w, struct err *e);

// --- windows ---

// Brings what is kept of a series up to date with the store: windows that are new, and those whose
// number of profiles has changed. In arena, out of which it may jump.
int windows_read(struct look *l, struct watched *w, struct arena *arena, struct err *e);

struct history {
    struct stats_window *windows;
    size_t n, cap;
    struct stats_timeline *functions;
    size_t *cap_points;
    size_t n_functions;
    uint32_t others;         // of the functions: in the place of those that are not known
    struct hash_table index; // of their names
};

int windows_load(const struct look *l, const struct watched *w, struct arena *arena,
                 struct history *h, struct err *e);
uint32_t history_function(const struct history *h, struct str name);

// A cell of a window or a longer time: what is a state counts for as long as it lasts.
struct stats_cell window_cell(double value, double variance, double weight, double seconds);
// The least that a sampled object of a state represents. Other types have variances of their own.
double gauge_weight(const struct watched *w, const struct model_profile *symbols);

// Which profiles of a series: those with the label, or all of them if it has no name. end is
// exclusive. The result refers to matchers, which have room for another one.
enum { WINDOW_MATCHERS = 3 };
struct store_select window_select(const struct look *l, const struct watched *w,
                                  const struct store_label *version, int64_t start, int64_t end,
                                  struct store_matcher matchers[WINDOW_MATCHERS]);
// The stacks of a time. with_variance, where the type has one.
int windows_merge(const struct look *l, const struct watched *w, const struct store_label *version,
                  int64_t start, int64_t end, struct arena *arena, struct store_stacks **stacks,
                  struct err *e);

enum { MAX_DEPTH = 4096 }; // of stacks

// Reads stacks for the statistics: context of stats_service.stacks.
struct stacks_reader {
    struct look *look;
    const struct watched *watched;
    const struct history *history;
    struct arena *arena;
    const struct store_label *versions; // of each side; NULL: all profiles
    struct range_parts *ranges;         // that have been read
    uint32_t *frames;                   // room for MAX_DEPTH
};
void range_stacks(void *reader, struct stats_range range, int side, struct stats_stacks *to);

// --- deploys ---

// Notes which values of deploy labels the lines of a service have, and marks new ones. Called in a
// transaction. Point i of a line is of the time origin + (i - 1) * step.
int deploys_note(struct look *l, struct str service, const struct store_line *lines, size_t n,
                 int64_t origin, int64_t step, struct arena *arena, struct err *e);
// What may have caused a change in the service, in the order of time.
int deploys_load(const struct look *l, struct str service, struct arena *arena,
                 struct stats_marker **markers, size_t *n, struct err *e);

// The label of these lines that tells versions; empty: none does.
struct str deploys_label(const struct changes_options *options, const struct store_line *lines,
                         size_t n);
// Empty: the series does not have it.
struct str deploys_value(const struct store_series *series, struct str label);
// label=value
struct str deploys_text(struct str label, struct str value, struct arena *arena);

// --- versions that run at the same time ---

// Keeps which versions have a large part of the profiles of each window that is to be noted, the
// first of which begins at origin. In a transaction. Lines as in deploys_note.
int runs_note(struct look *l, const struct watched *w, const struct store_line *lines, size_t n,
              int64_t origin, int64_t step, const bool *is_noted, size_t n_windows,
              struct arena *arena, struct err *e);
// Compares versions of a series that ran at the same time, and looks after what was found so
// earlier. *n: lasting changes that are new.
int canary_series(struct look *l, const struct watched *w, struct arena *arena, size_t *n,
                  struct err *e);

// --- settling ---

// Confirms what was found in a series by its stacks, and keeps the result. *n: lasting changes that
// are new.
int settle_series(struct look *l, const struct watched *w, const struct stats_candidates *found,
                  struct arena *arena, size_t *n, struct err *e);

// --- entries ---

// What is known of a series: entries as the statistics take them, in which those that are gone hide
// little, and beside each what is kept.
struct known {
    struct stats_entry *entries;
    struct known_entry {
        int64_t id, gone, high;
        enum stats_verdict verdict;
        struct changes_versions versions;
    } * more;
    size_t n, cap, cap_more;
};
int entries_load(const struct look *l, const struct watched *w, struct arena *arena,
                 struct known *known, struct err *e);
// In a transaction. An entry takes the place of an uncertain one that is the same; versions: NULL
// if it is not about versions. *n grows by the lasting ones.
int entries_add(struct look *l, const struct watched *w, struct known *known,
                const struct stats_entry *entries, size_t n_entries,
                const struct changes_versions *versions, size_t *n, struct err *e);
// The same. Until when it went on, and when it ended.
int entries_update(struct look *l, int64_t id, int64_t high, int64_t gone, struct err *e);

// The entry of a row that begins with CHANGE_COLUMNS.
#define CHANGE_COLUMNS                                                                   \
    "change.id, verdict, measured, change.function, because, change.time, low, high, "   \
    "before, after, deviation, cost, q, marker_time, marker, before_start, before_end, " \
    "after_start, after_end, checked, found, gone, version_label, version_before, "      \
    "version_after, version_part"
enum { CHANGE_N_COLUMNS = 26 };
struct stats_entry change_entry(sqlite3_stmt *s, struct arena *arena);
struct changes_versions change_versions(sqlite3_stmt *s, struct arena *arena);
// The same with what people said about it, of a row that begins with LIST_COLUMNS.
#define LIST_COLUMNS                                                                          \
    CHANGE_COLUMNS ", change.service, change.type, acknowledged, change.who, change.comment," \
                   " mute.time, mute.until, mute.who, mute.comment"
#define LIST_TABLES                                                                          \
    "change LEFT JOIN mute ON mute.service = change.service AND mute.type = change.type AND" \
    " mute.function = change.function"
enum { LIST_N_COLUMNS = CHANGE_N_COLUMNS + 9 };
struct changes_entry list_entry(sqlite3_stmt *s, int64_t now, struct arena *arena);
