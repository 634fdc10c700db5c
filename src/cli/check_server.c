#include "cli/check.h"
#include "cli/remote_profile.h"
#include "model/transform.h"

struct loading {
    struct call *call;
    const struct remote *r;
    struct diff_sides *sides;
    bool is_counted;
};

// What the profiles of a side say themselves about the number of samples, or else the server.
static int see_counts(struct loading *l, const struct remote_range *range, int side, struct err *e)
{
    bool is_counted = true;
    size_t first = side ? l->sides->n[0] : 0;
    for (size_t i = first; i < first + l->sides->n[side]; i++)
        is_counted &= l->sides->profiles[i]->is_weighed && !l->sides->profiles[i]->n_comments;
    if (!is_counted && remote_is_counted(l->r, range, &is_counted, l->call->arena, e))
        return -1;
    l->is_counted &= is_counted;
    return 0;
}

// The profile of a range in parts: how much they differ says how much a service varies by itself.
static int load_parts(struct loading *l, const struct remote_range *range,
                      const struct remote_range *other, int side, struct err *e)
{
    struct call *call = l->call;
    struct diff_sides *sides = l->sides;
    const char *name;
    if (remote_blocks(l->r, range, other, call->arena, &name, e) ||
        (name && call_load_side(call, &name, 1, sides, side, e)) || see_counts(l, range, side, e))
        return -1;
    return sides->n[side] ? 0
                          : err_set(e, "no profiles of type %s with %s from --from until --until",
                                    range->type, range->selector);
}

// The largest number that all values are multiples of.
static uint64_t common_divisor(const struct diff_sides *sides)
{
    uint64_t common = 0;
    for (size_t i = 0; i < sides->n[0] + sides->n[1]; i++)
        for (size_t k = 0; k < sides->profiles[i]->n_samples; k++) {
            int64_t value = model_values(sides->profiles[i], k)[0];
            for (uint64_t a = value < 0 ? -(uint64_t)value : (uint64_t)value; a;) {
                uint64_t rest = common % a;
                common = a;
                a = rest;
            }
        }
    return common;
}

// What was pushed as folded text has counts that the server multiplied with the sampling period: it
// is what all values of short times have in common.
static void derive_period(struct loading *l)
{
    const uint64_t least = 100000, most = 1000000000; // 10,000 and one samples per second
    struct model_profile **profiles = (struct model_profile **)l->sides->profiles;
    uint64_t common = common_divisor(l->sides);
    struct str unit = model_str(profiles[0], profiles[0]->types[0].unit);
    bool is_period = str_eq(unit, STR("nanoseconds")) && common >= least && common <= most;
    for (size_t i = 0; i < l->sides->n[0] + l->sides->n[1]; i++) {
        profiles[i]->period = is_period ? (int64_t)common : 0;
        profiles[i]->period_type = profiles[i]->types[0];
        profiles[i]->is_weighed = false;
    }
    if (is_period)
        call_note(arena_printf(l->call->arena,
                               "the server has no sample counts of this type; assuming %g ms per "
                               "sample, which divides all values",
                               (double)common / 1e6));
}

static int choose_checked_type(const struct call *call, const struct remote *r,
                               struct remote_range *range, struct err *e)
{
    bool is_cpu;
    const struct message_list *types = remote_labels(r, range, "__profile_type__", call->arena, e);
    if (!types)
        return -1;
    range->type = *call->config.sample_index ? call->config.sample_index
                                             : remote_choose_type(types, call->arena, &is_cpu);
    return range->type
               ? 0
               : err_set(e, "no profiles with %s from --from until --until", range->selector);
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
    struct remote_range before = now;
    before.selector = call->against;
    if (*call->base_from)
        before.start = remote_milliseconds(call->base_from);
    if (*call->base_until)
        before.end = remote_milliseconds(call->base_until);
    if (now.end <= now.start)
        return err_set(e, "--from must be before --until");
    if (before.end <= before.start)
        return err_set(e, "--base-from must be before --base-until; they default to --from and "
                          "--until");
    if (choose_checked_type(call, &r, &now, e))
        return -1;
    before.type = now.type;
    call->config.sample_index = ""; // it was a type of the server's
    struct loading l = {call, &r, sides, true};
    if (load_parts(&l, &before, &now, 0, e) || load_parts(&l, &now, &before, 1, e))
        return -1;
    if (!l.is_counted)
        derive_period(&l);
    return model_make_compatible((struct model_profile **)sides->profiles,
                                 sides->n[0] + sides->n[1], call->arena, e);
}
