#include <math.h>

#include "model/blocks.h"
#include "model/builder.h"
#include "model/transform.h"
#include "model/units.h"
#include "query/names.h"

int query_tree_bytes(const struct query_tree *tree, int64_t max_nodes, struct arena *arena,
                     struct out *out, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    const struct query_tree *t = query_truncate(tree, max_nodes, arena);
    uint32_t *children = arena_array(arena, t->n_nodes, sizeof *children);
    for (uint32_t i = 1; i < t->n_nodes; i++) {
        arena_spend(arena, 1);
        children[t->parent[i]]++;
    }
    // Nodes are in depth-first order, as the format requires. An empty tree has no root.
    for (uint32_t i = 0; t->n_nodes > 1 && i < t->n_nodes; i++) {
        struct str name = i ? t->names[t->name[i]] : STR("");
        arena_spend(arena, 1);
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
    return 0;
}

// A tree of the stacks' functions, because functions, not lines, decide what is cut.
struct functions {
    uint32_t *of; // maps nodes of the stacks to nodes of this tree
    uint32_t *parent, *function;
    int64_t *total;
    uint32_t n;
    size_t cap_parent, cap_function, cap_total;
    struct hash_table index;
};

static uint32_t function_child(struct functions *f, struct arena *arena, uint32_t parent,
                               uint32_t function)
{
    uint64_t hash = hash_mix(parent, function);
    for (struct hash_probe at = hash_find(&f->index, hash); hash_hit(&f->index, &at);
         hash_next(&f->index, &at))
        if (f->parent[at.item] == parent && f->function[at.item] == function)
            return at.item;
    if (f->n)
        hash_add(&f->index, arena, hash, f->n);
    f->parent = arena_push(arena, f->parent, f->n, &f->cap_parent, sizeof *f->parent);
    f->function = arena_push(arena, f->function, f->n, &f->cap_function, sizeof *f->function);
    f->total = arena_push(arena, f->total, f->n, &f->cap_total, sizeof *f->total);
    f->parent[f->n] = parent;
    f->function[f->n] = function;
    f->total[f->n] = 0;
    return f->n++;
}

static void grow_functions(struct functions *f, const struct store_stacks *s, struct arena *arena)
{
    hash_init(&f->index, arena, s->n_nodes);
    f->of = arena_array(arena, s->n_nodes, sizeof *f->of);
    function_child(f, arena, 0, UINT32_MAX);
    for (uint32_t i = 1; i < s->n_nodes; i++) {
        const struct model_location *l = &s->symbols->locations[s->location[i]];
        uint32_t node = f->of[s->parent[i]];
        arena_spend(arena, 1 + l->n_lines);
        for (uint32_t j = l->n_lines; j-- > 0;)
            node = function_child(f, arena, node, s->symbols->lines[l->first_line + j].function);
        f->of[i] = node;
        f->total[node] = (int64_t)((uint64_t)f->total[node] + (uint64_t)s->self[i]);
    }
    for (uint32_t i = f->n; i-- > 1;) {
        arena_spend(arena, 1);
        f->total[f->parent[i]] =
            (int64_t)((uint64_t)f->total[f->parent[i]] + (uint64_t)f->total[i]);
    }
}

static int64_t function_threshold(const struct functions *f, int64_t max_nodes, struct arena *arena)
{
    return max_nodes > 0 ? query_threshold(f->total + 1, f->n - 1, max_nodes, arena) : INT64_MIN;
}

// How many functions at the leaf end are below least; -1: all. *depth: the stack's number of
// functions.
static int64_t count_cut_functions(const struct functions *f, uint32_t node, int64_t least,
                                   int64_t *depth)
{
    int64_t cut = -1;
    *depth = 0;
    for (; node; node = f->parent[node], ++*depth)
        if (cut < 0 && f->total[node] >= least)
            cut = *depth;
    return cut;
}

// How many locations at the leaf end are replaced by "other". As in Pyroscope, the outermost of the
// cut ones stays as the parent of "other".
static uint32_t count_cut_locations(const struct store_stacks *s, const uint32_t *path, uint32_t n,
                                    int64_t cut, int64_t depth)
{
    uint32_t l = n;
    for (; l > 0 && depth >= cut; l--)
        depth -= s->symbols->locations[path[l - 1]].n_lines;
    return l;
}

// Copies locations of the stacks to the new profile.
struct copier {
    struct model_builder *b;
    const struct model_profile *from;
    uint32_t *location, *function, *mapping; // plus one, except mappings
};

static uint32_t copy_location(struct copier *c, uint32_t l, struct arena *arena)
{
    const struct model_profile *from = c->from;
    const struct model_location *old = &from->locations[l];
    if (c->location[l])
        return c->location[l] - 1;
    struct model_line *lines = arena_array(arena, (size_t)old->n_lines + 1, sizeof *lines);
    for (uint32_t j = 0; j < old->n_lines; j++) {
        lines[j] = from->lines[old->first_line + j];
        uint32_t f = lines[j].function;
        const struct model_function *g = &from->functions[f];
        if (!c->function[f])
            c->function[f] =
                model_build_function(c->b, model_build_string(c->b, model_str(from, g->name)),
                                     model_build_string(c->b, model_str(from, g->system_name)),
                                     model_build_string(c->b, model_str(from, g->filename)),
                                     g->start_line) +
                1;
        lines[j].function = c->function[f] - 1;
    }
    uint32_t made = model_build_location(
        c->b, old->mapping == MODEL_NONE ? MODEL_NONE : c->mapping[old->mapping], old->address,
        lines, old->n_lines);
    c->b->p->locations[made].is_folded = old->is_folded;
    c->location[l] = made + 1;
    return made;
}

static bool is_period_type(const struct model_profile *p)
{
    return p->types[0].type == p->period_type.type && p->types[0].unit == p->period_type.unit &&
           p->period > 0;
}

// Whether event weights can be expressed as a profiler does.
static bool is_weighed(const struct store_stacks *s)
{
    const struct model_profile *p = s->symbols;
    bool counts = str_eq(model_str(p, p->types[0].unit), STR("count")) &&
                  !str_eq(model_str(p, p->period_type.unit), STR("bytes"));
    return s->variance && (s->n_blocks || (!s->is_counted && (counts || is_period_type(p))));
}

// The period of a profile with blocks, the unit of its weights: a thousandth of the average weight.
// So weights are precise, and their squares fit into 62 bits for about 10^12 events.
static int64_t blocks_period(const struct store_stacks *s)
{
    const double parts = 1000;
    double value = 0, variance = 0;
    for (uint32_t i = 1; s->variance && i < s->n_nodes; i++) {
        value += fabs((double)s->self[i]);
        variance += s->variance[i];
    }
    double period = value > 0 ? round(variance / value / parts) : 1;
    return period > 1 ? units_truncate(period) : 1;
}

static void add_export_sample(struct model_builder *b, const struct store_stacks *s, uint32_t node,
                              const uint32_t *stack, size_t n, int64_t *values, double unit)
{
    values[0] = s->self[node];
    for (uint32_t i = 0; i < s->n_blocks; i++)
        values[1 + i] = s->blocks[(size_t)node * s->n_blocks + i];
    if (unit > 0)
        model_build_weighed_sample(b, stack, n, values, s->variance[node] / unit / unit);
    else
        model_build_sample(b, stack, n, values);
}

static void build_block_types(struct model_builder *b, const struct store_stacks *s,
                              uint32_t n_windows, struct arena *arena)
{
    struct str unit = model_str(s->symbols, s->symbols->types[0].unit);
    for (uint32_t i = 0; i < s->n_blocks; i++)
        model_build_type(
            b,
            str_from(arena_printf(arena, "%s%u", i < n_windows ? MODEL_WINDOWS : MODEL_GROUPS,
                                  i < n_windows ? i : i - n_windows)),
            unit);
}

static struct model_profile *build_export_profile(const struct store_stacks *s, int64_t max_nodes,
                                                  struct arena *arena)
{
    struct functions functions = {0};
    grow_functions(&functions, s, arena);
    int64_t least = function_threshold(&functions, max_nodes, arena), lost = 0;
    double lost_variance = 0;
    // "other" is added to a copy of the tables; the stacks' tables stay unchanged.
    struct model_builder b;
    model_build(&b, arena);
    const struct model_profile *from = s->symbols;
    struct model_profile *p = b.p;
    struct copier copier = {
        .b = &b,
        .from = from,
        .location = arena_array(arena, (size_t)from->n_locations + 1, sizeof(uint32_t)),
        .function = arena_array(arena, (size_t)from->n_functions + 1, sizeof(uint32_t)),
        .mapping = arena_array(arena, (size_t)from->n_mappings + 1, sizeof(uint32_t)),
    };
    model_build_type(&b, model_str(from, from->types[0].type),
                     model_str(from, from->types[0].unit));
    build_block_types(&b, s, s->n_windows, arena);
    // The divisor of variances; 0: no weights.
    p->period = s->n_blocks ? blocks_period(s) : from->period;
    double unit = !is_weighed(s)                              ? 0
                  : s->n_blocks || is_period_type(s->symbols) ? (double)p->period
                                                              : 1;
    int64_t *values = arena_array(arena, (size_t)s->n_blocks + 1, sizeof *values);
    // Keep the order of mappings: the first one is the program.
    for (uint32_t i = 0; i < from->n_mappings; i++) {
        struct model_mapping m = from->mappings[i];
        m.file = model_build_string(&b, model_str(from, m.file));
        m.build_id = model_build_string(&b, model_str(from, m.build_id));
        copier.mapping[i] = model_build_mapping(&b, m);
    }
    uint32_t *path = NULL;
    size_t cap = 0;
    for (uint32_t i = 1; i < s->n_nodes; i++) {
        arena_spend(arena, 1);
        if (!s->self[i])
            continue;
        uint32_t n = 0, cut = 0;
        for (uint32_t node = i; node; node = s->parent[node]) {
            arena_spend(arena, 1);
            path = arena_push(arena, path, n, &cap, sizeof *path);
            path[n++] = s->location[node];
        }
        if (least != INT64_MIN) {
            arena_spend(arena, n);
            int64_t depth,
                functions_cut = count_cut_functions(&functions, functions.of[i], least, &depth);
            if (functions_cut < 0) {
                lost = units_add(lost, s->self[i]);
                lost_variance += s->variance ? s->variance[i] : 0;
                continue;
            }
            if (functions_cut)
                cut = count_cut_locations(s, path, n, functions_cut, depth);
        }
        uint32_t *stack = path + cut;
        for (uint32_t k = 0; k < n - cut; k++)
            stack[k] = copy_location(&copier, stack[k], arena);
        if (cut) {
            *--stack = model_build_named_location(&b, STR("other"));
            n++;
        }
        add_export_sample(&b, s, i, stack, n - cut, values, unit);
    }
    if (lost) {
        uint32_t other = model_build_named_location(&b, STR("other"));
        memset(values, 0, ((size_t)s->n_blocks + 1) * sizeof *values);
        values[0] = lost;
        if (unit > 0)
            model_build_weighed_sample(&b, &other, 1, values, lost_variance / unit / unit);
        else
            model_build_sample(&b, &other, 1, values);
    }
    if (s->n_blocks) {
        p->period_type = p->types[0];
        return p;
    }
    p->period_type =
        (struct model_value_type){model_build_string(&b, model_str(from, from->period_type.type)),
                                  model_build_string(&b, model_str(from, from->period_type.unit))};
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
    *profile = build_export_profile(stacks, max_nodes, arena);
    if (max_nodes > 0 && (*profile)->n_samples > 1) { // cut stacks may be equal
        *profile = model_merge(profile, 1, arena, e);
        if (!*profile) {
            arena_try_end(arena);
            return STORE_FAILED;
        }
    }
    (*profile)->time_nanos = start;
    (*profile)->duration_nanos = duration;
    arena_try_end(arena);
    return 0;
}
