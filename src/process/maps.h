// The one reader of this process's memory map (/proc/self/maps).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct process_mapping {
    uintptr_t start, end;
    uint64_t offset; // in the file
    uint64_t inode;  // 0: no file
    bool readable, writable, executable, shared;
    const char *path; // not terminated, valid during the call; empty: anonymous; "[stack]", ...
    size_t n_path;
};

// Calls visit for every mapping, in order of address, until it returns false. Uses system calls and
// buffer, and nothing else: no allocation, no stdio, no lock. Lines that do not fit into buffer are
// skipped; 4,096 bytes and up hold every path that Linux allows in practice. False: the map cannot
// be read, where /proc is not mounted for instance.
bool process_each_mapping(char *buffer, size_t n_buffer,
                          bool (*visit)(void *context, const struct process_mapping *mapping),
                          void *context);

static inline bool process_mapping_is(const struct process_mapping *m, const char *path)
{
    return m->n_path == __builtin_strlen(path) && __builtin_memcmp(m->path, path, m->n_path) == 0;
}
