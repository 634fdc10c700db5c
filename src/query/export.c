#include <stdlib.h>

#include "model/builder.h"
#include "query/query.h"

int query_tree_bytes(const struct query_tree *tree, int64_t max_nodes, struct out *out,
                     struct err *e)
{
    struct arena *arena = arena_new(0);
    struct arena_trap trap;
    if (!arena || ARENA_TRY(arena, trap)) {
        arena_free(arena);
        err_set(e, "no memory to write a tree");
        return STORE_BUSY;
    }
    const struct query_tree *t = query_truncate(tree, max_nodes, arena);
    uint32_t *children = arena_array(arena, t->n_nodes, sizeof *children);
    for (uint32_t i = 1; i < t->n_nodes; i++)
        children[t->parent[i]]++;
    // Nodes stand depth first: this is the order of the format.
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        struct str name = i ? t->names[t->name[i]] : STR("");
        uint64_t numbers[3] = {name.n, (uint64_t)t->self[i], children[i]};
        for (int j = 0; j < 3; j++) {
            uint64_t v = numbers[j];
            for (; v >= 128; v >>= 7)
                out_char(out, (char)(v | 128));
            out_char(out, (char)v);
            if (j == 0)
                out_str(out, name);
        }
    }
    arena_try_end(arena);
    arena_free(arena);
    return 0;
}

static int descending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x > y ? -1 : x < y;
}

static int64_t *totals_of(const struct store_stacks *s, struct arena *arena)
{
    int64_t *total = arena_array(arena, s->n_nodes, sizeof *total);
    for (uint32_t i = s->n_nodes; i-- > 0;) {
        total[i] = (int64_t)((uint64_t)total[i] + (uint64_t)s->self[i]);
        if (i)
            total[s->parent[i]] = (int64_t)((uint64_t)total[s->parent[i]] + (uint64_t)total[i]);
    }
    return total;
}

static int64_t threshold(const struct store_stacks *s, const int64_t *total, int64_t max_nodes,
                         struct arena *arena)
{
    if (max_nodes <= 0 || (int64_t)s->n_nodes - 1 <= max_nodes)
        return INT64_MIN;
    int64_t *sorted = arena_array(arena, s->n_nodes, sizeof *sorted);
    memcpy(sorted, total + 1, (s->n_nodes - 1) * sizeof *sorted);
    qsort(sorted, s->n_nodes - 1, sizeof *sorted, descending);
    return sorted[max_nodes - 1];
}

static struct model_profile *build(const struct store_stacks *s, int64_t max_nodes,
                                   struct arena *arena)
{
    int64_t *total = totals_of(s, arena);
    int64_t least = threshold(s, total, max_nodes, arena);
    // The names come with the stacks; "other" is added to a copy of the tables, not to them.
    struct model_builder b;
    model_build(&b, arena);
    const struct model_profile *from = s->symbols;
    struct model_profile *p = b.p;
    uint32_t *location = arena_array(arena, from->n_locations, sizeof *location);
    uint32_t *function = arena_array(arena, from->n_functions, sizeof *function);
    uint32_t *mapping = arena_array(arena, from->n_mappings, sizeof *mapping);
    model_build_type(&b, model_str(from, from->types[0].type),
                     model_str(from, from->types[0].unit));
    uint32_t *depth = arena_array(arena, s->n_nodes, sizeof *depth), deepest = 0;
    int64_t *lost = arena_array(arena, s->n_nodes, sizeof *lost);
    for (uint32_t i = 1; i < s->n_nodes; i++) {
        depth[i] = depth[s->parent[i]] + 1;
        deepest = depth[i] > deepest ? depth[i] : deepest;
    }
    bool *kept = arena_array(arena, s->n_nodes, sizeof *kept);
    kept[0] = true;
    for (uint32_t i = 1; i < s->n_nodes; i++) {
        kept[i] = kept[s->parent[i]] && total[i] >= least;
        if (!kept[i] && kept[s->parent[i]])
            lost[s->parent[i]] = (int64_t)((uint64_t)lost[s->parent[i]] + (uint64_t)total[i]);
    }
    // Mappings keep their order: the first is the program.
    for (uint32_t i = 0; i < from->n_mappings; i++) {
        struct model_mapping m = from->mappings[i];
        m.file = model_build_string(&b, model_str(from, m.file));
        m.build_id = model_build_string(&b, model_str(from, m.build_id));
        mapping[i] = model_build_mapping(&b, m);
    }
    uint32_t *stack = arena_array(arena, (size_t)deepest + 1, sizeof *stack);
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        if (!kept[i])
            continue;
        uint32_t n = 0;
        for (uint32_t node = i; node; node = s->parent[node]) {
            uint32_t l = s->location[node];
            if (!location[l]) {
                const struct model_location *old = &from->locations[l];
                struct model_line *lines = arena_array(arena, old->n_lines, sizeof *lines);
                for (uint32_t j = 0; j < old->n_lines; j++) {
                    lines[j] = from->lines[old->first_line + j];
                    uint32_t f = lines[j].function;
                    const struct model_function *g = &from->functions[f];
                    if (!function[f])
                        function[f] = model_build_function(
                                          &b, model_build_string(&b, model_str(from, g->name)),
                                          model_build_string(&b, model_str(from, g->system_name)),
                                          model_build_string(&b, model_str(from, g->filename)),
                                          g->start_line) +
                                      1;
                    lines[j].function = function[f] - 1;
                }
                location[l] =
                    model_build_location(
                        &b, old->mapping == MODEL_NONE ? MODEL_NONE : mapping[old->mapping],
                        old->address, lines, old->n_lines) +
                    1;
                p->locations[location[l] - 1].is_folded = old->is_folded;
            }
            stack[n++] = location[l] - 1;
        }
        if (s->self[i])
            model_build_sample(&b, stack, n, &s->self[i]);
        if (lost[i]) {
            memmove(stack + 1, stack, n * sizeof *stack);
            stack[0] = model_build_named_location(&b, STR("other"));
            model_build_sample(&b, stack, (size_t)n + 1, &lost[i]);
        }
    }
    p->period_type =
        (struct model_value_type){model_build_string(&b, model_str(from, from->period_type.type)),
                                  model_build_string(&b, model_str(from, from->period_type.unit))};
    p->period = from->period;
    return p;
}

int query_profile(const struct store_stacks *stacks, int64_t max_nodes, int64_t start,
                  int64_t duration, struct arena *arena, struct model_profile **profile,
                  struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    *profile = build(stacks, max_nodes, arena);
    (*profile)->time_nanos = start;
    (*profile)->duration_nanos = duration;
    arena_try_end(arena);
    return 0;
}
