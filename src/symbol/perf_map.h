// Reads names from /tmp/perf-PID.map, which a JIT compiler writes for perf: lines `START SIZE name`
// with hexadecimal numbers. The file is read once from start to end and not kept, because the
// wanted addresses are known beforehand.
#pragma once

#include "symbol/jit_name.h"

struct perf_map {
    struct jit_name *names; // sorted by address
    size_t n;
    struct arena *arena;
    // The incomplete line at the end of the bytes fed so far.
    char line[64 + JIT_NAME_MAX];
    size_t n_line;
};

// names must be sorted by address and distinct. They must outlive map.
void perf_map_begin(struct perf_map *map, struct jit_name *names, size_t n, struct arena *arena);
// Parses the next bytes of the file. The last line that contains an address names it, because code
// may be replaced. Invalid lines are ignored.
void perf_map_feed(struct perf_map *map, const uint8_t *p, size_t n);
void perf_map_end(struct perf_map *map);
