// Debug files that were uploaded, by build id: DATA/debuginfo/TENANT/ab/cdef.debug. Nothing that a
// client says becomes a path: a tenant's name was checked before, a build id is hexadecimal, and
// the file must be an ELF file that carries it.
//
// Any number of threads.
#pragma once

#include "base/arena.h"
#include "base/str.h"
#include "symbol/elf.h"

struct debuginfo;
struct store;

struct debuginfo_options {
    const char *data;
    struct store *store;   // NULL: the files are only looked at, by debuginfo_backup and _check
    size_t file_limit;     // of one file
    size_t total_limit;    // of a tenant's, parts included
    size_t files_limit;    // of a tenant; 0: 100,000
    int64_t part_lifetime; // ns that a part waits for the next one; 0: 10 minutes
    uint64_t keep_free;    // on the disk
    const struct str *directories; // of this machine's, with .build-id below
    size_t n_directories;
};

struct debuginfo *debuginfo_open(const struct debuginfo_options *options, struct err *e);
void debuginfo_close(struct debuginfo *d);

bool debuginfo_is_build_id(struct str id);

// --- files ---

enum debuginfo_state {
    DEBUGINFO_PART,     // more of it is to come
    DEBUGINFO_STORED,   // the first of its build id
    DEBUGINFO_REPLACED, // what was there, or was found on this machine
    DEBUGINFO_KNOWN,    // the same bytes are there
    DEBUGINFO_KEPT,     // what is there knows more
};

struct debuginfo_put {
    struct str tenant, build_id; // build_id: empty only where the file is whole
    uint64_t offset, size;       // of bytes, and of the file
    struct str bytes;
    // Filled.
    enum debuginfo_state state;
    char id[2 * ELF_BUILD_ID_MAX + 1];
    bool has_dwarf;
};

// A file comes whole or in parts one after the other, all with the same size; offset 0 starts
// again. It is durable when the last part's call returns. Room is checked for each part; parts that
// wait give way to a file that is complete. 0, or the status to answer with e filled.
int debuginfo_put(struct debuginfo *d, struct debuginfo_put *put, struct err *e);

struct debuginfo_file {
    char id[2 * ELF_BUILD_ID_MAX + 1];
    uint64_t bytes;
    int64_t time; // ns
};
// Of a tenant, in the order of their ids.
size_t debuginfo_list(struct debuginfo *d, struct str tenant, struct arena *arena,
                      struct debuginfo_file **files);
// Whether there was one. Names that it gave stay.
bool debuginfo_remove(struct debuginfo *d, struct str tenant, struct str build_id);
// Whether one is there, uploaded or on this machine.
bool debuginfo_has(struct debuginfo *d, struct str tenant, struct str build_id);
// All of them into the directory to, which is made.
int debuginfo_backup(struct debuginfo *d, const char *to, struct err *e);

// Says which files are not what their names say; how many.
size_t debuginfo_check(struct debuginfo *d, void (*found)(void *ctx, const char *text), void *ctx);

// --- names ---

struct store_stacks;

// Puts names to the frames of stacks that have only an address, where a debug file knows them, and
// into the store, so that the next one finds them there. An enum store_code.
int debuginfo_name(struct debuginfo *d, struct str tenant, struct store_stacks *stacks,
                   struct arena *arena, struct err *e);
