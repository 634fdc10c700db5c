// Which boxes of a diff changed beyond noise; docs/diff.md describes the model. Functions decide
// what the sides have in common, boxes are tested against that.
#include "model/events.h"
#include "report/flame_internal.h"
#include "stats/compare.h"
#include "stats/discovery.h"

static struct stats_cell cell_of(const struct report_flame_noise *noise, int side, int64_t value)
{
    return (struct stats_cell){(double)value, (double)value * noise->weight[side]};
}

// The self values of functions: parts of the whole that do not overlap.
static struct stats_cell *count_selves(const struct report_flame *f, uint32_t type,
                                       struct arena *scratch)
{
    struct stats_cell *cells = arena_array(scratch, 2 * (size_t)f->n_frames, sizeof *cells);
    for (uint32_t i = 0; i < f->n_nodes; i++)
        for (int side = 0; side < 2; side++) {
            int64_t self = f->self[(size_t)i * f->n_columns + 2 * type + (uint32_t)side];
            struct stats_cell cell = cell_of(&f->noise[type], side, self);
            cells[2 * f->frame[i] + (uint32_t)side].value += cell.value;
            cells[2 * f->frame[i] + (uint32_t)side].variance += cell.variance;
        }
    return cells;
}

static void mark_nodes(struct report_flame *f, const struct stats_fit *fit, struct arena *arena,
                       struct arena *scratch)
{
    double *p = arena_array(scratch, f->n_nodes, sizeof *p);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const int64_t *total = f->total + (size_t)i * f->n_columns;
        struct stats_cell cells[2] = {cell_of(f->noise, 0, total[0]),
                                      cell_of(f->noise, 1, total[1])};
        arena_spend(scratch, 8);
        p[i] = stats_test(fit, cells).p;
    }
    stats_adjust(p, p, f->n_nodes, scratch);
    f->changed = arena_array(arena, f->n_nodes, sizeof *f->changed);
    for (uint32_t i = 0; i < f->n_nodes; i++)
        f->changed[i] = p[i] <= STATS_LEVEL;
}

// The weight of an event of each side; false if it is not known, or a side has none.
static bool weigh_events(const struct flame_stacks *stacks,
                         const struct report_flame_options *options, uint32_t type,
                         double weight[2])
{
    for (int side = 0; side < 2; side++) {
        const struct flame_side *from = &stacks->sides[1 - side]; // the profile comes first there
        weight[side] = options->event_weights[side] > 0
                           ? options->event_weights[side]
                           : model_event_weight(from->p, from->value[type]);
        if (!(weight[side] > 0) || !stacks->sums[2 * type + (uint32_t)side])
            return false;
    }
    return true;
}

void flame_find_changes(struct report_flame *f, const struct flame_stacks *stacks,
                        const struct report_flame_options *options, struct arena *arena,
                        struct arena *scratch)
{
    f->noise = arena_array(arena, f->n_types + 1, sizeof *f->noise);
    for (uint32_t type = 0; type < f->n_types; type++) {
        struct report_flame_noise *noise = &f->noise[type];
        if (!weigh_events(stacks, options, type, noise->weight)) {
            *noise = (struct report_flame_noise){0};
            continue;
        }
        struct stats_fit fit;
        struct stats_rows rows = {
            .n = f->n_frames, .n_profiles = {1, 1}, .cells = count_selves(f, type, scratch)};
        stats_fit(&rows, scratch, &fit);
        noise->scale = fit.scale;
        noise->dispersion = fit.dispersion;
        noise->uncertainty =
            fit.agreed[0] > 0 && fit.agreed[1] > 0 ? 1 / fit.agreed[0] + 1 / fit.agreed[1] : 0;
        if (type == 0)
            mark_nodes(f, &fit, arena, scratch);
    }
}
