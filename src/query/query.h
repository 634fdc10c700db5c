// Queries over the store: label selectors, merged stacks as trees and flame graphs, their
// differences, time series, lists of labels.
//
// Results are allocated in the arena that the caller passes; they refer to arguments only where
// documented. There is no global state: any number of threads may call these functions, each with
// its own arena. Functions return 0, or an enum store_code and fill e.
#pragma once

#include "base/out.h"
#include "store/store.h"

// --- selectors ---

struct query_selector {
    struct store_matcher *matchers;
    size_t n;
};

// A limit, because every series is compared with each matcher.
enum { QUERY_MAX_MATCHERS = 256 };

// Parses a selector in PromQL syntax: `{service_name="x", region=~"eu.*", "host.name"!="",
// job!~"a|b"}`. A name before the braces, or a quoted name alone between them, matches __name__.
// Comments begin with #. Values and names are quoted as in Go ("..." with escapes, '...' or `...`).
// Regular expressions use Go's syntax, match the whole value, and have a time limit. On failure
// returns STORE_BAD_INPUT; the error has the byte position and what was expected there.
int query_selector(struct str text, struct arena *arena, struct query_selector *selector,
                   struct err *e);
// Checks a profile type id of five parts; a sixth part is removed. Returns STORE_BAD_INPUT on
// failure.
int query_type(struct str *id, struct err *e);
// Returns the type that counts the events of a type: `samples:count` for a time type of the same
// name. Returns id itself if it is a count, and an empty string if there is none.
struct str query_count_type(struct str id, struct arena *arena);
// Whether the type is CPU time in nanoseconds, whose rate is a number of cores. Wall time, time off
// the CPU and time spent waiting for locks are nanoseconds, too, but not of a core.
bool query_type_is_cpu(struct str id);

// --- trees of function names ---

// A tree of stacks. Frames with equal names under one parent are one node; inlined calls have their
// own nodes. Node 0 is the root. A node comes after its parent; siblings are sorted by name.
struct query_tree {
    uint32_t n_nodes;
    uint32_t *parent;
    uint32_t *name; // index into names
    int64_t *self, *total;
    struct str *names; // names[0] is "total"
    uint32_t n_names;
};

enum { QUERY_MAX_NODES = 8192 }; // the default limit

// keep: keep only stacks that begin (at the root) with these names in this order; n_keep 0: all.
int query_tree(const struct store_stacks *stacks, const struct str *keep, size_t n_keep,
               struct arena *arena, struct query_tree **tree, struct err *e);
// Keeps at most max_nodes nodes with the largest totals (0: QUERY_MAX_NODES; negative: all). Each
// node that loses children gets an "other" child.
struct query_tree *query_truncate(const struct query_tree *tree, int64_t max_nodes,
                                  struct arena *arena);

// Prepares a truncated tree for a flame graph. As in Pyroscope, it is cut a second time, now with
// the "other" nodes counted (max_nodes > 0), and frames named "other" have no children.
struct query_tree *query_gather(const struct query_tree *tree, int64_t max_nodes,
                                struct arena *arena);

// --- functions ---

// The functions of stacks and their costs, in units of the stacks' values. Variances are 0 unless
// with_variance was set.
struct query_cost {
    struct str name;
    double self, self_variance;
    double total, total_variance; // a stack counts once even if the function is in it several times
};

struct query_functions {
    struct query_cost *items;
    uint32_t n;
    double value, variance; // of everything that has a stack
    // The frames of a location, leaf first: frames[first[location]] to frames[first[location + 1]].
    uint32_t *first, *frames;
};

int query_functions(const struct store_stacks *stacks, struct arena *arena,
                    struct query_functions **functions, struct err *e);
// Writes the functions of a node's stack, leaf first, to `to`, at most max of them. Returns how
// many.
size_t query_functions_of(const struct query_functions *f, const struct store_stacks *stacks,
                          uint32_t node, uint32_t *to, size_t max);

// --- flame graphs in Pyroscope's format ---

struct query_level {
    int64_t *values;
    size_t n;
};

// A level is a flat list: 4 numbers per node (offset from the end of the previous node, total,
// self, name), in a diff 7 (three for the left side, three for the right side, name).
struct query_flame {
    struct str *names;
    size_t n_names;
    struct query_level *levels;
    size_t n_levels;
    int64_t total, max_self;
    int64_t left_ticks, right_ticks; // of a diff
};

// The tree is truncated to max_nodes by query_truncate and query_gather.
int query_flame(const struct query_tree *tree, int64_t max_nodes, struct arena *arena,
                struct query_flame *flame, struct err *e);
int query_diff(const struct query_tree *left, const struct query_tree *right, int64_t max_nodes,
               struct arena *arena, struct query_flame *flame, struct err *e);
// Writes Pyroscope's tree format 2: in preorder, uvarint name length, name, uvarint self, uvarint
// number of children. The first node is the root, without a name.
int query_tree_bytes(const struct query_tree *tree, int64_t max_nodes, struct arena *arena,
                     struct out *out, struct err *e);

// --- pprof ---

// Builds a profile with one sample type from stacks. max_nodes > 0 cuts stacks whose nodes are not
// among the largest: their values go to a frame "other" below the deepest remaining node. start and
// duration are set in the profile. The variance of stacks becomes event weights, and their blocks
// those of model/blocks.h. With blocks, the period is a small fraction of an event, and the weights
// are valid for any kind of event.
int query_profile(const struct store_stacks *stacks, int64_t max_nodes, int64_t start,
                  int64_t duration, struct arena *arena, struct model_profile **profile,
                  struct err *e);

// --- splitting the sides of a diff ---

struct query_pods {
    struct str *items; // sorted
    size_t n, n_groups;
    struct str label; // of the first series with a pod; empty: none has one
};

struct query_blocks {
    struct store_blocks sides[2];
    struct query_pods pods[2];
};

// Decides how to split two selects for a comparison: into time windows and, if their pods differ,
// into groups of pods. The split depends only on stored data. sides[i] belongs to selects[i] and
// points into blocks, which must stay in place.
int query_blocks(struct store *store, const struct store_select selects[2], struct arena *arena,
                 struct query_blocks *blocks, struct store_answer *answer, struct err *e);

// --- time series ---

enum query_aggregation { QUERY_SUM, QUERY_AVERAGE };

// The largest single profile of a point.
struct query_exemplar {
    struct str id; // for query_select_profile
    int64_t time;  // nanoseconds
    double value;
    struct store_label *labels; // labels that are not labels of the series
    size_t n_labels;
};

struct query_point {
    int64_t time; // nanoseconds, on the grid
    double value;
    double total, self; // of the select's filter
    struct query_exemplar *exemplar;
};

struct query_series {
    struct store_label *labels; // labels in group_by, sorted by name
    size_t n_labels;
    struct query_point *points;
    size_t n_points;
};

struct query_series_options {
    const struct str *group_by; // none: a single series of everything
    size_t n_group_by;
    int64_t step; // nanoseconds, > 0
    enum query_aggregation aggregation;
    size_t limit; // keep the series with the largest sums; 0: all
};

// Time series of a select. SUM adds up the profiles of a step; gauges (inuse_*) are averaged over
// the profiles of each series, and the means are added up. AVERAGE is the mean of the profiles of a
// step. Series are sorted by their labels, or by their sums if there is a limit. With a filter in
// select, points also have its total and self, and the limit uses the filter's sums.
int query_series(struct store *store, const struct store_select *select,
                 const struct query_series_options *options, struct arena *arena,
                 struct query_series **series, size_t *n, struct store_answer *answer,
                 struct err *e);
// Adds exemplars to the result of query_series. Profiles of a series with the same time are
// indistinguishable and cannot be exemplars.
int query_exemplars(struct store *store, const struct store_select *select,
                    const struct query_series_options *options, struct arena *arena,
                    struct query_series *series, size_t n, struct store_answer *answer,
                    struct err *e);
// Restricts select to the profile with an exemplar's id. *found is false if there is none.
int query_select_profile(struct store *store, struct store_select *select, struct str id,
                         struct arena *arena, bool *found, struct store_answer *answer,
                         struct err *e);

// --- labels ---

// Both return sorted lists without duplicates.
int query_label_names(struct store *store, const struct store_select *select, struct arena *arena,
                      struct str **names, size_t *n, struct store_answer *answer, struct err *e);
int query_label_values(struct store *store, const struct store_select *select, struct str name,
                       struct arena *arena, struct str **values, size_t *n,
                       struct store_answer *answer, struct err *e);
// The values of __profile_type__, sorted.
int query_types(struct store *store, const struct store_select *select, struct arena *arena,
                struct str **types, size_t *n, struct store_answer *answer, struct err *e);
// The distinct label sets restricted to names (n_names 0: all labels), sorted.
int query_label_sets(struct store *store, const struct store_select *select,
                     const struct str *names, size_t n_names, struct arena *arena,
                     struct store_series **sets, size_t *n, struct store_answer *answer,
                     struct err *e);
