// Names JIT-compiled code in profiles.
#pragma once

#include "model/profile.h"

// Open descriptors to read names from; -1: none.
struct jit_files {
    int perf_map; // see perf_map.h
    int dump;     // see jitdump.h
};

// Whether p has locations that may be JIT-compiled code: without names and not in a file.
bool jit_is_wanted(const struct model_profile *p);

// Fills in names from the files. The dump wins where both have a name. Modifies p, whose locations,
// lines and mappings must not be shared. New columns and texts live in arena. Returns -1 with e
// filled if out of memory.
int jit_name_profile(struct model_profile *p, const struct jit_files *files, struct arena *arena,
                     struct err *e);

// Writes the name of one address, truncated to n bytes with its NUL. Returns false if it is
// unknown.
bool jit_name_address(uint64_t address, const struct jit_files *files, char *text, size_t n);

// Opens a regular file that belongs to this process's user, to root, or to user, the owner of the
// profiled process (UINT32_MAX: none). Returns -1 otherwise, because anybody can create files in
// /tmp.
int jit_open(const char *path, uint32_t user);
