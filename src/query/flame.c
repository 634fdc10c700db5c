#include "query/names.h"

// Levels with width numbers per node, filled from the root down.
struct levels {
    struct arena *arena;
    struct query_level *items;
    size_t n, width;
};

static void make_levels(struct levels *l, const uint32_t *depth, uint32_t n_nodes)
{
    uint32_t deepest = 0;
    for (uint32_t i = 0; i < n_nodes; i++) {
        arena_spend(l->arena, 1);
        deepest = depth[i] > deepest ? depth[i] : deepest;
    }
    l->n = (size_t)deepest + 1;
    l->items = arena_array(l->arena, l->n, sizeof *l->items);
    size_t *count = arena_array(l->arena, l->n, sizeof *count);
    for (uint32_t i = 0; i < n_nodes; i++) {
        arena_spend(l->arena, 1);
        count[depth[i]]++;
    }
    for (size_t i = 0; i < l->n; i++)
        l->items[i].values = arena_array(l->arena, count[i] * l->width, sizeof(int64_t));
}

static uint32_t *compute_depths(const struct query_tree *t, struct arena *arena)
{
    uint32_t *depth = arena_array(arena, t->n_nodes, sizeof *depth);
    for (uint32_t i = 1; i < t->n_nodes; i++) {
        arena_spend(arena, 1);
        depth[i] = depth[t->parent[i]] + 1;
    }
    return depth;
}

int query_flame(const struct query_tree *tree, int64_t max_nodes, struct arena *arena,
                struct query_flame *flame, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    const struct query_tree *t =
        query_gather(query_truncate(tree, max_nodes, arena), max_nodes, arena);
    struct levels levels = {.arena = arena, .width = 4};
    uint32_t *depth = compute_depths(t, arena);
    make_levels(&levels, depth, t->n_nodes);
    struct query_names names = {.items = arena_array(arena, t->n_names, sizeof(struct str)),
                                .to = arena_array(arena, t->n_names, sizeof(uint32_t))};
    // next: where a node's next child begins; end: where the last node of each level ends. A node's
    // own time is to the left of its children.
    int64_t *next = arena_array(arena, t->n_nodes, sizeof *next);
    int64_t *end = arena_array(arena, levels.n, sizeof *end);
    *flame = (struct query_flame){.total = t->total[0]};
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        int64_t start = i ? next[t->parent[i]] : 0;
        arena_spend(arena, 1);
        struct query_level *level = &levels.items[depth[i]];
        int64_t *to = level->values + level->n;
        if (i)
            next[t->parent[i]] = query_add(start, t->total[i]);
        next[i] = query_add(start, t->self[i]);
        to[0] = (int64_t)((uint64_t)start - (uint64_t)end[depth[i]]);
        to[1] = t->total[i];
        to[2] = t->self[i];
        to[3] = query_name_index(&names, t->names, t->name[i]);
        level->n += 4;
        end[depth[i]] = query_add(start, t->total[i]);
        flame->max_self = t->self[i] > flame->max_self ? t->self[i] : flame->max_self;
    }
    flame->names = names.items;
    flame->n_names = names.n;
    flame->levels = levels.items;
    flame->n_levels = levels.n;
    arena_try_end(arena);
    return 0;
}
