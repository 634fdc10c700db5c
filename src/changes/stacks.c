#include "changes/look.h"

// A merge, and how its functions are numbered in the history.
struct part {
    struct store_stacks *stacks;
    struct query_functions *functions;
    uint32_t *numbers;
    double weight, seconds; // of window_cell
};

struct range_parts {
    struct stats_range range;
    int side;
    struct part *parts;
    size_t n;
    struct range_parts *next;
};

static void read_part(struct stacks_reader *r, int side, int64_t start, int64_t end,
                      struct part *part)
{
    struct err e = {""};
    struct look *l = r->look;
    const struct store_label *version = r->versions ? &r->versions[side] : NULL;
    if (windows_merge(l, r->watched, version, start, end, r->arena, &part->stacks, &e) ||
        query_functions(part->stacks, r->arena, &part->functions, &e))
        arena_fail(r->arena, "%s", e.message);
    part->numbers = arena_array(r->arena, (size_t)part->functions->n + 1, sizeof *part->numbers);
    for (uint32_t i = 0; i < part->functions->n; i++)
        part->numbers[i] = history_function(r->history, part->functions->items[i].name);
    part->weight = gauge_weight(r->watched, part->stacks->symbols);
    part->seconds = (double)(end - start) / 1e9;
    job_rest(l->c, r->arena);
}

// A state is averaged over a series' profiles: pods that live one after the other count once only
// if every window is asked for by itself.
static struct range_parts *read_stacks_range(struct stacks_reader *r, struct stats_range range,
                                             int side)
{
    struct range_parts *to = arena_alloc(r->arena, sizeof *to);
    int64_t step = r->watched->gauge ? r->look->window : range.end - range.start;
    to->range = range;
    to->side = side;
    to->parts =
        arena_array(r->arena, (size_t)((range.end - range.start) / step) + 1, sizeof *to->parts);
    for (int64_t at = range.start; at < range.end; at += step)
        read_part(r, side, at, at + step < range.end ? at + step : range.end, &to->parts[to->n++]);
    to->next = r->ranges;
    r->ranges = to;
    return to;
}

static void give_part(struct stacks_reader *r, const struct part *p, struct stats_stacks *to)
{
    const struct store_stacks *s = p->stacks;
    for (uint32_t node = 1; node < s->n_nodes; node++) {
        if (s->self[node] <= 0)
            continue;
        arena_spend(r->arena, 4);
        size_t n = query_functions_of(p->functions, s, node, r->frames, MAX_DEPTH);
        for (size_t i = 0; i < n; i++)
            r->frames[i] = p->numbers[r->frames[i]];
        if (n)
            stats_stacks_add(to, r->frames, n,
                             window_cell((double)s->self[node], s->variance ? s->variance[node] : 0,
                                         p->weight, p->seconds));
    }
}

void range_stacks(void *reader, struct stats_range range, int side, struct stats_stacks *to)
{
    struct stacks_reader *r = reader;
    const struct range_parts *at = r->ranges;
    while (at && (at->range.start != range.start || at->range.end != range.end || at->side != side))
        at = at->next;
    if (!at)
        at = read_stacks_range(r, range, side);
    for (size_t i = 0; i < at->n; i++)
        give_part(r, &at->parts[i], to);
}
