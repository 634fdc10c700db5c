// The reader of this process's memory map (/proc/self/maps).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct process_mapping {
    uintptr_t start, end;
    uint64_t offset; // in the file
    uint64_t inode;  // 0 if there is no file
    bool readable, writable, executable, shared;
    const char *path; // without a NUL, valid during the call; empty: anonymous; "[stack]", ...
    size_t n_path;
};

// Calls visit for every mapping in order of address until it returns false. Uses only system calls
// and buffer: no allocation, no stdio, no lock. Skips lines longer than buffer; 4,096 bytes hold
// every path that occurs in practice. Returns false if the map cannot be read, for instance because
// /proc is not mounted.
bool process_each_mapping(char *buffer, size_t n_buffer,
                          bool (*visit)(void *context, const struct process_mapping *mapping),
                          void *context);

static inline bool process_mapping_is(const struct process_mapping *m, const char *path)
{
    return m->n_path == __builtin_strlen(path) && __builtin_memcmp(m->path, path, m->n_path) == 0;
}
