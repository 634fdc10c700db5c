// Perf maps. The result must not depend on how the input is split.
#include <stdlib.h>

#include "symbol/perf_map.h"

enum { ADDRESSES = 64 };

static void read_pieces(struct arena *arena, struct jit_name *names, const uint8_t *data, size_t n,
                        size_t piece)
{
    struct perf_map *map = arena_alloc(arena, sizeof *map);
    for (size_t i = 0; i < ADDRESSES; i++)
        names[i] = (struct jit_name){.address = i * i * 16};
    perf_map_begin(map, names, ADDRESSES, arena);
    for (size_t at = 0; at < n; at += piece)
        perf_map_feed(map, data + at, n - at < piece ? n - at : piece);
    perf_map_end(map);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct arena *arena = arena_new(0);
    struct jit_name whole[ADDRESSES], pieces[ADDRESSES];
    read_pieces(arena, whole, data, n, n + 1);
    read_pieces(arena, pieces, data, n, 7);
    for (size_t i = 0; i < ADDRESSES; i++)
        if (!str_eq(whole[i].name, pieces[i].name))
            abort();
    arena_free(arena);
    return 0;
}
