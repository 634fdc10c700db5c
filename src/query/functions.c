#include "query/names.h"

// Maximum depth: deeper stacks are cut at the root.
enum { MAX_STACK = 4096 };

size_t query_functions_of(const struct query_functions *f, const struct store_stacks *stacks,
                          uint32_t node, uint32_t *to, size_t max)
{
    size_t n = 0;
    for (; node; node = stacks->parent[node]) {
        uint32_t location = stacks->location[node];
        for (uint32_t i = f->first[location]; i < f->first[location + 1] && n < max; i++)
            to[n++] = f->frames[i];
    }
    return n;
}

static void number_frames(struct query_functions *f, const struct model_profile *p,
                          struct arena *arena)
{
    struct query_naming naming;
    struct model_strings *names = arena_alloc(arena, sizeof *names);
    *names = (struct model_strings){.arena = arena};
    hash_init(&names->index, arena, 1024);
    query_naming_init(&naming, p, names);
    size_t n = 0, cap = 0;
    f->first = arena_array(arena, (size_t)p->n_locations + 1, sizeof *f->first);
    for (uint32_t i = 0; i < p->n_locations; i++) {
        uint32_t lines = query_frames(&naming, i);
        arena_spend(arena, 1 + lines);
        f->first[i] = (uint32_t)n;
        for (uint32_t j = 0; j < lines; j++) {
            f->frames = arena_push(arena, f->frames, n, &cap, sizeof *f->frames);
            f->frames[n++] = query_frame_name(&naming, i, j);
        }
    }
    f->first[p->n_locations] = (uint32_t)n;
    f->n = (uint32_t)names->n;
    f->items = arena_array(arena, names->n + 1, sizeof *f->items);
    for (size_t i = 0; i < names->n; i++)
        f->items[i].name = names->items[i];
}

static void add_stack_costs(struct query_functions *f, const struct store_stacks *stacks,
                            uint32_t node, uint32_t *frames, uint32_t *seen)
{
    double value = (double)stacks->self[node];
    double variance = stacks->variance ? stacks->variance[node] : 0;
    size_t n = query_functions_of(f, stacks, node, frames, MAX_STACK);
    f->value += value;
    f->variance += variance;
    if (n) {
        f->items[frames[0]].self += value;
        f->items[frames[0]].self_variance += variance;
    }
    for (size_t i = 0; i < n; i++) {
        if (seen[frames[i]] == node)
            continue;
        seen[frames[i]] = node;
        f->items[frames[i]].total += value;
        f->items[frames[i]].total_variance += variance;
    }
}

int query_functions(const struct store_stacks *stacks, struct arena *arena,
                    struct query_functions **functions, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    struct query_functions *f = arena_alloc(arena, sizeof *f);
    number_frames(f, stacks->symbols, arena);
    uint32_t *frames = arena_array(arena, MAX_STACK, sizeof *frames);
    uint32_t *seen = arena_array(arena, (size_t)f->n + 1, sizeof *seen); // last node with it
    for (uint32_t i = 1; i < stacks->n_nodes; i++) {
        if (stacks->self[i] == 0)
            continue;
        arena_spend(arena, 8);
        add_stack_costs(f, stacks, i, frames, seen);
    }
    *functions = f;
    arena_try_end(arena);
    return 0;
}
