#include "cli/check.h"
#include "cli/remote_profile.h"
#include "model/transform.h"

// The profile of a range in parts: how much they differ says how much a service varies by itself.
static int load_parts(struct call *call, const struct remote *r, const struct remote_range *range,
                      const struct remote_range *other, struct diff_sides *sides, int side,
                      struct err *e)
{
    const char *name;
    if (range->end <= range->start)
        return err_set(e, "--from must be before --until");
    if (remote_blocks(r, range, other, call->arena, &name, e) ||
        (name && call_load_side(call, &name, 1, sides, side, e)))
        return -1;
    return sides->n[side] ? 0
                          : err_set(e, "no profiles of type %s with %s in that time", range->type,
                                    range->selector);
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
    if (load_parts(call, &r, &before, &now, sides, 0, e) ||
        load_parts(call, &r, &now, &before, sides, 1, e))
        return -1;
    return model_make_compatible((struct model_profile **)sides->profiles,
                                 sides->n[0] + sides->n[1], call->arena, e);
}
