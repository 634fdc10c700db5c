// An arena for each test or group of tests: give make_arena and free_arena to cmocka.
#pragma once

#include "base/arena.h"

static struct arena *arena;

static inline int make_arena(void **state)
{
    arena = arena_new(0);
    return arena ? 0 : -1;
}

static inline int free_arena(void **state)
{
    arena_free(arena);
    return 0;
}
