// The edges of a graph. Each thread counts the edges of its windows; an edge keeps its first
// sample, so that the order of all edges is that of one thread.
#include "report/tagger.h"

#include "base/sort.h"
#include "model/stream.h"
#include "model/units.h"

// An edge in the table of one thread: all that a sample needs is in one place.
struct edge_count {
    uint32_t src, dst; // src MODEL_NONE: empty
    size_t seen;       // the last counted sample, plus one
    int64_t weight;
    uint32_t number; // in the order of the first samples
    bool residual, is_inline;
};

struct edge_rest {
    size_t first; // the first sample with the edge
    int64_t weight_div;
};

// An edge of the current sample. They are collected and then counted, so that the slots of the
// table arrive in the cache meanwhile.
struct edge_use {
    uint32_t src, dst, slot;
    bool residual, is_inline;
};

enum { USES = 64, PLACES = 128, FIRST_SLOTS = 1024 };

// The edges that one thread counted.
struct connector {
    const struct graph *g;
    struct arena *arena;
    struct edge_count *slots; // open addressing
    uint32_t mask, n;
    struct edge_rest *rest; // by number
    size_t cap_rest;
    struct edge_use uses[USES];
    size_t n_uses;
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

static inline uint32_t edge_slot(const struct connector *c, uint32_t src, uint32_t dst)
{
    return (uint32_t)(hash_mix(src, dst) >> 32) & c->mask;
}

static void resize_edges(struct connector *c, uint32_t n_slots)
{
    struct edge_count *old = c->slots;
    uint32_t n_old = old ? c->mask + 1 : 0;
    c->slots = arena_raw(c->arena, n_slots, sizeof *c->slots);
    c->mask = n_slots - 1;
    for (uint32_t i = 0; i < n_slots; i++)
        c->slots[i].src = MODEL_NONE;
    for (uint32_t i = 0; i < n_old; i++) {
        if (old[i].src == MODEL_NONE)
            continue;
        uint32_t at = edge_slot(c, old[i].src, old[i].dst);
        while (c->slots[at].src != MODEL_NONE)
            at = (at + 1) & c->mask;
        c->slots[at] = old[i];
    }
    arena_spend(c->arena, n_slots / 8);
}

static struct edge_count *find_or_add_edge(struct connector *c, const struct edge_use *use,
                                           size_t sample)
{
    struct edge_count *e = &c->slots[use->slot];
    while (e->src != MODEL_NONE && (e->src != use->src || e->dst != use->dst))
        e = e == &c->slots[c->mask] ? c->slots : e + 1;
    if (e->src != MODEL_NONE)
        return e;
    *e = (struct edge_count){.src = use->src, .dst = use->dst, .number = c->n, .is_inline = true};
    c->rest = arena_push(c->arena, c->rest, c->n, &c->cap_rest, sizeof *c->rest);
    c->rest[c->n++] = (struct edge_rest){.first = sample};
    return e;
}

// Counts a sample once per edge; the outermost occurrence decides its flags.
static void count_edges(struct connector *c, size_t sample, struct weight w)
{
    for (size_t i = 0; i < c->n_uses; i++) {
        const struct edge_use *use = &c->uses[i];
        struct edge_count *e = find_or_add_edge(c, use, sample);
        if (e->seen == sample + 1)
            continue;
        e->seen = sample + 1;
        e->weight = units_add(e->weight, w.value);
        if (w.divisor)
            c->rest[e->number].weight_div = units_add(c->rest[e->number].weight_div, w.divisor);
        e->residual |= use->residual;
        e->is_inline &= use->is_inline;
    }
    c->n_uses = 0;
    if (c->n > c->mask / 2) {
        if (c->mask >= UINT32_MAX / 4)
            arena_fail(c->arena, "more than 2^30 edges");
        resize_edges(c, (c->mask + 1) * 4);
    }
}

static inline void add_to_edge(struct connector *c, uint32_t src, uint32_t dst, size_t sample,
                               struct weight w, bool residual, bool is_inline)
{
    if (c->n_uses == USES)
        count_edges(c, sample, w);
    uint32_t slot = edge_slot(c, src, dst);
    __builtin_prefetch(&c->slots[slot], 1);
    c->uses[c->n_uses++] = (struct edge_use){src, dst, slot, residual, is_inline};
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
    count_edges(c, index, w);
}

// Collects the places of the next interesting frames below *at, outermost first, and moves *at
// behind them. Without branches: which frames are interesting is hard to predict.
static uint32_t find_interesting(const struct connection *how, const uint32_t *frames, uint32_t *at,
                                 uint32_t *places)
{
    uint32_t n = 0, i = *at;
    for (; i > 0 && n < PLACES; i--) {
        places[n] = i - 1;
        n += how->interesting[frames[i - 1]];
    }
    *at = i;
    return n;
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
    uint32_t places[PLACES], at = n, n_places = 0, next = 0;
    for (;;) {
        if (next == n_places) {
            n_places = find_interesting(how, frames, &at, places);
            next = 0;
            if (n_places == 0)
                break;
        }
        uint32_t i = places[next++];
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
    count_edges(c, index, w);
}

static void connect_window(void *context, struct parallel_worker *worker,
                           const struct model_profile *window, size_t first)
{
    struct connection *how = context;
    struct connector **mine = &how->connectors[worker->index];
    if (!*mine) {
        struct arena *arena = worker->arena;
        *mine = arena_alloc(arena, sizeof **mine);
        (*mine)->g = how->g;
        (*mine)->arena = arena;
        resize_edges(*mine, FIRST_SLOTS);
    }
    struct connector *c = *mine;
    for (size_t i = 0; i < window->n_samples; i++)
        how->connect(c, how, window, i, first + i);
}

// Returns the edges that one thread counted, in the order of their first samples.
static struct edge *list_edges(const struct connector *c, struct arena *arena)
{
    struct edge *edges = arena_array(arena, (size_t)c->n + 1, sizeof *edges);
    for (uint32_t i = 0; i <= c->mask; i++) {
        const struct edge_count *e = &c->slots[i];
        if (e->src == MODEL_NONE)
            continue;
        edges[e->number] = (struct edge){
            .src = e->src,
            .dst = e->dst,
            .weight = e->weight,
            .weight_div = c->rest[e->number].weight_div,
            .first = c->rest[e->number].first,
            .place = e->number,
            .residual = e->residual,
            .is_inline = e->is_inline,
        };
    }
    return edges;
}

// By the first sample; the edges of a sample come from one thread, in order.
static int compare_first_samples(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    return x->first != y->first ? (x->first < y->first ? -1 : 1)
                                : (x->place > y->place) - (x->place < y->place);
}

static void join_edge(struct edge *to, const struct edge *e)
{
    to->weight = units_add(to->weight, e->weight);
    to->weight_div = units_add(to->weight_div, e->weight_div);
    to->residual |= e->residual;
    to->is_inline &= e->is_inline;
    if (e->first < to->first) {
        to->first = e->first;
        to->place = e->place;
    }
}

// Adds the edges of a thread to those of the others.
static void join_edges(struct graph *g, struct hash_table *index, const struct edge *edges,
                       size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct edge *to = NULL;
        uint64_t hash = hash_mix(edges[i].src, edges[i].dst);
        for (struct hash_probe at = hash_find(index, hash); hash_hit(index, &at) && !to;
             hash_next(index, &at))
            if (g->edges[at.item].src == edges[i].src && g->edges[at.item].dst == edges[i].dst)
                to = &g->edges[at.item];
        if (to) {
            join_edge(to, &edges[i]);
            continue;
        }
        g->edges = arena_push(g->arena, g->edges, g->n_edges, &g->cap_edges, sizeof *g->edges);
        hash_add(index, g->arena, hash, (uint32_t)g->n_edges);
        g->edges[g->n_edges++] = edges[i];
    }
}

static void connect_graph(struct graph *g, struct connection *how)
{
    how->g = g;
    g->edges = NULL;
    g->n_edges = g->cap_edges = 0;
    model_each_window(g->p, g->arena, 0, connect_window, how);
    struct hash_table index;
    unsigned n = 0;
    for (unsigned i = 0; i < PARALLEL_MOST; i++) {
        const struct connector *c = how->connectors[i];
        if (!c)
            continue;
        struct edge *edges = list_edges(c, g->arena);
        if (n++ == 0) {
            g->edges = edges;
            g->n_edges = c->n;
            g->cap_edges = (size_t)c->n + 1;
            continue;
        }
        if (n == 2) {
            hash_init(&index, g->arena, g->n_edges * 2);
            for (size_t k = 0; k < g->n_edges; k++)
                hash_add(&index, g->arena, hash_mix(g->edges[k].src, g->edges[k].dst), (uint32_t)k);
        }
        join_edges(g, &index, edges, c->n);
    }
    if (n > 1)
        sort_items(g->arena, g->edges, g->n_edges, sizeof *g->edges, compare_first_samples);
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
