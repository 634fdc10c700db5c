// The call graph of a profile: nodes are distinct frames at the profile's granularity, edges are
// calls between them.
#pragma once

#include "report/report.h"

struct node_info {
    uint64_t address;
    int64_t start_line, line, column;
    uint32_t name, file, object;
};

struct node {
    struct node_info info;
    int64_t flat, flat_div, cum, cum_div;
    struct str name;   // printable; set for selected nodes
    uint64_t function; // identity of the function that the node belongs to
    bool may_be_inlined;
};

struct edge {
    uint32_t src, dst;
    int64_t weight, weight_div;
    size_t first;   // the first sample with it
    uint32_t place; // position among the edges before sorting
    bool residual, is_inline, dead;
};

// A label, or a number with a combination of labels, at a node.
struct tag {
    uint32_t node;
    uint32_t labels; // string id of the joined labels; 0: none
    uint32_t name;   // string id; 0: this is the string tag itself
    uint32_t unit;
    int64_t value;
    int64_t flat, flat_div, cum, cum_div;
    bool dead;
};

struct graph {
    struct report *r;
    struct arena *arena;
    const struct model_profile *p;

    struct node *nodes;
    size_t n_nodes, cap_nodes;
    struct hash_table node_index;
    uint32_t *first_node; // of each location, in location_nodes
    uint32_t *location_nodes;
    bool has_inlines;
    bool is_tree; // one node per path from the root

    uint32_t *selected; // what the report shows, in its order
    size_t n_selected;
    bool *is_kept; // NULL: all nodes have edges
    bool *matches; // nodes that match peek's symbol; NULL: not peek

    struct edge *edges;
    size_t n_edges, cap_edges;
    uint32_t *in_first, *in, *out_first, *out; // edges by node

    struct tag *tags;
    size_t n_tags, cap_tags;
    uint32_t *tag_first, *tag_list; // by node

    size_t n_original, n_dropped_nodes, n_dropped_edges;
};

// Builds the graph of r's profile, trimmed according to r's options.
struct graph *graph_new_trimmed(struct report *r);

// Builds all nodes that have values, unsorted, without edges: for list and disasm.
struct graph *graph_new_values(struct report *r);

// Builds nodes for every line of every location, without values: for traces.
struct graph *graph_new_nodes(struct report *r);

int64_t graph_value(int64_t value, int64_t divisor);
static inline int64_t node_flat(const struct node *n)
{
    return graph_value(n->flat, n->flat_div);
}
static inline int64_t node_cum(const struct node *n)
{
    return graph_value(n->cum, n->cum_div);
}

// Return edges into or out of a node, heaviest first; *n of them, allocated in the graph's arena.
uint32_t *graph_sorted_in(struct graph *g, uint32_t node, size_t *n);
uint32_t *graph_sorted_out(struct graph *g, uint32_t node, size_t *n);
void graph_sort_edges(struct graph *g, uint32_t *edges, size_t n);

// Replaces the output unit "minimum" by the unit that fits the displayed values.
void graph_select_unit(struct graph *g);

// The header of a graph report, joined by newlines.
struct str graph_labels(struct graph *g, bool full_headers);

// --- steps, internal to the graph files ---

void graph_make_nodes(struct graph *g);
void graph_select_nodes(struct graph *g);
void graph_count_values(struct graph *g);
void graph_build_tree(struct graph *g);
void graph_trim_tree(struct graph *g, const bool *kept);
// Counts the edges between kept nodes.
void graph_connect(struct graph *g);
// Counts the tags of kept nodes. With leaves_only, only tags at the end of some stack: far fewer,
// and enough to count the tags that a node shows.
void graph_tag(struct graph *g, bool leaves_only);
// Like graph_connect, but only for edges into nodes that can be inlined, which is all that a table
// needs.
void graph_connect_inlined(struct graph *g);
// Only edges into and out of the nodes of interest. Residual edges are not marked.
void graph_connect_around(struct graph *g, const bool *interest);
void graph_index_edges(struct graph *g);
struct str node_printable_name(struct graph *g, const struct node_info *info);

// --- names ---

// A function's name without package or namespace, for boxes in a graph.
struct str name_shorten(struct arena *arena, struct str name);
// The shortest equivalent path, like Go's filepath.Clean.
struct str path_clean(struct arena *arena, struct str path);
struct str path_base(struct str path);
// Removes the next element of a colon-separated list; returns false if there is none.
bool path_next(struct str *list, struct str *item);
// Removes the prefixes given by trim_path or implied by source_path.
struct str path_trim(struct str path, struct str trim_path, struct str source_path);
