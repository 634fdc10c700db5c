// What changed in a service, when, and since which deploy.
//
// The job that watches services calls, at every new window:
//
//     stats_changes_scan     for each service and profile type: steps in its total and its
//     functions stats_changes_adjust   over all of them: the false discovery rate
//     stats_changes_settle   for each service with a step: what is new, and why
//
// and keeps the entries. They come back as `known` at the next call, so that nothing is reported
// twice, whatever was restarted in between: an entry is the same if function, direction and time
// (within its interval) are.
//
// A step is confirmed by a comparison of stacks before and after, at the same times of day
// (stats/functions.h). It tells culprits from callers and from functions whose share fell because
// another one's rose, and cost shifts from costs.
#pragma once

#include "stats/functions.h"
#include "stats/steps.h"

// Of the false discovery rate. Less than that of a comparison that somebody asked for: a false
// alarm costs more, and the noise of series is known less well than that of runs.
#define STATS_CHANGES_LEVEL 0.01

struct stats_point {
    uint32_t window;
    struct stats_cell self, total;
};

struct stats_timeline {
    struct str name;
    const struct stats_point *points; // by window; those without a value may be missing
    size_t n;
};

struct stats_range {
    int64_t start, end; // ns
};

struct stats_stacks;

// A service and a profile type.
struct stats_service {
    struct stats_history history;
    const struct stats_timeline *functions; // no name twice
    size_t n_functions;
    bool absolute; // values do not depend on load, such as memory in use
    // Calls stats_stacks_add for the stacks of each range. It is called more than once and must
    // give the same stacks each time. side: 0 or 1 of stats_changes_compare, else 0.
    void (*stacks)(void *context, struct stats_range range, int side, struct stats_stacks *to);
    void *context;
};

// From stats_service.stacks: functions by number, leaf first; one may occur several times.
void stats_stacks_add(struct stats_stacks *to, const uint32_t *functions, size_t n,
                      struct stats_cell cell);

enum stats_measured {
    STATS_SERVICE, // the total of the service
    STATS_SELF,
    STATS_TOTAL,
};

struct stats_candidate {
    enum stats_measured measured;
    uint32_t function; // not with STATS_SERVICE
    struct stats_step step;
    double q; // set by stats_changes_adjust
};

struct stats_candidates {
    struct stats_candidate *items;
    size_t n, cap;
    size_t n_tested; // series
};

enum stats_verdict {
    STATS_UNSURE,    // the stacks do not show it yet; tested again later
    STATS_LASTING,   // a change with a cost
    STATS_SHIFT,     // work that moved from or to another function: no net cost
    STATS_EXPLAINED, // by `because`: a caller of a culprit, or the rest of the service
};

struct stats_entry {
    enum stats_verdict verdict;
    enum stats_measured measured;
    struct str function;     // empty with STATS_SERVICE
    struct str because;      // of STATS_EXPLAINED, and of STATS_SHIFT: the caller it happened in
    int64_t time, low, high; // of the step and its 95 % interval, ns
    double before, after;    // shares of the total; of STATS_SERVICE and absolute ones: per second
    double deviation;        // of after - before
    double deviations[2];    // of before and after alone; only from stats_changes_compare
    double cost;             // per second, in the unit of the values
    double q;
    const struct stats_marker *marker; // or NULL
    struct stats_range sides[2];       // to compare by hand
    int64_t checked;                   // the end of the history
};

// Whether two entries are the same change of a function, whichever of its values shows it.
bool stats_entry_same(const struct stats_entry *a, const struct stats_entry *b);
// Whether an entry may only show that the load differs. Work that does not depend on requests takes
// a larger share of a pod with fewer of them; a change must be more than that, by more than noise.
// load: of a profile after / before, with its deviation in parts of it.
bool stats_entry_is_due_to_load(const struct stats_entry *e, double load, double deviation,
                                double level);

struct stats_report {
    // New ones. One that is the same as a known UNSURE entry takes its place.
    struct stats_entry *entries;
    size_t n, cap;
    uint32_t *gone; // indices of known LASTING entries whose series went back
    size_t n_gone, cap_gone;
    // Of stats_changes_compare: what most functions use in side 1 / in side 0, and the deviation of
    // that in parts of it.
    double scale, scale_deviation;
};

// All of these allocate in arena, which the caller has under ARENA_TRY.
void stats_changes_scan(const struct stats_service *service, struct arena *arena,
                        struct stats_candidates *found);
void stats_changes_adjust(struct stats_candidates *services, size_t n, struct arena *arena);
// known may contain entries of any age.
void stats_changes_settle(const struct stats_service *service, const struct stats_candidates *found,
                          const struct stats_entry *known, size_t n_known, double level,
                          struct arena *arena, struct stats_report *report);
// Two versions that run at the same time, such as a canary: side 1 against side 0 over the windows
// of the history. marker: the deploy of side 1.
void stats_changes_compare(const struct stats_service *service, const struct stats_marker *marker,
                           const struct stats_entry *known, size_t n_known, double level,
                           struct arena *arena, struct stats_report *report);
