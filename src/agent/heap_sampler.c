#include "agent/heap.h"

static bool never(void)
{
    return false;
}

static int refuse(struct err *e)
{
    return err_set(e, "heap profiling by kiln is not available in this process");
}

static uint64_t no_interval(void)
{
    return 0;
}

static int refuse_interval(uint64_t bytes, struct err *e)
{
    (void)bytes;
    return refuse(e);
}

static struct model_profile *no_snapshot(struct arena *arena, struct err *e)
{
    (void)arena;
    refuse(e);
    return NULL;
}

const struct heap_source heap_sampler = {
    .name = "kiln",
    .available = never,
    .active = never,
    .activate = refuse,
    .deactivate = refuse,
    .interval = no_interval,
    .set_interval = refuse_interval,
    .snapshot = no_snapshot,
};
