// Files whose names are asked for again and again, kept open between profiles: new addresses turn
// up in every one, and libc's debug file alone is 8 MiB to inflate. Called with the lock of
// names.c held, but for names_files_memory.
#pragma once

#include "base/str.h"
#include "symbol/symbol.h"

enum { NAMES_FILES_BYTES = 14 << 20 };

// A module as it is loaded, told apart from what may be loaded in its place later on.
struct names_module {
    uint64_t start, limit, offset;
    uint64_t state; // of the file, where there is no build id
    struct str file, build_id;
};

// What the kernel knows of a file; false: nothing.
bool names_file_state(const char *path, uint64_t *state);

// The file that was kept of a module; the caller's from now on. NULL: none.
struct symbol_file *names_files_take(const struct names_module *module);
// Keeps the file if it is small enough, in place of those that were used least lately.
void names_files_give(const struct names_module *module, struct symbol_file *file);
void names_files_drop(void);
// In a child of fork: as many as no thread was just working on.
void names_files_after_fork_in_child(void);
// Bytes held. From any thread.
size_t names_files_memory(void);
