#include "cli/check.h"
#include "cli/remote_profile.h"
#include "model/transform.h"

// Time slices per side: how much they differ says how much a service varies by itself.
enum { SLICES = 12 };

// Slices in which the service did not run say nothing about it. Of the side that was loaded last.
static void drop_empty(struct diff_sides *sides, int side)
{
    size_t first = side ? sides->n[0] : 0, n = sides->n[side], kept = first;
    for (size_t i = first; i < first + n; i++)
        if (sides->profiles[i]->n_samples)
            sides->profiles[kept++] = sides->profiles[i];
    sides->n[side] = kept - first;
}

static int load_slices(struct call *call, const struct remote *r, const struct remote_range *range,
                       struct diff_sides *sides, int side, struct err *e)
{
    const char *names[SLICES];
    size_t n = 0;
    int64_t length = (range->end - range->start) / SLICES;
    if (length <= 0)
        return err_set(e, "--from must be before --until");
    for (int64_t i = 0; i < SLICES; i++) {
        struct remote_range slice = *range;
        slice.start = range->start + i * length;
        slice.end = i + 1 < SLICES ? slice.start + length : range->end;
        if (remote_profile(r, &slice, call->arena, &names[n], e))
            return -1;
        n += names[n] != NULL;
    }
    if (call_load_side(call, names, n, sides, side, e))
        return -1;
    drop_empty(sides, side);
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
    if (load_slices(call, &r, &before, sides, 0, e) || load_slices(call, &r, &now, sides, 1, e))
        return -1;
    return model_make_compatible((struct model_profile **)sides->profiles,
                                 sides->n[0] + sides->n[1], call->arena, e);
}
