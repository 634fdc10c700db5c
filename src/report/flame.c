#include "report/flame_grow.h"

#include "base/sort.h"

enum {
    FRAME_ALL,
    FRAME_OTHER,
    FIRST_FRAME,
    // Maximum functions in the table that no node of the tree shows.
    TABLE_EXTRA = 2000,
};

static int compare_branch_names(const void *a, const void *b, void *context)
{
    const struct flame_growth *g = context;
    const uint32_t *x = a, *y = b;
    return str_cmp(g->stacks.keys[g->branches[*x].key].name,
                   g->stacks.keys[g->branches[*y].key].name);
}

// Numbers the frames of the result in the order of their first use.
static uint32_t number_frame(struct report_flame *f, const struct flame_growth *g,
                             uint32_t *frame_of_key, uint32_t key)
{
    if (!frame_of_key[key]) {
        f->frames[f->n_frames] = g->stacks.keys[key];
        frame_of_key[key] = f->n_frames++;
    }
    return frame_of_key[key];
}

static uint32_t emit_flame_node(struct report_flame *f, uint32_t parent, uint32_t frame,
                                uint8_t flags, const int64_t *totals)
{
    uint32_t id = f->n_nodes++;
    f->frame[id] = frame;
    f->parent[id] = parent;
    f->depth[id] = parent == MODEL_NONE ? 0 : f->depth[parent] + 1;
    f->flags[id] = flags;
    memcpy(f->total + (size_t)id * f->n_columns, totals, f->n_columns * sizeof *totals);
    if (f->depth[id] > f->max_depth)
        f->max_depth = f->depth[id];
    return id;
}

static void close_node(struct report_flame *f, const struct flame_growth *g, uint32_t node,
                       uint32_t branch)
{
    if (g->branches[branch].merged) {
        uint32_t id = emit_flame_node(f, node, FRAME_OTHER, REPORT_FLAME_OTHER,
                                      g->other + branch * flame_columns(g));
        f->end[id] = f->n_nodes;
        f->merged += g->branches[branch].merged;
    }
    f->end[node] = f->n_nodes;
}

// Depth first, siblings by name, without recursion: stacks can be deep.
static void finish_nodes(struct report_flame *f, struct flame_growth *g, uint32_t n_nodes,
                         uint32_t *frame_of_key)
{
    uint32_t *pending = arena_array(g->scratch, n_nodes, sizeof *pending);
    struct {
        uint32_t node, branch, pending; // pending: length of the pending list before its children
    } *stack = arena_array(g->scratch, FLAME_MAX_DEPTH + 3, sizeof *stack);
    size_t depth = 0, n_pending = 0;
    pending[n_pending++] = 0;
    while (n_pending || depth) {
        if (depth && stack[depth - 1].pending == n_pending) {
            depth--;
            close_node(f, g, stack[depth].node, stack[depth].branch);
            continue;
        }
        uint32_t id = pending[--n_pending];
        arena_spend(g->scratch, 1 + flame_columns(g) / 8);
        const struct flame_branch *b = &g->branches[id];
        uint8_t flags = !b->n_inlined          ? 0
                        : b->n_inlined == b->n ? REPORT_FLAME_INLINED
                                               : REPORT_FLAME_PARTLY;
        uint32_t node = emit_flame_node(f, depth ? stack[depth - 1].node : MODEL_NONE,
                                        id ? number_frame(f, g, frame_of_key, b->key) : FRAME_ALL,
                                        flags, g->totals + id * flame_columns(g));
        stack[depth].node = node;
        stack[depth].branch = id;
        stack[depth++].pending = (uint32_t)n_pending;
        size_t first = n_pending;
        for (uint32_t c = b->first; c != MODEL_NONE; c = g->branches[c].next)
            if (g->branches[c].kept)
                pending[n_pending++] = c;
        sort_items_by(g->scratch, pending + first, n_pending - first, sizeof *pending,
                      compare_branch_names, g);
        for (size_t i = first, j = n_pending; i + 1 < j; i++) {
            uint32_t swap = pending[i];
            pending[i] = pending[--j];
            pending[j] = swap;
        }
    }
}

static void finish_selves(struct report_flame *f, struct arena *scratch)
{
    size_t columns = f->n_columns;
    memcpy(f->self, f->total, f->n_nodes * columns * sizeof *f->self);
    for (uint32_t i = 1; i < f->n_nodes; i++) {
        arena_spend(scratch, 1 + columns / 8);
        for (size_t c = 0; c < columns; c++)
            f->self[f->parent[i] * columns + c] -= f->total[i * columns + c];
    }
    for (uint32_t i = 1; i < f->n_nodes; i++)
        if (f->flags[i] & REPORT_FLAME_OTHER)
            for (size_t c = 0; c < columns; c++)
                f->merged_share[c] +=
                    f->total[c] ? (double)f->total[i * columns + c] / (double)f->total[c] : 0;
}

struct extra {
    double share;
    uint32_t key;
};

static int compare_extras(const void *a, const void *b)
{
    const struct extra *x = a, *y = b;
    return x->share != y->share ? (x->share < y->share) - (x->share > y->share)
                                : (x->key > y->key) - (x->key < y->key);
}

// Functions called from very many places may have no node of their own.
static void count_functions(struct report_flame *f, struct flame_growth *g, uint32_t *frame_of_key)
{
    size_t columns = flame_columns(g), n_keys = g->stacks.n_keys;
    int64_t *self = arena_array(g->scratch, n_keys * columns, sizeof *self);
    int64_t *total = arena_array(g->scratch, n_keys * columns, sizeof *total);
    flame_stacks_count(&g->stacks, g->scratch, self, total);

    struct extra *extras = arena_array(g->scratch, n_keys, sizeof *extras);
    size_t n = 0;
    for (uint32_t key = 0; key < n_keys; key++) {
        double share = 0;
        arena_spend(g->scratch, 1 + columns / 8);
        for (size_t c = 0; c < columns; c++)
            if (g->stacks.sums[c] &&
                (double)total[key * columns + c] > share * (double)g->stacks.sums[c])
                share = (double)total[key * columns + c] / (double)g->stacks.sums[c];
        if (!frame_of_key[key] && share >= g->min_share)
            extras[n++] = (struct extra){share, key};
    }
    sort_items(g->scratch, extras, n, sizeof *extras, compare_extras);
    for (size_t i = 0; i < n && i < TABLE_EXTRA; i++)
        number_frame(f, g, frame_of_key, extras[i].key);

    for (uint32_t key = 0; key < n_keys; key++) {
        arena_spend(g->scratch, 1 + columns / 8);
        size_t to = frame_of_key[key] * columns;
        if (!to)
            continue;
        memcpy(f->frame_self + to, self + key * columns, columns * sizeof *self);
        memcpy(f->frame_total + to, total + key * columns, columns * sizeof *total);
    }
}

static void finish_groups(struct report_flame *f, struct arena *arena, struct arena *scratch,
                          bool by_module)
{
    struct hash_table index;
    size_t cap = 0;
    hash_init(&index, scratch, 64);
    for (uint32_t i = 0; i < f->n_frames; i++) {
        struct report_flame_frame *frame = &f->frames[i];
        struct flame_group_name name = i < FIRST_FRAME
                                           ? (struct flame_group_name){STR(""), true}
                                           : flame_group_of(frame->name, frame->module, by_module);
        frame->short_at = flame_short_name(frame->name);
        uint64_t hash = hash_bytes(name.name.p, name.name.n, name.muted);
        uint32_t group = MODEL_NONE;
        for (struct hash_probe at = hash_find(&index, hash); hash_hit(&index, &at);
             hash_next(&index, &at))
            if (str_eq(f->groups[at.item].name, name.name) &&
                f->groups[at.item].muted == name.muted)
                group = at.item;
        if (group == MODEL_NONE) {
            f->groups = arena_push(arena, f->groups, f->n_groups, &cap, sizeof *f->groups);
            group = f->n_groups++;
            f->groups[group] = (struct report_flame_group){
                .name = name.name,
                .muted = name.muted,
                .colour = (uint8_t)(hash_stable(name.name.p, name.name.n, 0) % FLAME_HUES),
            };
            hash_add(&index, scratch, hash, group);
        }
        frame->group = group;
    }
}

static void sum_groups(struct report_flame *f)
{
    for (uint32_t i = 1; i < f->n_nodes; i++)
        for (uint32_t c = 0; c < (f->diff ? 2 : 1); c++)
            f->groups[f->frames[f->frame[i]].group].self += f->self[(size_t)i * f->n_columns + c];
}

struct text_table {
    struct arena *arena, *scratch;
    struct hash_table index;
    size_t cap;
};

static uint32_t text_index(struct report_flame *f, struct text_table *table, struct str text)
{
    uint64_t hash = hash_bytes(text.p, text.n, 0);
    for (struct hash_probe at = hash_find(&table->index, hash); hash_hit(&table->index, &at);
         hash_next(&table->index, &at))
        if (str_eq(f->texts[at.item], text))
            return at.item;
    f->texts = arena_push(table->arena, f->texts, f->n_texts, &table->cap, sizeof *f->texts);
    f->texts[f->n_texts] = text;
    hash_add(&table->index, table->scratch, hash, f->n_texts);
    return f->n_texts++;
}

static void finish_texts(struct report_flame *f, struct arena *arena, struct arena *scratch)
{
    struct text_table table = {.arena = arena, .scratch = scratch};
    hash_init(&table.index, scratch, 64);
    text_index(f, &table, (struct str){"", 0});
    for (uint32_t i = 0; i < f->n_frames; i++) {
        f->frames[i].file_text = text_index(f, &table, f->frames[i].file);
        f->frames[i].module_text = text_index(f, &table, f->frames[i].module);
    }
}

static struct report_flame *finish_flame(struct flame_growth *g, struct arena *arena,
                                         uint32_t n_nodes,
                                         const struct report_flame_options *options)
{
    struct report_flame *f = arena_alloc(arena, sizeof *f);
    size_t columns = flame_columns(g);
    f->diff = options->base != NULL;
    f->reverse = options->reverse;
    f->normalize = f->diff && options->normalize;
    f->n_columns = (uint32_t)columns;
    f->n_types = g->stacks.n_types;
    f->types = arena_array(arena, f->n_types, sizeof *f->types);
    const struct model_profile *p = g->stacks.sides[0].p;
    for (uint32_t t = 0; t < f->n_types; t++) {
        const struct model_value_type *type = &p->types[g->stacks.sides[0].value[t]];
        f->types[t] = (struct report_flame_type){model_str(p, type->type), model_str(p, type->unit),
                                                 g->stacks.negative[t]};
    }
    f->frame = arena_array(arena, n_nodes, sizeof *f->frame);
    f->parent = arena_array(arena, n_nodes, sizeof *f->parent);
    f->depth = arena_array(arena, n_nodes, sizeof *f->depth);
    f->end = arena_array(arena, n_nodes, sizeof *f->end);
    f->flags = arena_array(arena, n_nodes, sizeof *f->flags);
    f->self = arena_array(arena, n_nodes * columns, sizeof *f->self);
    f->total = arena_array(arena, n_nodes * columns, sizeof *f->total);
    f->merged_share = arena_array(arena, columns, sizeof *f->merged_share);

    size_t max_frames = (size_t)n_nodes + FIRST_FRAME + (options->functions ? TABLE_EXTRA : 0);
    f->frames = arena_array(arena, max_frames, sizeof *f->frames);
    f->frames[FRAME_ALL].name = STR("all");
    f->frames[FRAME_OTHER].name = STR("other");
    f->n_frames = FIRST_FRAME;
    uint32_t *frame_of_key = arena_array(g->scratch, g->stacks.n_keys, sizeof *frame_of_key);
    finish_nodes(f, g, n_nodes, frame_of_key);
    finish_selves(f, g->scratch);
    if (options->functions) {
        f->frame_self = arena_array(arena, max_frames * columns, sizeof *f->frame_self);
        f->frame_total = arena_array(arena, max_frames * columns, sizeof *f->frame_total);
        count_functions(f, g, frame_of_key);
    }
    if (f->diff)
        flame_find_changes(f, g, options, frame_of_key, arena);
    finish_groups(f, arena, g->scratch, options->by_module);
    sum_groups(f);
    finish_texts(f, arena, g->scratch);
    return f;
}

static void find_path(struct flame_growth *g, const struct report_flame_options *options)
{
    g->n_path = options->n_path;
    g->path = arena_array(g->scratch, g->n_path + 1, sizeof *g->path);
    for (size_t i = 0; i < g->n_path; i++) {
        g->path[i] = MODEL_NONE;
        for (uint32_t k = 0; k < g->stacks.n_keys && g->path[i] == MODEL_NONE; k++) {
            arena_spend(g->scratch, 1);
            if (str_eq(g->stacks.keys[k].name, options->path[i]))
                g->path[i] = k;
        }
    }
}

static struct report_flame *make_flame(struct arena *arena, struct arena *scratch,
                                       const struct model_profile *p,
                                       const struct report_flame_options *options, struct err *e)
{
    struct flame_growth g = {
        .scratch = scratch,
        .reverse = options->reverse,
        .min_share = options->min_share > 0 ? options->min_share : 0.1 / REPORT_FLAME_WIDTH,
        .max_nodes = options->max_nodes ? options->max_nodes : REPORT_FLAME_HTML_NODES,
    };
    if (!flame_stacks_init(&g.stacks, scratch, arena, p, options, e))
        return NULL;
    find_path(&g, options);
    uint32_t n_nodes = flame_grow(&g);
    return finish_flame(&g, arena, n_nodes, options);
}

struct report_flame *report_flame_new(struct arena *arena, const struct model_profile *p,
                                      const struct report_flame_options *options, struct err *e)
{
    struct arena *scratch = arena_new_in(arena_budget(arena), 0);
    if (!scratch) {
        err_set(e, "out of memory");
        return NULL;
    }
    struct arena_trap trap, scratch_trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        arena_free(scratch);
        return NULL;
    }
    if (ARENA_TRY(scratch, scratch_trap)) {
        arena_try_end(arena);
        arena_caught(scratch, e);
        arena_free(scratch);
        return NULL;
    }
    struct report_flame *f = make_flame(arena, scratch, p, options, e);
    arena_try_end(arena);
    arena_free(scratch);
    return f;
}

static double left_scale(const struct report_flame *f)
{
    return f->normalize && f->total[0] && f->total[1] ? (double)f->total[1] / (double)f->total[0]
                                                      : 1;
}

double report_flame_weight(const struct report_flame *f, uint32_t node)
{
    const int64_t *total = f->total + (size_t)node * f->n_columns;
    return f->diff ? (double)total[0] * left_scale(f) + (double)total[1] : (double)total[0];
}

double report_flame_change(const struct report_flame *f, uint32_t node)
{
    const int64_t *total = f->total + (size_t)node * f->n_columns;
    double left = f->diff ? (double)total[0] * left_scale(f) : 0,
           right = f->diff ? (double)total[1] : 0;
    double larger = left > right ? left : right;
    return larger > 0 ? (right - left) / larger : 0;
}
