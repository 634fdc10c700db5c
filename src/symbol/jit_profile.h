// Names for the locations of a profile whose code was made at run time.
#pragma once

#include "model/profile.h"

// Open files to read the names from; -1: there is none.
struct jit_files {
    int perf_map; // perf_map.h
    int dump;     // jitdump.h
};

// Whether any location could be such code: no names yet, and in no file.
bool jit_is_wanted(const struct model_profile *p);

// Fills in what the files know; the dump counts where both do. Changes p, whose locations, lines
// and mappings must be its own; new columns and texts are in arena. -1 with e filled if memory ran
// out.
int jit_name_profile(struct model_profile *p, const struct jit_files *files, struct arena *arena,
                     struct err *e);

// The name of one address, of at most n bytes with its NUL; false: none.
bool jit_name_address(uint64_t address, const struct jit_files *files, char *text, size_t n);

// A regular file that belongs to us, to root or to the user whose process it names; -1: not.
// Anybody can make files in /tmp. user: UINT32_MAX for none.
int jit_open(const char *path, uint32_t user);
