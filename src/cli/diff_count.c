#include "cli/diff.h"

#include <math.h>

#include "cli/view.h"
#include "model/events.h"
#include "report/graph.h"

static struct diff_number weigh(const struct model_events *ev, const int64_t *values)
{
    return (struct diff_number){(double)values[ev->type], model_variance(ev, values)};
}

// --- rows by name ---

struct counter {
    struct diff *d;
    struct arena *arena;
    size_t cap;
    struct hash_table index;
};

static uint32_t row_of(struct counter *c, struct str name)
{
    uint64_t hash = hash_bytes(name.p, name.n, 0);
    for (struct hash_probe at = hash_find(&c->index, hash); hash_hit(&c->index, &at);
         hash_next(&c->index, &at))
        if (str_eq(c->d->rows[at.item].name, name))
            return at.item;
    c->d->rows = arena_push(c->arena, c->d->rows, c->d->n, &c->cap, sizeof *c->d->rows);
    c->d->rows[c->d->n] = (struct diff_row){.name = name};
    hash_add(&c->index, c->arena, hash, (uint32_t)c->d->n);
    return (uint32_t)c->d->n++;
}

static void add(struct diff_number *to, struct diff_number n)
{
    to->value += n.value;
    to->variance += n.variance;
}

static void count_side(struct counter *c, struct report *r, int side)
{
    const struct model_profile *p = r->p;
    struct graph *g = graph_new_nodes(r);
    struct model_events ev = model_events(p, r->o.type);
    uint32_t *row_of_node = arena_array(c->arena, g->n_nodes + 1, sizeof *row_of_node);
    for (size_t i = 0; i < g->n_nodes; i++)
        row_of_node[i] = row_of(c, node_printable_name(g, &g->nodes[i].info));
    size_t *seen = arena_array(c->arena, c->d->n + 1, sizeof *seen);
    for (size_t s = 0; s < p->n_samples; s++) {
        struct diff_number n = weigh(&ev, model_values(p, s));
        const uint32_t *frames = model_stack(p, s);
        uint32_t len = n.value != 0 ? p->stack_len[s] : 0;
        for (uint32_t i = 0; i < len; i++) {
            for (uint32_t k = g->first_node[frames[i]]; k < g->first_node[frames[i] + 1]; k++) {
                uint32_t row = row_of_node[g->location_nodes[k]];
                if (i == 0 && k == g->first_node[frames[0]])
                    add(&c->d->rows[row].flat[side], n);
                if (seen[row] == s + 1)
                    continue;
                seen[row] = s + 1;
                add(&c->d->rows[row].cum[side], n);
            }
        }
    }
}

struct diff_number diff_total(const struct model_profile *p, uint32_t type)
{
    struct model_events ev = model_events(p, type);
    struct diff_number total = {0};
    for (size_t s = 0; s < p->n_samples; s++)
        add(&total, weigh(&ev, model_values(p, s)));
    return total;
}

int diff_count(struct diff *d, const struct model_profile *const sides[2],
               const struct config *config, bool normalised, struct arena *arena,
               void (*notes)(const char *text), struct err *e)
{
    struct report reports[2];
    for (int side = 0; side < 2; side++)
        if (view_prepare(&reports[side], sides[side], view_command_find("top"), NULL, config, arena,
                         notes, e))
            return -1;
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap))
        return arena_caught(arena, e);
    *d = (struct diff){
        .type = reports[1].o.type_name, .unit = reports[1].o.unit, .normalised = normalised};
    struct counter counter = {.d = d, .arena = arena};
    hash_init(&counter.index, arena, 256);
    for (int side = 0; side < 2; side++) {
        count_side(&counter, &reports[side], side);
        d->total[side] = diff_total(sides[side], reports[side].o.type);
        d->duration[side] = sides[side]->duration_nanos;
    }
    arena_try_end(arena);
    return 0;
}

// --- changes ---

static struct diff_number share(struct diff_number n, struct diff_number total)
{
    if (total.value == 0)
        return (struct diff_number){0, 0};
    double p = n.value / total.value, rest = fmax(total.variance - n.variance, 0);
    return (struct diff_number){p, ((1 - p) * (1 - p) * n.variance + p * p * rest) /
                                       (total.value * total.value)};
}

struct diff_change diff_change(const struct diff *d, const struct diff_number *number)
{
    struct diff_number sides[2] = {number[0], number[1]};
    double scale = 1;
    if (d->normalised) {
        scale = d->total[1].value;
        for (int i = 0; i < 2; i++)
            sides[i] = share(number[i], d->total[i]);
    }
    struct diff_change c = {.before = sides[0].value * scale, .after = sides[1].value * scale};
    c.change = c.after - c.before;
    c.half_width = 1.96 * sqrt(sides[0].variance + sides[1].variance) * fabs(scale);
    c.significant = fabs(c.change) > c.half_width;
    return c;
}
