#include "cli/diff.h"

#include <math.h>

#include "cli/view.h"
#include "model/blocks.h"
#include "model/events.h"
#include "model/stream.h"
#include "report/graph.h"

// One profile, prepared for counting.
struct side {
    struct report report;
    struct graph *graph;
    uint32_t *row_of_node;
    struct model_events events;
};

struct counter {
    struct arena *arena;
    struct side *sides;
    size_t n;
};

static void push_profile(struct diff_sides *sides, int side, const struct model_profile *p,
                         struct arena *arena)
{
    size_t n = sides->n[0] + sides->n[1];
    sides->profiles = arena_push(arena, sides->profiles, n, &sides->cap, sizeof p);
    sides->profiles[n] = p;
    sides->n[side]++;
}

void diff_add_profile(struct diff_sides *sides, int side, const struct model_profile *p,
                      struct arena *arena)
{
    struct model_blocks windows = model_blocks(p, STR(MODEL_WINDOWS)),
                        groups = model_blocks(p, STR(MODEL_GROUPS));
    if (!windows.n) {
        push_profile(sides, side, p, arena);
        return;
    }
    p = model_decode_samples(p, arena);
    const struct model_profile **parts = arena_array(arena, p->n_types, sizeof *parts);
    size_t n = model_split_blocks(p, windows, arena, parts);
    sides->is_parts = true;
    for (size_t i = 0; i < n; i++)
        push_profile(sides, side, parts[i], arena);
    if (!groups.n)
        return;
    if (!sides->groups)
        sides->groups = arena_alloc(arena, sizeof *sides->groups);
    n = model_split_blocks(p, groups, arena, parts);
    for (size_t i = 0; i < n; i++)
        push_profile(sides->groups, side, parts[i], arena);
}

static void name_rows(struct counter *c, struct side *side, struct stats_functions *f)
{
    struct graph *g = graph_new_nodes(&side->report);
    side->graph = g;
    side->events = model_events(side->report.p, side->report.o.type);
    side->row_of_node = arena_array(c->arena, g->n_nodes + 1, sizeof *side->row_of_node);
    for (size_t i = 0; i < g->n_nodes; i++)
        side->row_of_node[i] = stats_functions_row(f, node_printable_name(g, &g->nodes[i].info));
}

// The samples of one profile on their way to the functions. Threads find the rows; the sums are
// added in the order of the samples, because they are not exact.
struct side_samples {
    const struct side *side;
    struct stats_functions *functions;
    size_t profile;
    double events;
};

// Followed by the rows of its frames.
struct side_sample {
    struct stats_cell cell;
    size_t n;
};

static void write_side_samples(void *context, struct parallel_worker *worker,
                               const struct model_profile *p, size_t first, struct out *out)
{
    const struct side *side = ((struct side_samples *)context)->side;
    const struct graph *g = side->graph;
    for (size_t s = 0; s < p->n_samples; s++) {
        struct side_sample sample = {.cell = {(double)model_values(p, s)[side->events.type],
                                              model_variance(&side->events, p, s)}};
        const uint32_t *frames = model_stack(p, s);
        if (sample.cell.value == 0)
            continue;
        for (uint32_t i = 0; i < p->stack_len[s]; i++)
            sample.n += g->first_node[frames[i] + 1] - g->first_node[frames[i]];
        out_write(out, &sample, sizeof sample);
        for (uint32_t i = 0; i < p->stack_len[s]; i++)
            for (uint32_t k = g->first_node[frames[i]]; k < g->first_node[frames[i] + 1]; k++)
                out_write(out, &side->row_of_node[g->location_nodes[k]], sizeof(uint32_t));
        // The next sample is aligned.
        if (sample.n % 2)
            out_write(out, &(uint32_t){0}, sizeof(uint32_t));
    }
}

static void take_side_samples(void *context, struct str text)
{
    struct side_samples *c = context;
    for (size_t at = 0; at < text.n;) {
        const struct side_sample *sample = (const void *)(text.p + at);
        at += sizeof *sample;
        stats_functions_add(c->functions, c->profile, (const void *)(text.p + at), sample->n,
                            sample->cell);
        at += (sample->n + sample->n % 2) * sizeof(uint32_t);
    }
}

static void count_side_samples(struct counter *c, size_t profile, struct stats_functions *f)
{
    const struct side *side = &c->sides[profile];
    struct side_samples samples = {.side = side, .functions = f, .profile = profile};
    model_each_in_order(side->report.p, c->arena, MODEL_WITH_SQUARES, write_side_samples,
                        take_side_samples, &samples);
}

static void count_all(void *context, struct stats_functions *f)
{
    struct counter *c = context;
    for (size_t i = 0; i < c->n; i++)
        count_side_samples(c, i, f);
}

static void write_events(void *context, struct parallel_worker *worker,
                         const struct model_profile *p, size_t first, struct out *out)
{
    const struct side *side = ((struct side_samples *)context)->side;
    for (size_t s = 0; s < p->n_samples; s++) {
        double n = model_recorded(&side->events, p, s);
        out_write(out, &n, sizeof n);
    }
}

static void take_events(void *context, struct str text)
{
    struct side_samples *c = context;
    for (size_t i = 0; i < text.n / sizeof(double); i++)
        c->events += ((const double *)(const void *)text.p)[i];
}

static double count_events(const struct counter *c, const struct side *side)
{
    struct side_samples samples = {.side = side};
    model_each_in_order(side->report.p, c->arena, MODEL_WITH_SQUARES, write_events, take_events,
                        &samples);
    return samples.events;
}

static bool is_heap(const struct model_profile *p)
{
    return str_eq(model_str(p, p->period_type.unit), STR("bytes"));
}

static int count_sides(struct diff *d, const struct diff_sides *sides, const struct config *config,
                       struct arena *arena, void (*notes)(const char *text), struct err *e)
{
    struct counter c = {.arena = arena, .n = sides->n[0] + sides->n[1]};
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap))
        return arena_caught(arena, e);
    c.sides = arena_array(arena, c.n + 1, sizeof *c.sides);
    arena_try_end(arena);
    for (size_t i = 0; i < c.n; i++)
        if (view_prepare(&c.sides[i].report, sides->profiles[i], view_command_find("top"), NULL,
                         config, arena, notes, e))
            return -1;
    const struct report_options *o = &c.sides[c.n - 1].report.o;
    d->type = o->type_name;
    d->unit = o->unit;
    d->is_weighed = d->is_counted = true;
    if (ARENA_TRY(arena, trap))
        return arena_caught(arena, e);
    stats_functions_init(&d->functions, sides->n, arena);
    for (size_t i = 0; i < c.n; i++) {
        const struct model_profile *p = sides->profiles[i];
        int side = i >= sides->n[0];
        name_rows(&c, &c.sides[i], &d->functions);
        d->duration[side] += (double)p->duration_nanos / 1e9 / (double)sides->n[side];
        d->events[side] += count_events(&c, &c.sides[i]);
        // A server adds a comment if it only had counts.
        d->is_weighed &= (p->is_weighed && !(sides->is_parts && p->n_comments)) || !p->n_samples;
        d->is_counted &= model_is_counted(&c.sides[i].events, p) || p->n_samples == 0;
        d->is_heap |= is_heap(p);
    }
    // Memory in use does not vary with load.
    d->functions.absolute = d->absolute || str_starts(d->type, STR("inuse_"));
    d->functions.each = count_all;
    d->functions.context = &c;
    stats_functions_compare(&d->functions, d->level > 0 ? d->level : STATS_LEVEL);
    if (d->wants_shifts)
        stats_shifts_find(&d->functions, &d->shifts);
    arena_try_end(arena);
    return 0;
}

int diff_count(struct diff *d, const struct diff_sides *sides, const struct config *config,
               struct arena *arena, void (*notes)(const char *text), struct err *e)
{
    const struct diff_sides *groups = sides->groups;
    d->is_parts = sides->is_parts;
    if (count_sides(d, sides, config, arena, notes, e))
        return -1;
    if (!groups || groups->n[0] + groups->n[1] <= 2 || !groups->n[0] || !groups->n[1])
        return 0;
    struct diff grouped = {.normalized = d->normalized, .level = d->level, .absolute = d->absolute};
    struct arena_trap trap;
    if (count_sides(&grouped, groups, config, arena, NULL, e))
        return -1;
    if (ARENA_TRY(arena, trap))
        return arena_caught(arena, e);
    d->is_grouped = true;
    stats_functions_confirm(&d->functions, &grouped.functions);
    arena_try_end(arena);
    return 0;
}

// The factor for displayed values: means of profiles, or sums of parts.
static double shown_profiles(const struct diff *d, int side)
{
    return d->is_parts ? (double)d->functions.fit.n_profiles[side] : 1;
}

static double sums_half_width(const struct diff *d, const struct stats_change *s)
{
    return s->critical * hypot(shown_profiles(d, 0) * sqrt(s->variance[0]),
                               shown_profiles(d, 1) * sqrt(s->variance[1]));
}

struct diff_change diff_change(const struct diff *d, const struct stats_measure *measure)
{
    const struct stats_change *s = &measure->change;
    const struct stats_fit *fit = &d->functions.fit;
    double before = shown_profiles(d, 0), after = shown_profiles(d, 1),
           width = sums_half_width(d, s);
    if (d->normalized) {
        // Scale to the total of after, as displayed.
        double mean = fit->totals[0] / (double)fit->n_profiles[0];
        before = mean != 0 ? fit->totals[1] / (double)fit->n_profiles[1] * after / mean : 0;
        width = stats_share_half_width(fit, s) * after;
    }
    struct diff_change c = {.before = s->before * before,
                            .after = s->after * after,
                            .half_width = width,
                            .mark = measure->mark};
    c.change = c.after - c.before;
    return c;
}

struct diff_change diff_total(const struct diff *d)
{
    const struct stats_change *s = &d->functions.total;
    return (struct diff_change){
        .before = s->before * shown_profiles(d, 0),
        .after = s->after * shown_profiles(d, 1),
        .change = s->after * shown_profiles(d, 1) - s->before * shown_profiles(d, 0),
        .half_width = sums_half_width(d, s),
        .mark = d->functions.total_changed ? STATS_CHANGED : STATS_NOISE,
    };
}
