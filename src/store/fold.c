#include "store/fold.h"

#include "store/exact.h"

#define PUSH(f, items, cap) \
    ((f)->items = arena_push((f)->arena, (f)->items, (f)->n, &(f)->cap, sizeof *(f)->items))

static uint32_t new_fold_node(struct fold *f, uint32_t parent, uint32_t location)
{
    PUSH(f, parent, cap_parent);
    PUSH(f, location, cap_location);
    PUSH(f, self, cap_self);
    if (f->is_mean) {
        PUSH(f, shares, cap_shares);
        f->shares[f->n] = 0;
    }
    if (f->with_variance) {
        PUSH(f, variance, cap_variance);
        f->variance[f->n] = 0;
    }
    if (f->n_blocks) {
        f->blocks =
            arena_push(f->arena, f->blocks, f->n, &f->cap_blocks, f->n_blocks * sizeof *f->blocks);
        memset(f->blocks + (size_t)f->n * f->n_blocks, 0, f->n_blocks * sizeof *f->blocks);
    }
    f->parent[f->n] = parent;
    f->location[f->n] = location;
    f->self[f->n] = 0;
    return f->n++;
}

void fold_init(struct fold *f, struct arena *arena, struct db *names, bool is_mean)
{
    *f = (struct fold){.arena = arena, .names = names, .is_mean = is_mean};
    model_build(&f->b, arena);
    hash_init(&f->mapping_index, arena, 16);
}

// Maps ids of a part to ids of the result plus one.
struct translation {
    struct fold *f;
    const struct symbols *s;
    uint32_t *strings, *functions, *mappings, *locations;
};

static uint32_t translate_string(struct translation *t, uint32_t id)
{
    if (!t->strings[id])
        t->strings[id] = model_build_string(&t->f->b, t->s->strings[id]) + 1;
    return t->strings[id] - 1;
}

static uint32_t translate_function(struct translation *t, uint32_t id)
{
    if (!t->functions[id]) {
        const struct symbols_function *f = &t->s->functions[id];
        t->functions[id] = model_build_function(&t->f->b, translate_string(t, f->name),
                                                translate_string(t, f->system_name),
                                                translate_string(t, f->filename), f->start_line) +
                           1;
    }
    return t->functions[id] - 1;
}

struct model_mapping fold_mapping(const struct symbols_mapping *m, uint32_t file, uint32_t build_id)
{
    return (struct model_mapping){.start = m->start,
                                  .limit = m->start + m->size,
                                  .offset = m->offset,
                                  .file = file,
                                  .build_id = build_id,
                                  .has_functions = m->flags & SYMBOLS_HAS_FUNCTIONS,
                                  .has_filenames = m->flags & SYMBOLS_HAS_FILENAMES,
                                  .has_line_numbers = m->flags & SYMBOLS_HAS_LINE_NUMBERS,
                                  .has_inline_frames = m->flags & SYMBOLS_HAS_INLINE_FRAMES};
}

static uint32_t translate_mapping(struct translation *t, uint32_t id)
{
    struct fold *f = t->f;
    if (t->mappings[id])
        return t->mappings[id] - 1;
    const struct symbols_mapping *m = &t->s->mappings[id];
    uint32_t file = translate_string(t, m->file), build_id = translate_string(t, m->build_id);
    uint64_t hash = hash_mix(hash_mix(((uint64_t)file << 32) | build_id, m->size), m->offset);
    if (m->flags & SYMBOLS_FIXED)
        hash = hash_mix(hash, m->start);
    for (struct hash_probe at = hash_find(&f->mapping_index, hash);
         hash_hit(&f->mapping_index, &at); hash_next(&f->mapping_index, &at)) {
        uint32_t i = at.item;
        const struct model_mapping *n = &f->b.p->mappings[i];
        if (n->file == file && n->build_id == build_id && n->limit - n->start == m->size &&
            n->offset == m->offset && f->mapping_flags[i] == m->flags &&
            (!(m->flags & SYMBOLS_FIXED) || n->start == m->start)) {
            t->mappings[id] = i + 1;
            return i;
        }
    }
    f->mapping_flags = arena_push(f->arena, f->mapping_flags, f->b.p->n_mappings, &f->cap_mappings,
                                  sizeof *f->mapping_flags);
    f->mapping_flags[f->b.p->n_mappings] = m->flags;
    uint32_t made = model_build_mapping(&f->b, fold_mapping(m, file, build_id));
    hash_add(&f->mapping_index, f->arena, hash, made);
    t->mappings[id] = made + 1;
    return made;
}

uint32_t fold_late_lines(struct model_builder *b, struct db *names, const struct symbols *s,
                         const struct symbols_location *l, struct arena *arena,
                         struct model_line **lines)
{
    struct store_frame *frames;
    size_t n;
    if (!names_of_location(names, s, l, arena, &frames, &n))
        return 0;
    *lines = arena_array(arena, n, sizeof **lines);
    for (size_t i = 0; i < n; i++)
        (*lines)[i] = (struct model_line){
            frames[i].line, 0,
            model_build_function(b, model_build_string(b, frames[i].name),
                                 model_build_string(b, frames[i].system_name),
                                 model_build_string(b, frames[i].file), frames[i].start_line)};
    return (uint32_t)n;
}

static uint32_t translate_location(struct translation *t, uint32_t id)
{
    struct fold *f = t->f;
    if (t->locations[id])
        return t->locations[id] - 1;
    const struct symbols_location *l = &t->s->locations[id];
    uint32_t mapping = l->mapping ? translate_mapping(t, l->mapping - 1) : MODEL_NONE;
    uint64_t address = l->address + (l->mapping ? f->b.p->mappings[mapping].start : 0);
    struct model_line few[8], *lines = few;
    uint32_t n = l->n_lines;
    if (n > 8)
        lines = arena_array(f->arena, n, sizeof *lines);
    for (uint32_t i = 0; i < n; i++) {
        const struct symbols_line *line = &t->s->lines[l->first_line + i];
        lines[i] =
            (struct model_line){line->line, line->column, translate_function(t, line->function)};
    }
    if (!n)
        n = fold_late_lines(&f->b, f->names, t->s, l, f->arena, &lines);
    uint32_t made = model_build_location(&f->b, mapping, address, lines, n);
    f->b.p->locations[made].is_folded |= l->is_folded;
    t->locations[id] = made + 1;
    return made;
}

static uint32_t fold_node(struct fold *f, uint32_t parent, uint32_t location)
{
    uint64_t hash = hash_mix(parent, location);
    if (f->indexed) {
        for (struct hash_probe at = hash_find(&f->index, hash); hash_hit(&f->index, &at);
             hash_next(&f->index, &at))
            if (f->parent[at.item] == parent && f->location[at.item] == location)
                return at.item;
        hash_add(&f->index, f->arena, hash, f->n);
    }
    return new_fold_node(f, parent, location);
}

static void build_fold_index(struct fold *f)
{
    hash_init(&f->index, f->arena, (size_t)f->n * 2);
    for (uint32_t i = 1; i < f->n; i++) {
        arena_spend(f->arena, 1);
        hash_add(&f->index, f->arena, hash_mix(f->parent[i], f->location[i]), i);
    }
    f->indexed = true;
}

// to[i]: in: whether node i of s has a value; out: its index in the fold. Ancestors of such nodes
// are added too.
static void place_nodes(struct fold *f, const struct symbols *s, uint32_t *to, uint32_t n_nodes)
{
    struct translation t = {.f = f, .s = s};
    struct arena *a = f->arena;
    // Nodes of one part are distinct, so the first part needs no lookup.
    if (f->first_done && !f->indexed)
        build_fold_index(f);
    f->first_done = true;
    if (!f->n)
        new_fold_node(f, 0, MODEL_NONE);
    t.strings = arena_array(a, s->n.strings, sizeof *t.strings);
    t.functions = arena_array(a, s->n.functions, sizeof *t.functions);
    t.mappings = arena_array(a, s->n.mappings, sizeof *t.mappings);
    t.locations = arena_array(a, s->n.locations, sizeof *t.locations);
    for (uint32_t i = n_nodes; i-- > 1;) {
        arena_spend(a, 1);
        if (to[i])
            to[s->nodes[i].parent] = 1;
    }
    to[0] = 0;
    for (uint32_t i = 1; i < n_nodes; i++) {
        arena_spend(a, 1);
        if (to[i])
            to[i] =
                fold_node(f, to[s->nodes[i].parent], translate_location(&t, s->nodes[i].location));
    }
}

void fold_add(struct fold *f, const struct symbols *s, const int64_t *values,
              const double *variance, const int64_t *blocks, uint32_t n_nodes)
{
    uint32_t *to = arena_array(f->arena, n_nodes, sizeof *to);
    for (uint32_t i = 0; i < n_nodes; i++)
        to[i] = values[i] != 0;
    place_nodes(f, s, to, n_nodes);
    for (uint32_t i = 0; i < n_nodes; i++) {
        arena_spend(f->arena, 1);
        if (!values[i])
            continue;
        f->self[to[i]] = pack_add(f->self[to[i]], values[i]);
        if (f->with_variance)
            f->variance[to[i]] += variance[i];
        for (uint32_t b = 0; b < f->n_blocks; b++) {
            int64_t *sum = &f->blocks[(size_t)to[i] * f->n_blocks + b];
            *sum = pack_add(*sum, blocks[(size_t)i * f->n_blocks + b]);
        }
    }
}

void fold_add_shares(struct fold *f, const struct symbols *s, const __int128 *shares,
                     uint32_t n_nodes)
{
    uint32_t *to = arena_array(f->arena, n_nodes, sizeof *to);
    for (uint32_t i = 0; i < n_nodes; i++)
        to[i] = shares[i] != 0;
    place_nodes(f, s, to, n_nodes);
    for (uint32_t i = 0; i < n_nodes; i++) {
        arena_spend(f->arena, 1);
        if (shares[i])
            f->shares[to[i]] += shares[i];
    }
}

static void round_means(struct fold *f)
{
    uint32_t *to = arena_array(f->arena, f->n, sizeof *to), n = 1;
    for (uint32_t i = 0; i < f->n; i++) {
        arena_spend(f->arena, 1);
        f->self[i] = exact_round(f->shares[i]);
    }
    for (uint32_t i = f->n; i-- > 1;)
        if (f->self[i] || to[i])
            to[f->parent[i]] = to[i] = 1;
    to[0] = 0;
    for (uint32_t i = 1; i < f->n; i++) {
        arena_spend(f->arena, 1);
        if (!to[i])
            continue;
        to[i] = n;
        f->parent[n] = to[f->parent[i]];
        f->location[n] = f->location[i];
        f->self[n++] = f->self[i];
    }
    f->n = n;
}

struct store_stacks fold_end(struct fold *f)
{
    if (!f->n)
        new_fold_node(f, 0, MODEL_NONE);
    if (f->is_mean)
        round_means(f);
    return (struct store_stacks){.n_nodes = f->n,
                                 .parent = f->parent,
                                 .location = f->location,
                                 .self = f->self,
                                 .symbols = f->b.p,
                                 .variance = f->variance,
                                 .blocks = f->blocks,
                                 .n_blocks = f->n_blocks};
}
