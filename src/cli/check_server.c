#include "cli/check.h"
#include "cli/remote_profile.h"
#include "model/transform.h"

// Time slices per side: how much they differ says how much a service varies by itself.
enum { SLICES = 12 };

struct slices {
    struct call *call;
    const struct remote *r;
    struct diff_sides *sides;
    bool is_counted;
};

// Slices in which the service did not run say nothing about it. Of the side that was loaded last.
static void drop_empty(struct diff_sides *sides, int side)
{
    size_t first = side ? sides->n[0] : 0, n = sides->n[side], kept = first;
    for (size_t i = first; i < first + n; i++)
        if (sides->profiles[i]->n_samples)
            sides->profiles[kept++] = sides->profiles[i];
    sides->n[side] = kept - first;
}

static int load_slices(struct slices *s, const struct remote_range *range, int side, struct err *e)
{
    struct call *call = s->call;
    struct diff_sides *sides = s->sides;
    const char *names[SLICES];
    bool counted[SLICES];
    size_t n = 0, first = sides->n[0] + sides->n[1];
    int64_t length = (range->end - range->start) / SLICES;
    if (length <= 0)
        return err_set(e, "--from must be before --until");
    for (int64_t i = 0; i < SLICES; i++) {
        struct remote_range slice = *range;
        slice.start = range->start + i * length;
        slice.end = i + 1 < SLICES ? slice.start + length : range->end;
        if (remote_profile(s->r, &slice, call->arena, &names[n], &counted[n], e))
            return -1;
        n += names[n] != NULL;
    }
    if (call_load_side(call, names, n, sides, side, e))
        return -1;
    for (size_t i = 0; i < n; i++)
        s->is_counted &= counted[i] || !sides->profiles[first + i]->n_samples;
    drop_empty(sides, side);
    return sides->n[side] ? 0
                          : err_set(e, "no profiles of type %s with %s in that time", range->type,
                                    range->selector);
}

// What was pushed as folded text has counts that the server multiplied with the sampling period: it
// is what all values have in common.
static void derive_period(struct slices *s)
{
    const int64_t least = 100000, most = 1000000000; // 10,000 and one samples per second
    struct model_profile **profiles = (struct model_profile **)s->sides->profiles;
    size_t n = s->sides->n[0] + s->sides->n[1];
    int64_t common = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < profiles[i]->n_samples; k++)
            for (int64_t a = model_values(profiles[i], k)[0]; a;) {
                int64_t rest = common % a;
                common = a;
                a = rest;
            }
    struct str unit = model_str(profiles[0], profiles[0]->types[0].unit);
    bool is_period = str_eq(unit, STR("nanoseconds")) && common >= least && common <= most;
    for (size_t i = 0; i < n; i++) {
        profiles[i]->period = is_period ? common : 0;
        profiles[i]->period_type = profiles[i]->types[0];
    }
    if (is_period)
        call_note(arena_printf(s->call->arena,
                               "the server has no sample counts of this type; %g ms, of which all "
                               "values are multiples, are taken for a sample",
                               (double)common / 1e6));
}

static int choose_type(const struct call *call, const struct remote *r, struct remote_range *range,
                       struct err *e)
{
    bool is_cpu;
    const struct message_list *types = remote_labels(r, range, "__profile_type__", call->arena, e);
    if (!types)
        return -1;
    range->type = *call->config.sample_index ? call->config.sample_index
                                             : remote_choose_type(types, call->arena, &is_cpu);
    return range->type ? 0 : err_set(e, "no profiles with %s in that time", range->selector);
}

int check_load_server(struct call *call, struct diff_sides *sides, struct err *e)
{
    struct remote r = remote_default();
    r.server = call->remote;
    if (call->n_arguments != 1 || !*call->against)
        return err_set(e, "--server compares two selectors: kiln check --server URL SELECTOR "
                          "--against SELECTOR");
    struct remote_range now = {NULL, call->arguments[0], remote_milliseconds(call->from),
                               remote_milliseconds(call->until)};
    if (choose_type(call, &r, &now, e))
        return -1;
    struct remote_range before = now;
    before.selector = call->against;
    if (*call->base_from)
        before.start = remote_milliseconds(call->base_from);
    if (*call->base_until)
        before.end = remote_milliseconds(call->base_until);
    call->config.sample_index = ""; // it was a type of the server's
    struct slices s = {call, &r, sides, true};
    if (load_slices(&s, &before, 0, e) || load_slices(&s, &now, 1, e))
        return -1;
    if (!s.is_counted)
        derive_period(&s);
    return model_make_compatible((struct model_profile **)sides->profiles,
                                 sides->n[0] + sides->n[1], call->arena, e);
}
