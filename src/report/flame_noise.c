// Finds the boxes and functions of a diff that changed beyond noise; docs/explanation/diff.md
// describes the model. The common part of the sides is determined from functions; everything is
// tested against it.
#include <math.h>

#include "base/sort.h"
#include "model/blocks.h"
#include "model/events.h"
#include "report/flame_grow.h"
#include "stats/compare.h"
#include "stats/discovery.h"

// Rows are nodes, then the self values of frames, then their totals.
struct noise {
    struct report_flame *f;
    const struct flame_growth *g;
    const uint32_t *frame_of_key;
    struct arena *scratch;
    size_t n_rows, frames_at, totals_at;
    struct stats_cell *sums; // by row and side
    double *blocks;          // by row and side, n_blocks each
    uint32_t n_blocks;
    // The blocks of each side that have a value: windows and groups.
    uint32_t *used[2][2];
    size_t n_used[2][2];
    struct hash_table children;
    uint32_t *other; // of a node; MODEL_NONE: it has none
    size_t *seen, n_seen;
};

enum { LEFT, RIGHT };
enum { WINDOWS, GROUPS };

// --- rows ---

static void index_nodes(struct noise *n)
{
    const struct report_flame *f = n->f;
    hash_init(&n->children, n->scratch, f->n_nodes);
    n->other = arena_array(n->scratch, f->n_nodes, sizeof *n->other);
    memset(n->other, 0xff, f->n_nodes * sizeof *n->other);
    for (uint32_t i = 1; i < f->n_nodes; i++) {
        arena_spend(n->scratch, 1);
        if (f->flags[i] & REPORT_FLAME_OTHER)
            n->other[f->parent[i]] = i;
        else
            hash_add(&n->children, n->scratch, hash_mix(f->parent[i], f->frame[i]), i);
    }
}

// The child that a step leads to; MODEL_NONE: its samples belong to the node or to its "other".
static uint32_t find_child_node(const struct noise *n, uint32_t node, uint32_t frame)
{
    if (!frame)
        return MODEL_NONE;
    uint64_t hash = hash_mix(node, frame);
    for (struct hash_probe at = hash_find(&n->children, hash); hash_hit(&n->children, &at);
         hash_next(&n->children, &at))
        if (n->f->parent[at.item] == node && n->f->frame[at.item] == frame)
            return at.item;
    return MODEL_NONE;
}

// A sample to add to the rows.
struct weighed_sample {
    int side;
    struct stats_cell cell;
    const int64_t *blocks; // n_blocks values
};

static void add_to_row(struct noise *n, size_t row, const struct weighed_sample *s)
{
    struct stats_cell *sum = &n->sums[2 * row + (size_t)s->side];
    double *blocks = n->blocks + (2 * row + (size_t)s->side) * n->n_blocks;
    sum->value += s->cell.value;
    sum->variance += s->cell.variance;
    for (uint32_t i = 0; i < n->n_blocks; i++)
        blocks[i] += (double)s->blocks[i];
}

// Iterates over the keys of a stack in the tree's order.
struct steps {
    const struct flame_side *side;
    const uint32_t *stack;
    uint32_t n, at, sub;
    bool reverse;
};

static bool next_key(struct steps *s, uint32_t *key)
{
    if (s->at == s->n)
        return false;
    uint32_t location = s->stack[s->reverse ? s->at : s->n - 1 - s->at];
    uint32_t first = s->side->first_step[location], end = s->side->first_step[location + 1];
    *key = s->side->steps[s->reverse ? end - 1 - s->sub : first + s->sub] >> 1;
    if (++s->sub == end - first) {
        s->sub = 0;
        s->at++;
    }
    return true;
}

static void add_noise_sample(struct noise *n, struct steps steps, const struct weighed_sample *s)
{
    const struct report_flame *f = n->f;
    uint32_t node = 0, key = MODEL_NONE, leaf = MODEL_NONE;
    bool in_tree = true;
    for (size_t i = 0; i < n->g->n_path; i++)
        if (!next_key(&steps, &key) || key != n->g->path[i])
            return;
    n->n_seen++;
    for (bool first = true; next_key(&steps, &key); first = false) {
        uint32_t frame = n->frame_of_key[key];
        leaf = first || !n->g->reverse ? frame : leaf;
        if (in_tree) {
            uint32_t child = find_child_node(n, node, frame);
            in_tree = child != MODEL_NONE;
            node = in_tree ? child : n->other[node] != MODEL_NONE ? n->other[node] : node;
        }
        if (f->frame_self && frame && n->seen[frame] != n->n_seen) {
            n->seen[frame] = n->n_seen;
            add_to_row(n, n->totals_at + frame, s);
        }
    }
    add_to_row(n, node, s);
    // A leaf without a frame counts for frame 1, "other".
    add_to_row(n, n->frames_at + (leaf == MODEL_NONE ? 0 : leaf ? leaf : 1), s);
}

static void add_side(struct noise *n, int side, double event_weight)
{
    const struct flame_side *from = &n->g->stacks.sides[1 - side]; // sides has the profile first
    const struct model_profile *p = from->p;
    struct model_events events = model_events(p, from->value[0]);
    for (size_t i = 0; i < p->n_samples; i++) {
        const int64_t *values = model_values(p, i);
        struct weighed_sample s = {.side = side, .cell.value = (double)values[from->value[0]]};
        arena_spend(n->scratch, 1 + (1 + n->n_blocks / 8) * p->stack_len[i]);
        if (!(s.cell.value > 0))
            continue;
        s.cell.variance =
            event_weight > 0 ? s.cell.value * event_weight : model_variance(&events, p, i);
        s.blocks = values + 1;
        add_noise_sample(n,
                         (struct steps){.side = from,
                                        .stack = model_stack(p, i),
                                        .n = p->stack_len[i],
                                        .reverse = n->g->reverse},
                         &s);
    }
}

// Adds the sums of subtrees to their parents.
static void sum_subtrees(struct noise *n)
{
    for (uint32_t i = n->f->n_nodes; i-- > 1;) {
        size_t up = n->f->parent[i];
        arena_spend(n->scratch, 1 + n->n_blocks / 4);
        for (size_t side = 0; side < 2; side++) {
            n->sums[2 * up + side].value += n->sums[2 * i + side].value;
            n->sums[2 * up + side].variance += n->sums[2 * i + side].variance;
        }
        for (size_t k = 0; k < 2 * n->n_blocks; k++)
            n->blocks[2 * up * n->n_blocks + k] += n->blocks[2 * (size_t)i * n->n_blocks + k];
    }
}

static void find_used(struct noise *n, int partition, struct model_blocks columns)
{
    for (int side = 0; side < 2; side++) {
        const double *all = n->blocks + (size_t)side * n->n_blocks;
        n->used[partition][side] = arena_array(n->scratch, columns.n + 1, sizeof(uint32_t));
        for (uint32_t i = 0; i < columns.n; i++)
            if (all[columns.first - 1 + i] > 0)
                n->used[partition][side][n->n_used[partition][side]++] = columns.first - 1 + i;
    }
}

// --- tests ---

// The cells of a row, split by a partition; all parts have the same event weight.
static void fill_cells(const struct noise *n, int partition, size_t row, struct stats_cell *cells)
{
    for (size_t side = 0; side < 2; side++) {
        struct stats_cell sum = n->sums[2 * row + side];
        const double *blocks = n->blocks + (2 * row + side) * n->n_blocks;
        double weight = sum.value > 0 ? sum.variance / sum.value : 0;
        size_t n_used = n->n_used[partition][side];
        if (!n_used)
            *cells++ = sum;
        for (size_t i = 0; i < n_used; i++) {
            double value = blocks[n->used[partition][side][i]];
            *cells++ = (struct stats_cell){value, value * weight};
        }
    }
}

static int compare_p_values(const void *a, const void *b, void *context)
{
    const double *p = context;
    double x = p[*(const size_t *)a], y = p[*(const size_t *)b];
    return (x > y) - (x < y);
}

// The largest p-value of a node that is a discovery: the procedure of Benjamini and Hochberg, with
// one discovery per path from the root. All callers of one culprit changed; if each of them
// counted, so many true discoveries would allow for false ones elsewhere.
static double find_nodes_cutoff(const struct noise *n, const double *p, const size_t *nodes,
                                size_t count)
{
    struct arena *scratch = n->scratch;
    const uint32_t *parent = n->f->parent;
    size_t *order = arena_array(scratch, count + 1, sizeof *order), found = 0;
    bool *is_found = arena_array(scratch, n->f->n_nodes + 1, sizeof *is_found);
    bool *is_above = arena_array(scratch, n->f->n_nodes + 1, sizeof *is_above);
    double cutoff = -1;
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    sort_items_by(scratch, order, count, sizeof *order, compare_p_values, (void *)(uintptr_t)p);
    for (size_t i = 0; i < count; i++) {
        size_t node = nodes[order[i]];
        is_found[node] = true;
        found += !is_above[node];
        for (size_t up = node; up && !is_above[parent[up]];) {
            up = parent[up];
            is_above[up] = true;
            found -= is_found[up];
        }
        if (p[order[i]] * (double)count <= STATS_LEVEL * (double)found)
            cutoff = p[order[i]];
    }
    return cutoff;
}

enum family { NODES, SELF_VALUES, TOTALS };

// n_self: functions whose self values changed, the causes that totals may have.
static size_t mark_flame_rows(const struct noise *n, int partition, const struct stats_fit *fit,
                              enum family family, size_t n_self, bool *changed)
{
    size_t first = family == NODES ? 0 : family == SELF_VALUES ? n->frames_at : n->totals_at;
    size_t count = family == NODES ? n->f->n_nodes : n->f->n_frames, n_changed = 0;
    double *p = arena_array(n->scratch, count + 1, sizeof *p);
    size_t *rows = arena_array(n->scratch, count + 1, sizeof *rows), n_rows = 0;
    size_t k = fit->n_profiles[0] + fit->n_profiles[1];
    struct stats_cell *cells = arena_array(n->scratch, k + 1, sizeof *cells);
    for (size_t i = 0; i < count; i++) {
        const struct stats_cell *sum = n->sums + 2 * (first + i);
        arena_spend(n->scratch, 8 + k);
        changed[i] &= sum[LEFT].value > 0 || sum[RIGHT].value > 0;
        if (sum[LEFT].value <= 0 && sum[RIGHT].value <= 0)
            continue;
        fill_cells(n, partition, first + i, cells);
        p[n_rows] = stats_test(fit, cells).p;
        rows[n_rows++] = i;
    }
    double cutoff = STATS_LEVEL;
    if (family == NODES)
        cutoff = find_nodes_cutoff(n, p, rows, n_rows);
    else if (family == TOTALS)
        cutoff = STATS_LEVEL * fmax((double)n_self, 1) / fmax((double)n_rows, 1);
    else
        stats_adjust(p, p, n_rows, n->scratch);
    for (size_t i = 0; i < n_rows; i++) {
        changed[rows[i]] &= p[i] <= cutoff;
        n_changed += p[i] <= cutoff;
    }
    return n_changed;
}

// How much the sides vary beyond sampling if each is treated as one profile.
static double joint_dispersion(const struct stats_fit *fit)
{
    double parts = 0, wholes = 0;
    const double *total = fit->profile_totals;
    for (size_t side = 0; side < 2; side++) {
        double factor = side ? 1 : fit->scale * fit->scale;
        wholes += factor * fit->totals[side] * fit->totals[side];
        for (size_t i = 0; i < fit->n_profiles[side]; i++, total++)
            parts += factor * *total * *total;
    }
    return wholes > 0 ? fit->dispersion * parts / wholes : 0;
}

// Memory in use does not depend on load.
static bool type_is_absolute(const struct report_flame *f, uint32_t type)
{
    return str_starts(f->types[type].type, STR("inuse_"));
}

static void test_partition(struct noise *n, int partition, struct report_flame_noise *noise)
{
    struct report_flame *f = n->f;
    struct stats_fit fit;
    struct stats_rows rows = {.n = f->n_frames, .absolute = type_is_absolute(f, 0)};
    for (int side = 0; side < 2; side++)
        rows.n_profiles[side] = n->n_used[partition][side] ? n->n_used[partition][side] : 1;
    size_t k = rows.n_profiles[0] + rows.n_profiles[1];
    struct stats_cell *cells = arena_array(n->scratch, rows.n * k + 1, sizeof *cells);
    for (size_t i = 0; i < rows.n; i++)
        fill_cells(n, partition, n->frames_at + i, cells + i * k);
    rows.cells = cells;
    stats_fit(&rows, n->scratch, &fit);
    double dispersion = joint_dispersion(&fit);
    if (partition == WINDOWS || dispersion > noise->dispersion) {
        noise->scale = fit.scale;
        noise->dispersion = dispersion;
        noise->uncertainty =
            fit.agreed[0] > 0 && fit.agreed[1] > 0 ? 1 / fit.agreed[0] + 1 / fit.agreed[1] : 0;
    }
    mark_flame_rows(n, partition, &fit, NODES, 0, f->changed);
    if (!f->frame_self)
        return;
    size_t n_self = mark_flame_rows(n, partition, &fit, SELF_VALUES, 0, f->frame_self_changed);
    mark_flame_rows(n, partition, &fit, TOTALS, n_self, f->frame_total_changed);
}

static bool *all_true(struct arena *arena, size_t n)
{
    bool *flags = arena_array(arena, n + 1, sizeof *flags);
    memset(flags, true, n);
    return flags;
}

// Finds marks for the first type, from all data.
static void find_marks(struct report_flame *f, const struct flame_growth *g,
                       const struct report_flame_options *options, const uint32_t *frame_of_key,
                       struct arena *arena, struct report_flame_noise *noise)
{
    const struct model_profile *right = g->stacks.sides[0].p, *left = g->stacks.sides[1].p;
    struct noise n = {.f = f, .g = g, .frame_of_key = frame_of_key, .scratch = g->scratch};
    struct model_blocks windows = model_blocks(right, STR(MODEL_WINDOWS)),
                        groups = model_blocks(right, STR(MODEL_GROUPS));
    // Groups, if present, follow the windows.
    if (options->type == 0 && left->n_types == right->n_types && windows.first == 1 &&
        (!groups.n || groups.first == 1 + windows.n))
        n.n_blocks = windows.n + groups.n;
    n.frames_at = f->n_nodes;
    n.totals_at = n.frames_at + f->n_frames;
    n.n_rows = n.totals_at + (f->frame_self ? f->n_frames : 0);
    n.sums = arena_array(g->scratch, 2 * n.n_rows, sizeof *n.sums);
    n.blocks = arena_array(g->scratch, 2 * n.n_rows * n.n_blocks, sizeof *n.blocks);
    n.seen = arena_array(g->scratch, f->n_frames, sizeof *n.seen);
    index_nodes(&n);
    for (int side = 0; side < 2; side++)
        add_side(&n, side, options->event_weights[side]);
    sum_subtrees(&n);
    for (int side = 0; side < 2; side++) {
        noise->weight[side] =
            n.sums[side].value > 0 ? n.sums[side].variance / n.sums[side].value : 0;
        if (!(noise->weight[side] > 0)) {
            *noise = (struct report_flame_noise){0};
            return;
        }
    }
    if (n.n_blocks) {
        find_used(&n, WINDOWS, windows);
        find_used(&n, GROUPS, groups);
    }
    f->changed = all_true(arena, f->n_nodes);
    f->frame_self_changed = f->frame_self ? all_true(arena, f->n_frames) : NULL;
    f->frame_total_changed = f->frame_self ? all_true(arena, f->n_frames) : NULL;
    test_partition(&n, WINDOWS, noise);
    if (n.n_used[GROUPS][LEFT] + n.n_used[GROUPS][RIGHT] > 2)
        test_partition(&n, GROUPS, noise);
}

// For the other types, the page computes marks when they are shown.
static void describe_noise(const struct report_flame *f, const struct flame_stacks *stacks,
                           uint32_t type, struct arena *scratch, struct report_flame_noise *noise)
{
    struct stats_cell *cells = arena_array(scratch, 2 * (size_t)f->n_frames, sizeof *cells);
    for (int side = 0; side < 2; side++) {
        const struct flame_side *from = &stacks->sides[1 - side];
        noise->weight[side] = model_event_weight(from->p, from->value[type]);
        if (!(noise->weight[side] > 0) || !stacks->sums[2 * type + (uint32_t)side]) {
            *noise = (struct report_flame_noise){0};
            return;
        }
        for (uint32_t i = 0; i < f->n_nodes; i++) {
            double self = (double)f->self[(size_t)i * f->n_columns + 2 * type + (uint32_t)side];
            struct stats_cell *cell = &cells[2 * f->frame[i] + (uint32_t)side];
            cell->value += self;
            cell->variance += self * noise->weight[side];
        }
    }
    struct stats_fit fit;
    struct stats_rows rows = {.n = f->n_frames,
                              .n_profiles = {1, 1},
                              .cells = cells,
                              .absolute = type_is_absolute(f, type)};
    stats_fit(&rows, scratch, &fit);
    noise->scale = fit.scale;
    noise->dispersion = fit.dispersion;
    noise->uncertainty =
        fit.agreed[0] > 0 && fit.agreed[1] > 0 ? 1 / fit.agreed[0] + 1 / fit.agreed[1] : 0;
}

void flame_find_changes(struct report_flame *f, const struct flame_growth *g,
                        const struct report_flame_options *options, const uint32_t *frame_of_key,
                        struct arena *arena)
{
    f->noise = arena_array(arena, f->n_types + 1, sizeof *f->noise);
    if (f->n_types)
        find_marks(f, g, options, frame_of_key, arena, &f->noise[0]);
    for (uint32_t type = 1; type < f->n_types; type++)
        describe_noise(f, &g->stacks, type, g->scratch, &f->noise[type]);
}
