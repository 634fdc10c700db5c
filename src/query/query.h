// What is asked of the store: label selectors, merged stacks as trees and flame graphs, their
// differences, time series, lists of labels.
//
// Everything that is returned is in the arena that was given, and refers to arguments only where
// that is said. Nothing here has state: any number of threads, each with its own arena. Functions
// return 0 or an enum store_code with e filled.
#pragma once

#include "base/out.h"
#include "store/store.h"

// --- selectors ---

struct query_selector {
    struct store_matcher *matchers;
    size_t n;
};

// Every series is compared with each of them.
enum { QUERY_MAX_MATCHERS = 256 };

// `{service_name="x", region=~"eu.*", "host.name"!="", job!~"a|b"}`, as PromQL has it: a name
// before the braces, or in quotes and alone between them, is that of __name__; comments begin with
// #. Values and names are quoted as in Go ("..." with escapes, '...' or `...`); regular expressions
// are Go's, match the whole value, and are given up where they take too long. The error says at
// which byte what was expected. STORE_BAD_INPUT.
int query_selector(struct str text, struct arena *arena, struct query_selector *selector,
                   struct err *e);
// A profile type id has five parts; a sixth is cut off. STORE_BAD_INPUT.
int query_type(struct str *id, struct err *e);
// The type that counts the events of a type: `samples:count` beside time of the same name. Itself
// if it is one; empty if there is none.
struct str query_count_type(struct str id, struct arena *arena);
// Whether the type is CPU time in nanoseconds, whose rate is a number of cores. Wall time, time off
// the CPU and time spent waiting for locks are nanoseconds, too, but not of a core.
bool query_type_is_cpu(struct str id);

// --- trees of function names ---

// Frames with equal names under one parent are one node; inlined calls are nodes of their own.
// Node 0 is the root. A node comes after its parent; siblings are in the order of their names.
struct query_tree {
    uint32_t n_nodes;
    uint32_t *parent;
    uint32_t *name; // into names
    int64_t *self, *total;
    struct str *names; // names[0] is "total"
    uint32_t n_names;
};

enum { QUERY_MAX_NODES = 8192 }; // what 0 means

// keep: only stacks that begin (at the root) with these names, in this order; n_keep 0: all.
int query_tree(const struct store_stacks *stacks, const struct str *keep, size_t n_keep,
               struct arena *arena, struct query_tree **tree, struct err *e);
// The tree with at most max_nodes of the largest totals (0: QUERY_MAX_NODES; negative: all) and,
// beside the survivors, an "other" under each node that lost children.
struct query_tree *query_truncate(const struct query_tree *tree, int64_t max_nodes,
                                  struct arena *arena);

// What a flame graph shows of it: Pyroscope cuts a second time, where the "other" of the first
// count as nodes (max_nodes > 0), and shows nothing below a frame of that name.
struct query_tree *query_gather(const struct query_tree *tree, int64_t max_nodes,
                                struct arena *arena);

// --- functions ---

// The functions of stacks, numbered. Values as the stacks have them; the variance is 0 if nobody
// asked the store for it.
struct query_cost {
    struct str name;
    double self, self_variance;
    double total, total_variance; // a stack counts once, however often the function is in it
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
// The functions of a node's stack, leaf first, into to, which has room for max; those beyond it are
// left out. Returns how many.
size_t query_functions_of(const struct query_functions *f, const struct store_stacks *stacks,
                          uint32_t node, uint32_t *to, size_t max);

// --- flame graphs in Pyroscope's form ---

struct query_level {
    int64_t *values;
    size_t n;
};

// Each level is a flat list: of 4 numbers a node (offset from the end of the one before, total,
// self, name), in a diff of 7 (the left's three, the right's three, name).
struct query_flame {
    struct str *names;
    size_t n_names;
    struct query_level *levels;
    size_t n_levels;
    int64_t total, max_self;
    int64_t left_ticks, right_ticks; // of a diff
};

// The tree is truncated to max_nodes as query_truncate and query_gather do.
int query_flame(const struct query_tree *tree, int64_t max_nodes, struct arena *arena,
                struct query_flame *flame, struct err *e);
int query_diff(const struct query_tree *left, const struct query_tree *right, int64_t max_nodes,
               struct arena *arena, struct query_flame *flame, struct err *e);
// Pyroscope's tree bytes (format 2): preorder uvarint name length, name, uvarint self, uvarint
// number of children; the first node is the root, without a name.
int query_tree_bytes(const struct query_tree *tree, int64_t max_nodes, struct arena *arena,
                     struct out *out, struct err *e);

// --- pprof ---

// One sample type, the stacks as they came, the names that are known. max_nodes > 0 cuts the
// stacks whose nodes are not among the largest: their values go to a frame "other" below the
// deepest survivor. start and duration are the profile's own. The variance of stacks becomes the
// weights of events, their blocks those of model/blocks.h; with these the period is a small part of
// an event, and the weights are those of whatever counts as an event.
int query_profile(const struct store_stacks *stacks, int64_t max_nodes, int64_t start,
                  int64_t duration, struct arena *arena, struct model_profile **profile,
                  struct err *e);

// --- the sides of a diff in parts ---

struct query_pods {
    struct str *items; // sorted
    size_t n, n_groups;
};

struct query_blocks {
    struct store_blocks sides[2];
    struct query_pods pods[2];
};

// How to split two selects that are to be compared: into windows of time, and if they are not of
// the same pods, into groups of those. The parts depend on what is stored only. sides[i] is for
// selects[i], and good as long as blocks is where it is.
int query_blocks(struct store *store, const struct store_select selects[2], struct arena *arena,
                 struct query_blocks *blocks, struct store_answer *answer, struct err *e);

// --- time series ---

enum query_aggregation { QUERY_SUM, QUERY_AVERAGE };

// The largest single profile of a point.
struct query_exemplar {
    struct str id; // for query_select_profile
    int64_t time;  // nanoseconds
    double value;
    struct store_label *labels; // those that are not of the series
    size_t n_labels;
};

struct query_point {
    int64_t time; // nanoseconds, on the grid
    double value;
    double total, self; // of select's filter
    struct query_exemplar *exemplar;
};

struct query_series {
    struct store_label *labels; // those of group_by that the series have, sorted by name
    size_t n_labels;
    struct query_point *points;
    size_t n_points;
};

struct query_series_options {
    const struct str *group_by; // none: one series of everything
    size_t n_group_by;
    int64_t step; // nanoseconds, > 0
    enum query_aggregation aggregation;
    size_t limit; // the series with the largest sums; 0: all
};

// SUM adds up the profiles of a step; types that are a state (inuse_*) are averaged over the
// profiles of each series and then added up. AVERAGE is the mean of the profiles of a step.
// Series are in the order of their labels (by their sums with a limit). With a filter in select,
// points have its total and self beside the value of everything, and sums are those of the filter.
int query_series(struct store *store, const struct store_select *select,
                 const struct query_series_options *options, struct arena *arena,
                 struct query_series **series, size_t *n, struct store_answer *answer,
                 struct err *e);
// Adds exemplars to what query_series returned. Only profiles that are not rolled up have one.
int query_exemplars(struct store *store, const struct store_select *select,
                    const struct query_series_options *options, struct arena *arena,
                    struct query_series *series, size_t n, struct store_answer *answer,
                    struct err *e);
// Narrows select to the profile of an exemplar's id; found is false where it has none such.
int query_select_profile(struct store *store, struct store_select *select, struct str id,
                         struct arena *arena, bool *found, struct store_answer *answer,
                         struct err *e);

// --- labels ---

// Sorted, each once.
int query_label_names(struct store *store, const struct store_select *select, struct arena *arena,
                      struct str **names, size_t *n, struct store_answer *answer, struct err *e);
int query_label_values(struct store *store, const struct store_select *select, struct str name,
                       struct arena *arena, struct str **values, size_t *n,
                       struct store_answer *answer, struct err *e);
// The values of __profile_type__, sorted.
int query_types(struct store *store, const struct store_select *select, struct arena *arena,
                struct str **types, size_t *n, struct store_answer *answer, struct err *e);
// The label sets restricted to names (n_names 0: all labels), each once, in order.
int query_label_sets(struct store *store, const struct store_select *select,
                     const struct str *names, size_t n_names, struct arena *arena,
                     struct store_series **sets, size_t *n, struct store_answer *answer,
                     struct err *e);
