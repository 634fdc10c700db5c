// Names that a just-in-time compiler wrote down for perf: /tmp/perf-PID.map, lines of
// `START SIZE name`, numbers in hexadecimal. The file is read once from its beginning to its
// end and not kept: the addresses that are asked for are known before.
#pragma once

#include "symbol/jit_name.h"

struct perf_map {
    struct jit_name *names; // sorted by address
    size_t n;
    struct arena *arena;
    // What began before the bytes that come next.
    char line[64 + JIT_NAME_MAX];
    size_t n_line;
};

// names are sorted by address and distinct.
void perf_map_begin(struct perf_map *map, struct jit_name *names, size_t n, struct arena *arena);
// The next bytes of the file. Of lines that hold an address the last one names it: code is
// replaced. Lines that are not as they should be name nothing.
void perf_map_feed(struct perf_map *map, const uint8_t *p, size_t n);
void perf_map_end(struct perf_map *map);
