// Keeps frequently used symbol files open between profiles: every profile has new addresses, and
// inflating libc's debug file alone means 8 MiB. The lock of names.c must be held, except for
// names_files_memory.
#pragma once

#include "base/str.h"
#include "symbol/symbol.h"

enum { NAMES_FILES_BYTES = 14 << 20 };

// A loaded module, with enough data to tell it from one loaded at the same place later.
struct names_module {
    uint64_t start, limit, offset;
    uint64_t state; // of the file, if there is no build id
    struct str file, build_id;
};

// Hashes a file's metadata. Returns false if the file cannot be accessed.
bool names_file_state(const char *path, uint64_t *state);

// Removes the module's file from the cache and returns it; the caller owns it. NULL: not cached.
struct symbol_file *names_files_take(const struct names_module *module);
// Takes ownership of file: caches it if it is small enough, evicting the least recently used.
void names_files_give(const struct names_module *module, struct symbol_file *file);
void names_files_drop(void);
// In a child of fork: keeps the cache only if no thread was changing it.
void names_files_after_fork_in_child(void);
// Bytes in use. Any thread may call it.
size_t names_files_memory(void);
