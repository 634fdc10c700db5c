#include "agent/heap/heap_source.h"

#include <stddef.h>

#include "agent/heap/heap_jemalloc_code.h"

const struct heap_source *heap_source(void)
{
    const struct heap_source *all[] = {&heap_jemalloc, &heap_sampler};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->active())
            return all[i];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->available())
            return all[i];
    return NULL;
}

void heap_drop_allocator(struct model_profile *p)
{
    jemalloc_find_code();
    for (size_t i = 0; i < p->n_samples; i++) {
        uint32_t n = 0;
        while (n + 1 < p->stack_len[i] &&
               jemalloc_is_code((uintptr_t)p->locations[p->stacks[i][n]].address))
            n++;
        p->stacks[i] += n;
        p->stack_len[i] -= n;
    }
}
