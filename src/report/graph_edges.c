// The edges of a graph. Each thread counts the edges of its windows; an edge keeps its first
// sample, so that the order of all edges is that of one thread.
#include "report/tagger.h"

#include "base/sort.h"
#include "model/stream.h"
#include "model/units.h"

// The edges that one thread counted.
struct connector {
    const struct graph *g;
    struct arena *arena;
    struct edge *edges;
    size_t n_edges, cap_edges;
    struct hash_table index;
    // The last edge into each node: stacks are often similar.
    struct {
        uint32_t parent, edge;
    } * last;
};

// Which edges to count, and how.
struct connection {
    const struct graph *g;
    void (*connect)(struct connector *c, const struct connection *how,
                    const struct model_profile *p, size_t sample, size_t index);
    const bool *interest; // by node
    bool outgoing;        // also edges out of these nodes
    // For each location: whether it has such a node, and its innermost and outermost kept node.
    uint8_t *interesting;
    uint32_t *innermost, *outermost;
    struct connector *connectors[PARALLEL_MOST]; // by worker
};

static uint32_t find_or_add_edge(struct connector *c, uint32_t src, uint32_t dst, size_t sample)
{
    if (c->last[dst].parent == src)
        return c->last[dst].edge;
    uint64_t hash = hash_mix(src, dst);
    uint32_t edge = MODEL_NONE;
    for (struct hash_probe at = hash_find(&c->index, hash); hash_hit(&c->index, &at);
         hash_next(&c->index, &at)) {
        if (c->edges[at.item].src == src && c->edges[at.item].dst == dst) {
            edge = at.item;
            break;
        }
    }
    if (edge == MODEL_NONE) {
        c->edges = arena_push(c->arena, c->edges, c->n_edges, &c->cap_edges, sizeof *c->edges);
        edge = (uint32_t)c->n_edges++;
        c->edges[edge] = (struct edge){.src = src, .dst = dst, .is_inline = true, .first = sample};
        hash_add(&c->index, c->arena, hash, edge);
    }
    c->last[dst].parent = src;
    c->last[dst].edge = edge;
    return edge;
}

// Counts a sample once per edge; the outermost occurrence decides its flags.
static inline void add_to_edge(struct connector *c, uint32_t src, uint32_t dst, size_t sample,
                               struct weight w, bool residual, bool is_inline)
{
    uint32_t index = find_or_add_edge(c, src, dst, sample);
    struct edge *e = &c->edges[index];
    if (e->seen == sample + 1)
        return;
    e->seen = sample + 1;
    e->weight = units_add(e->weight, w.value);
    e->weight_div = units_add(e->weight_div, w.divisor);
    e->residual |= residual;
    e->is_inline &= is_inline;
}

static void connect_sample(struct connector *c, const struct connection *how,
                           const struct model_profile *p, size_t s, size_t index)
{
    (void)how;
    const struct graph *g = c->g;
    struct weight w = sample_weight(g, p, s);
    if (w.value == 0 && w.divisor == 0)
        return;
    const uint32_t *frames = model_stack(p, s);
    uint32_t parent = MODEL_NONE;
    bool residual = false;
    arena_spend(c->arena, 1 + p->stack_len[s]);
    for (uint32_t i = p->stack_len[s]; i-- > 0;) {
        uint32_t first = g->first_node[frames[i]], last = g->first_node[frames[i] + 1] - 1;
        for (uint32_t k = last + 1; k-- > first;) {
            uint32_t node = g->location_nodes[k];
            if (g->is_kept && !g->is_kept[node]) {
                residual = true;
                continue;
            }
            if (parent != MODEL_NONE && parent != node)
                add_to_edge(c, parent, node, index, w, residual, k != last);
            parent = node;
            residual = false;
        }
    }
}

// Finds only edges into the nodes of interest, and if outgoing also out of them. Other frames cost
// only a lookup.
static void connect_interesting(struct connector *c, const struct connection *how,
                                const struct model_profile *p, size_t s, size_t index)
{
    const struct graph *g = c->g;
    struct weight w = sample_weight(g, p, s);
    if (w.value == 0 && w.divisor == 0)
        return;
    const uint32_t *frames = model_stack(p, s);
    uint32_t n = p->stack_len[s];
    arena_spend(c->arena, 1 + n);
    for (uint32_t i = n; i-- > 0;) {
        if (!how->interesting[frames[i]])
            continue;
        uint32_t parent = MODEL_NONE;
        for (uint32_t up = i + 1; up < n && parent == MODEL_NONE; up++) {
            arena_spend(c->arena, 1);
            parent = how->innermost[frames[up]];
        }
        uint32_t first = g->first_node[frames[i]], last = g->first_node[frames[i] + 1] - 1;
        for (uint32_t k = last + 1; k-- > first;) {
            uint32_t node = g->location_nodes[k];
            if (g->is_kept && !g->is_kept[node])
                continue;
            if (parent != MODEL_NONE && parent != node &&
                (how->interest[node] || (how->outgoing && how->interest[parent])))
                add_to_edge(c, parent, node, index, w, false, k != last);
            parent = node;
        }
        uint32_t child = MODEL_NONE;
        if (how->outgoing && how->interest[parent])
            for (uint32_t down = i; down-- > 0 && child == MODEL_NONE;) {
                arena_spend(c->arena, 1);
                child = how->outermost[frames[down]];
            }
        if (child != MODEL_NONE && child != parent)
            add_to_edge(c, parent, child, index, w, false, false);
    }
}

static void connect_window(void *context, struct parallel_worker *worker,
                           const struct model_profile *window, size_t first)
{
    struct connection *how = context;
    struct connector **mine = &how->connectors[worker->index];
    if (!*mine) {
        struct arena *arena = worker->arena;
        *mine = arena_alloc(arena, sizeof **mine);
        **mine = (struct connector){.g = how->g, .arena = arena};
        hash_init(&(*mine)->index, arena, 1024);
        (*mine)->last = arena_array(arena, how->g->n_nodes + 1, sizeof *(*mine)->last);
        memset((*mine)->last, 0xff, how->g->n_nodes * sizeof *(*mine)->last);
    }
    struct connector *c = *mine;
    for (size_t i = 0; i < window->n_samples; i++)
        how->connect(c, how, window, i, first + i);
}

// By the first sample; the edges of a sample come from one thread, in order.
static int compare_first_samples(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    return x->first != y->first ? (x->first < y->first ? -1 : 1)
                                : (x->place > y->place) - (x->place < y->place);
}

// Adds the edges of all threads.
static void join_edges(struct graph *g, struct connection *how)
{
    size_t cap = 0;
    struct hash_table index;
    hash_init(&index, g->arena, 1024);
    g->edges = NULL;
    g->n_edges = 0;
    for (unsigned i = 0; i < PARALLEL_MOST; i++) {
        const struct connector *c = how->connectors[i];
        for (size_t k = 0; c && k < c->n_edges; k++) {
            struct edge e = c->edges[k], *to = NULL;
            e.place = (uint32_t)k;
            uint64_t hash = hash_mix(e.src, e.dst);
            for (struct hash_probe at = hash_find(&index, hash); hash_hit(&index, &at) && !to;
                 hash_next(&index, &at))
                if (g->edges[at.item].src == e.src && g->edges[at.item].dst == e.dst)
                    to = &g->edges[at.item];
            if (!to) {
                g->edges = arena_push(g->arena, g->edges, g->n_edges, &cap, sizeof e);
                hash_add(&index, g->arena, hash, (uint32_t)g->n_edges);
                g->edges[g->n_edges++] = e;
                continue;
            }
            to->weight = units_add(to->weight, e.weight);
            to->weight_div = units_add(to->weight_div, e.weight_div);
            to->residual |= e.residual;
            to->is_inline &= e.is_inline;
            if (e.first < to->first) {
                to->first = e.first;
                to->place = e.place;
            }
        }
    }
    sort_items(g->arena, g->edges, g->n_edges, sizeof *g->edges, compare_first_samples);
}

static void connect_graph(struct graph *g, struct connection *how)
{
    how->g = g;
    g->edges = NULL;
    g->n_edges = 0;
    model_each_window(g->p, g->arena, 0, connect_window, how);
    unsigned n = 0;
    const struct connector *only = NULL;
    for (unsigned i = 0; i < PARALLEL_MOST; i++) {
        n += how->connectors[i] != NULL;
        only = how->connectors[i] ? how->connectors[i] : only;
    }
    if (n > 1) {
        join_edges(g, how);
    } else if (only) {
        g->edges = only->edges;
        g->n_edges = only->n_edges;
    }
}

void graph_connect(struct graph *g)
{
    struct connection *how = arena_alloc(g->arena, sizeof *how);
    how->connect = connect_sample;
    connect_graph(g, how);
}

static void connect_some(struct graph *g, const bool *interest, bool outgoing)
{
    size_t n = (size_t)g->p->n_locations + 1;
    struct connection *how = arena_alloc(g->arena, sizeof *how);
    how->connect = connect_interesting;
    how->interest = interest;
    how->outgoing = outgoing;
    how->interesting = arena_array(g->arena, n, 1);
    how->innermost = arena_array(g->arena, n, sizeof *how->innermost);
    how->outermost = arena_array(g->arena, n, sizeof *how->outermost);
    for (uint32_t i = 0; i < g->p->n_locations; i++) {
        how->innermost[i] = how->outermost[i] = MODEL_NONE;
        for (uint32_t k = g->first_node[i + 1]; k-- > g->first_node[i];) {
            uint32_t node = g->location_nodes[k];
            if (g->is_kept && !g->is_kept[node])
                continue;
            how->interesting[i] |= interest[node];
            how->innermost[i] = node;
            if (how->outermost[i] == MODEL_NONE)
                how->outermost[i] = node;
        }
    }
    connect_graph(g, how);
}

void graph_connect_inlined(struct graph *g)
{
    if (!g->has_inlines)
        return;
    bool *interest = arena_array(g->arena, g->n_nodes + 1, sizeof *interest);
    for (size_t i = 0; i < g->n_nodes; i++)
        interest[i] = g->nodes[i].may_be_inlined;
    connect_some(g, interest, false);
}

void graph_connect_around(struct graph *g, const bool *interest)
{
    connect_some(g, interest, true);
}
