#include "agent/heap.h"

#include <stddef.h>

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
