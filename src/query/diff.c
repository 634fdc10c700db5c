#include "base/sort.h"
#include "query/names.h"

static uint32_t *names_in(const struct query_tree *t, struct model_strings *names)
{
    uint32_t *to = arena_array(names->arena, t->n_names, sizeof *to);
    for (uint32_t i = 0; i < t->n_names; i++)
        to[i] = model_intern(names, t->names[i]);
    return to;
}

struct pair_node {
    uint32_t parent, name;
    int64_t self[2];
};

static uint32_t pair_child(struct pair_node *nodes, uint32_t *n, struct hash_table *index,
                           struct arena *arena, uint32_t parent, uint32_t name)
{
    uint64_t hash = hash_mix(parent, name);
    for (struct hash_probe at = hash_find(index, hash); hash_hit(index, &at); hash_next(index, &at))
        if (nodes[at.item].parent == parent && nodes[at.item].name == name)
            return at.item;
    hash_add(index, arena, hash, *n);
    nodes[*n] = (struct pair_node){.parent = parent, .name = name};
    return (*n)++;
}

struct children {
    uint32_t *first, *next;
};

static int compare_pair_names(const void *a, const void *b, void *ctx)
{
    const struct str *names = ((void **)ctx)[0];
    const struct pair_node *nodes = ((void **)ctx)[1];
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return str_cmp(names[nodes[x].name], names[nodes[y].name]);
}

struct drawing {
    struct arena *arena;
    struct query_flame *flame;
    const struct pair_node *nodes;
    const int64_t *total[2];
    struct children children;
    struct str *all_names;
    struct query_names names;
    uint32_t other;
    int64_t least;
    struct query_level *levels;
    size_t n_levels, cap_levels, *cap_values;
    size_t cap_caps;
    int64_t *end[2];
    size_t cap_end[2];
};

struct box {
    uint32_t node, depth; // node UINT32_MAX: "other"
    int64_t start[2], self[2], total[2];
};

static void draw_box(struct drawing *d, const struct box *b)
{
    if (b->depth == d->n_levels) {
        struct arena *a = d->arena;
        d->levels = arena_push(a, d->levels, d->n_levels, &d->cap_levels, sizeof *d->levels);
        d->cap_values =
            arena_push(a, d->cap_values, d->n_levels, &d->cap_caps, sizeof *d->cap_values);
        d->levels[d->n_levels] = (struct query_level){0};
        d->cap_values[d->n_levels] = 0;
        for (int side = 0; side < 2; side++) {
            d->end[side] =
                arena_push(a, d->end[side], d->n_levels, &d->cap_end[side], sizeof(int64_t));
            d->end[side][d->n_levels] = 0;
        }
        d->n_levels++;
    }
    struct query_level *level = &d->levels[b->depth];
    size_t *cap = &d->cap_values[b->depth];
    if (level->n + 7 > *cap) {
        size_t larger = *cap ? *cap * 2 : 7 * 8;
        level->values =
            arena_grow(d->arena, level->values, *cap * sizeof(int64_t), larger * sizeof(int64_t));
        *cap = larger;
    }
    int64_t *to = level->values + level->n;
    level->n += 7;
    for (int side = 0; side < 2; side++) {
        int64_t *end = &d->end[side][b->depth];
        to[side * 3] = (int64_t)((uint64_t)b->start[side] - (uint64_t)*end);
        to[side * 3 + 1] = b->total[side];
        to[side * 3 + 2] = b->self[side];
        *end = query_add(b->start[side], b->total[side]);
        if (b->self[side] > d->flame->max_self)
            d->flame->max_self = b->self[side];
    }
    to[6] = query_name_index(&d->names, d->all_names,
                             b->node == UINT32_MAX ? d->other : d->nodes[b->node].name);
}

// Depth-first with an explicit stack: trees may be as deep as stacks.
static void draw_boxes(struct drawing *d, uint32_t n)
{
    struct box *stack = arena_array(d->arena, (size_t)n * 2 + 2, sizeof *stack);
    struct box *siblings = arena_array(d->arena, (size_t)n + 1, sizeof *siblings);
    size_t at = 0;
    stack[at++] = (struct box){.self = {d->nodes[0].self[0], d->nodes[0].self[1]},
                               .total = {d->total[0][0], d->total[1][0]}};
    while (at) {
        struct box b = stack[--at];
        arena_spend(d->arena, 1);
        draw_box(d, &b);
        if (b.node == UINT32_MAX)
            continue;
        int64_t next[2] = {query_add(b.start[0], b.self[0]), query_add(b.start[1], b.self[1])};
        struct box rest = {.node = UINT32_MAX, .depth = b.depth + 1};
        size_t m = 0;
        for (uint32_t c = d->children.first[b.node]; c; c = d->children.next[c]) {
            arena_spend(d->arena, 1);
            int64_t left = d->total[0][c], right = d->total[1][c];
            if (left < d->least && right < d->least) {
                rest.total[0] = query_add(rest.total[0], left);
                rest.total[1] = query_add(rest.total[1], right);
                continue;
            }
            siblings[m++] = (struct box){.node = c,
                                         .depth = b.depth + 1,
                                         .start = {next[0], next[1]},
                                         .self = {d->nodes[c].self[0], d->nodes[c].self[1]},
                                         .total = {left, right}};
            next[0] = query_add(next[0], left);
            next[1] = query_add(next[1], right);
        }
        if (rest.total[0] || rest.total[1]) {
            for (int side = 0; side < 2; side++) {
                rest.start[side] = next[side];
                rest.self[side] = rest.total[side];
            }
            siblings[m++] = rest;
        }
        while (m)
            stack[at++] = siblings[--m];
    }
}

static int64_t pair_threshold(int64_t *const total[2], uint32_t n, int64_t max_nodes,
                              struct arena *arena)
{
    if (max_nodes == 0)
        max_nodes = QUERY_MAX_NODES;
    if (max_nodes < 0)
        return INT64_MIN;
    // Here the root counts as a node.
    int64_t *larger = arena_array(arena, n, sizeof *larger);
    for (uint32_t i = 0; i < n; i++)
        larger[i] = total[0][i] > total[1][i] ? total[0][i] : total[1][i];
    return query_threshold(larger, n, max_nodes, arena);
}

static void build_diff(const struct query_tree *const trees[2], int64_t max_nodes,
                       struct arena *arena, struct query_flame *flame)
{
    struct model_strings *names = arena_alloc(arena, sizeof *names);
    names->arena = arena;
    hash_init(&names->index, arena, 1024);
    size_t most = (size_t)trees[0]->n_nodes + trees[1]->n_nodes;
    struct pair_node *nodes = arena_array(arena, most, sizeof *nodes);
    struct hash_table index;
    hash_init(&index, arena, most);
    uint32_t n = 1;
    nodes[0].name = model_intern(names, STR("total"));
    for (int side = 0; side < 2; side++) {
        const struct query_tree *t = trees[side];
        uint32_t *name = names_in(t, names);
        uint32_t *to = arena_array(arena, t->n_nodes, sizeof *to);
        nodes[0].self[side] = t->self[0];
        for (uint32_t i = 1; i < t->n_nodes; i++) {
            arena_spend(arena, 1);
            to[i] = pair_child(nodes, &n, &index, arena, to[t->parent[i]], name[t->name[i]]);
            nodes[to[i]].self[side] = t->self[i];
        }
    }
    uint32_t other = model_intern(names, STR("other"));
    int64_t *total[2];
    for (int side = 0; side < 2; side++) {
        total[side] = arena_array(arena, n, sizeof(int64_t));
        for (uint32_t i = n; i-- > 0;) {
            arena_spend(arena, 1);
            total[side][i] = query_add(total[side][i], nodes[i].self[side]);
            if (i)
                total[side][nodes[i].parent] =
                    query_add(total[side][nodes[i].parent], total[side][i]);
        }
    }
    // Link the children in name order: prepend them from last to first.
    uint32_t *order = arena_array(arena, n, sizeof *order);
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    void *ctx[2] = {names->items, nodes};
    sort_items_by(arena, order + 1, n - 1, sizeof *order, compare_pair_names, ctx);
    struct children children = {arena_array(arena, n, sizeof(uint32_t)),
                                arena_array(arena, n, sizeof(uint32_t))};
    for (uint32_t i = n; i-- > 1;) {
        uint32_t node = order[i];
        arena_spend(arena, 1);
        children.next[node] = children.first[nodes[node].parent];
        children.first[nodes[node].parent] = node;
    }
    *flame = (struct query_flame){.left_ticks = total[0][0], .right_ticks = total[1][0]};
    flame->total = query_add(total[0][0], total[1][0]);
    struct drawing d = {.arena = arena,
                        .flame = flame,
                        .nodes = nodes,
                        .total = {total[0], total[1]},
                        .children = children,
                        .all_names = names->items,
                        .other = other};
    d.least = pair_threshold(total, n, max_nodes, arena);
    d.names.items = arena_array(arena, names->n, sizeof(struct str));
    d.names.to = arena_array(arena, names->n, sizeof(uint32_t));
    draw_boxes(&d, n);
    flame->names = d.names.items;
    flame->n_names = d.names.n;
    flame->levels = d.levels;
    flame->n_levels = d.n_levels;
}

int query_diff(const struct query_tree *left, const struct query_tree *right, int64_t max_nodes,
               struct arena *arena, struct query_flame *flame, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    const struct query_tree *const trees[2] = {query_truncate(left, max_nodes, arena),
                                               query_truncate(right, max_nodes, arena)};
    build_diff(trees, max_nodes, arena, flame);
    arena_try_end(arena);
    return 0;
}
