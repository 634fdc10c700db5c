#include "report/flame_grow.h"

enum { AHEAD = 24 }; // samples to prefetch

static void add_columns(int64_t *to, const int64_t *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += from[i];
}

static bool ranks_before(const struct flame_growth *g, uint32_t a, uint32_t b)
{
    const struct flame_branch *x = &g->branches[a], *y = &g->branches[b];
    if (x->share != y->share)
        return x->share > y->share;
    if (x->depth != y->depth)
        return x->depth < y->depth;
    int c = str_cmp(g->stacks.keys[x->key].name, g->stacks.keys[y->key].name);
    return c ? c < 0 : a < b;
}

static void heap_push(struct flame_growth *g, uint32_t branch)
{
    g->heap = arena_push(g->scratch, g->heap, g->n_heap, &g->cap_heap, sizeof *g->heap);
    size_t i = g->n_heap++;
    for (; i > 0 && ranks_before(g, branch, g->heap[(i - 1) / 2]); i = (i - 1) / 2)
        g->heap[i] = g->heap[(i - 1) / 2];
    g->heap[i] = branch;
}

static uint32_t heap_pop(struct flame_growth *g)
{
    uint32_t top = g->heap[0], last = g->heap[--g->n_heap];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < g->n_heap; i = child) {
        if (child + 1 < g->n_heap && ranks_before(g, g->heap[child + 1], g->heap[child]))
            child++;
        if (!ranks_before(g, g->heap[child], last))
            break;
        g->heap[i] = g->heap[child];
    }
    g->heap[i] = last;
    return top;
}

static uint32_t branch_new(struct flame_growth *g, uint32_t parent, uint32_t key)
{
    size_t n = g->n_branches, columns = flame_columns(g);
    if (n >= MODEL_NONE - 1)
        arena_fail(g->scratch, "more than 2^32 nodes in the flame graph");
    g->branches = arena_push(g->scratch, g->branches, n, &g->cap_branches, sizeof *g->branches);
    g->totals = arena_push(g->scratch, g->totals, n, &g->cap_totals, columns * sizeof(int64_t));
    g->other = arena_push(g->scratch, g->other, n, &g->cap_other, columns * sizeof(int64_t));
    g->branches[n] = (struct flame_branch){
        .parent = parent,
        .key = key,
        .depth = parent == MODEL_NONE ? 0 : g->branches[parent].depth + 1,
        .first = MODEL_NONE,
        .next = MODEL_NONE,
    };
    // A dropped branch may have used this slot.
    memset(g->totals + n * columns, 0, columns * sizeof(int64_t));
    memset(g->other + n * columns, 0, columns * sizeof(int64_t));
    return (uint32_t)g->n_branches++;
}

static double share_of(const struct flame_growth *g, uint32_t branch)
{
    double share = 0;
    const int64_t *totals = g->totals + branch * flame_columns(g);
    for (size_t c = 0; c < flame_columns(g); c++) {
        double s = g->stacks.sums[c] ? (double)totals[c] / (double)g->stacks.sums[c] : 0;
        if (s > share)
            share = s;
    }
    return share;
}

static const struct flame_side *side_of(const struct flame_growth *g, const struct flame_cursor *c)
{
    return &g->stacks.sides[c->sample >= g->n_first_side];
}

static inline size_t sample_of(const struct flame_growth *g, const struct flame_cursor *c)
{
    return c->sample < g->n_first_side ? c->sample : c->sample - g->n_first_side;
}

// Returns the next step of a sample, or MODEL_NONE at the end of its stack.
static inline uint32_t next_step(const struct flame_growth *g, struct flame_cursor *c)
{
    if (!c->left)
        return MODEL_NONE;
    const struct flame_side *side = side_of(g, c);
    uint32_t location = *c->at;
    uint32_t first = side->first_step[location], n = side->first_step[location + 1] - first;
    uint32_t taken = side->steps[g->reverse ? first + n - 1 - c->sub : first + c->sub];
    if (++c->sub == n) {
        c->sub = 0;
        c->left--;
        c->at += g->reverse ? 1 : -1;
    }
    return taken;
}

static inline void add_branch_sample(struct flame_growth *g, const struct flame_cursor *c,
                                     uint32_t branch)
{
    const struct flame_side *side = side_of(g, c);
    flame_add_sample(side, g->stacks.n_types, g->stacks.n_sides, sample_of(g, c),
                     g->totals + branch * flame_columns(g));
}

static void merge_into_other(struct flame_growth *g, uint32_t branch)
{
    uint32_t parent = g->branches[branch].parent;
    add_columns(g->other + parent * flame_columns(g), g->totals + branch * flame_columns(g),
                flame_columns(g));
    g->branches[parent].merged++;
}

// Groups the samples of each kept child together.
static void partition_samples(struct flame_growth *g, uint32_t from, uint32_t to,
                              size_t first_child)
{
    uint32_t at = 0;
    for (size_t i = first_child; i < g->n_branches; i++) {
        struct flame_branch *child = &g->branches[i];
        child->from = child->to = at;
        if (child->share >= g->min_share)
            at += child->n;
    }
    for (uint32_t i = from; i < to; i++) {
        const struct flame_cursor *c = &g->cursors[i];
        arena_spend(g->scratch, 1);
        if (c->key == MODEL_NONE)
            continue;
        struct flame_branch *child = &g->branches[g->child_of_key[c->key]];
        if (child->share >= g->min_share)
            g->moved[child->to++] = *c;
    }
    memcpy(g->cursors + from, g->moved, at * sizeof *g->cursors);
    for (size_t i = first_child; i < g->n_branches; i++) {
        g->branches[i].from += from;
        g->branches[i].to += from;
    }
}

static void open_branch(struct flame_growth *g, uint32_t id)
{
    uint32_t from = g->branches[id].from, to = g->branches[id].to;
    size_t first_child = g->n_branches;
    bool ended = false;
    for (uint32_t i = from; i < to; i++) {
        struct flame_cursor *c = &g->cursors[i];
        arena_spend(g->scratch, 1 + flame_columns(g) / 8);
        if (i + AHEAD < to) {
            // Prefetch: stacks and values are far apart in memory, so each step would miss the
            // cache. (Inline, because GCC 12 removes a function that only prefetches.)
            const struct flame_side *side = side_of(g, c + AHEAD);
            __builtin_prefetch(c[AHEAD].at);
            __builtin_prefetch(model_values(side->p, sample_of(g, c + AHEAD)));
        }
        uint32_t taken = next_step(g, c);
        if (taken == MODEL_NONE) {
            c->key = MODEL_NONE;
            ended = true;
            continue;
        }
        c->key = taken >> 1;
        if (g->opened[c->key] != id + 1) {
            g->opened[c->key] = id + 1;
            g->child_of_key[c->key] = branch_new(g, id, c->key);
        }
        uint32_t child = g->child_of_key[c->key];
        g->branches[child].n++;
        g->branches[child].n_inlined += taken & 1;
        add_branch_sample(g, c, child);
    }
    for (size_t i = first_child; i < g->n_branches; i++) {
        arena_spend(g->scratch, 1 + flame_columns(g) / 8);
        g->branches[i].share =
            g->branches[id].depth < FLAME_MAX_DEPTH ? share_of(g, (uint32_t)i) : -1;
    }

    if (g->n_branches == first_child + 1 && !ended) {
        g->branches[first_child].from = from;
        g->branches[first_child].to = to;
    } else {
        partition_samples(g, from, to, first_child);
    }

    // Drop small branches immediately: there may be very many.
    size_t n = first_child;
    for (size_t i = first_child; i < g->n_branches; i++) {
        arena_spend(g->scratch, 1 + flame_columns(g) / 8);
        if (g->branches[i].share < g->min_share) {
            merge_into_other(g, (uint32_t)i);
            continue;
        }
        if (n != i) {
            g->branches[n] = g->branches[i];
            memcpy(g->totals + n * flame_columns(g), g->totals + i * flame_columns(g),
                   flame_columns(g) * sizeof(int64_t));
        }
        g->branches[n].next = g->branches[id].first;
        g->branches[id].first = (uint32_t)n;
        heap_push(g, (uint32_t)n++);
    }
    g->n_branches = n;
}

// Follows the path; returns false if the stack leaves it.
static bool follow_path(const struct flame_growth *g, struct flame_cursor *c)
{
    for (size_t i = 0; i < g->n_path; i++) {
        uint32_t taken = next_step(g, c);
        if (taken == MODEL_NONE || taken >> 1 != g->path[i])
            return false;
    }
    return true;
}

static void start_cursors(struct flame_growth *g)
{
    size_t n = 0, done = 0;
    for (uint32_t s = 0; s < g->stacks.n_sides; s++)
        n += g->stacks.sides[s].p->n_samples;
    if (n >= MODEL_NONE)
        arena_fail(g->scratch, "more than 2^32 samples");
    g->cursors = arena_array(g->scratch, n, sizeof *g->cursors);
    g->moved = arena_array(g->scratch, n, sizeof *g->moved);
    g->n_first_side = g->stacks.sides[0].p->n_samples;
    uint32_t root = branch_new(g, MODEL_NONE, 0);
    for (uint32_t s = 0; s < g->stacks.n_sides; s++) {
        const struct flame_side *side = &g->stacks.sides[s];
        for (size_t i = 0; i < side->p->n_samples; i++) {
            uint32_t len = side->p->stack_len[i];
            arena_spend(g->scratch, 1 + g->n_path + flame_columns(g) / 8);
            struct flame_cursor cursor = {
                .at = model_stack(side->p, i) + (g->reverse || !len ? 0 : len - 1),
                .left = len,
                .sample = (uint32_t)(i + (s ? g->n_first_side : 0)),
            };
            if (follow_path(g, &cursor) &&
                flame_add_sample(side, g->stacks.n_types, g->stacks.n_sides, i,
                                 g->totals + root * flame_columns(g)))
                g->cursors[done++] = cursor;
        }
    }
    if (g->n_path)
        memcpy(g->stacks.sums, g->totals + root * flame_columns(g),
               flame_columns(g) * sizeof *g->stacks.sums);
    g->n_cursors = done;
    g->branches[root].to = (uint32_t)done;
}

uint32_t flame_grow(struct flame_growth *g)
{
    g->child_of_key = arena_array(g->scratch, g->stacks.n_keys, sizeof *g->child_of_key);
    g->opened = arena_array(g->scratch, g->stacks.n_keys, sizeof *g->opened);
    start_cursors(g);
    uint32_t n_nodes = 1, n_others = 0;
    g->branches[0].kept = true;
    open_branch(g, 0);
    for (; g->n_heap && n_nodes < g->max_nodes; n_nodes++) {
        uint32_t id = heap_pop(g);
        g->branches[id].kept = true;
        open_branch(g, id);
    }
    while (g->n_heap) {
        arena_spend(g->scratch, 1 + flame_columns(g) / 8);
        merge_into_other(g, g->heap[--g->n_heap]);
    }
    for (size_t i = 0; i < g->n_branches; i++)
        n_others += g->branches[i].kept && g->branches[i].merged;
    return n_nodes + n_others;
}
