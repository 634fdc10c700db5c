// Symbolizes addresses: one symbolizer for the library, the command and the server.
//
// A symbol_file is an ELF file with everything that belongs to it: a separate debug file (by build
// id or debuglink), the file that dwz created (.gnu_debugaltlink), split DWARF (.dwo, .dwp), a
// compressed symbol table (.gnu_debugdata). Indexes are built on demand and freed when they exceed
// the memory limit. Inside a host process, files are never mapped. Once such a file changes on
// disk, lookups in it find nothing.
//
// Results equal llvm-symbolizer's: the outermost name comes from the symbol table, inlined frames
// from DWARF. Addresses are virtual addresses of the file (elf_vaddr converts). For a return
// address, the caller must subtract one.
//
// Use a file from one thread at a time. Nothing here may be called from a signal handler.
#pragma once

#include "base/err.h"
#include "symbol/demangle.h"
#include "symbol/elf.h"

struct symbol_options {
    const char *debug_dirs; // colon-separated; NULL: /usr/lib/debug
    size_t memory_limit;    // for indexes; 0: 64 MiB. Inside a host also limits decompressed
                            // sections
    bool symbols_only;      // use the symbol table, no DWARF
    bool no_debug_files;    // use only the file itself
    bool own_process;       // not inside a host: map files, allow loading zstd and xz
    enum demangle_mode demangle;
    demangle_cxx_fn *cxx; // demangles C++ names; NULL: leave them mangled
    // Called during long work; may be NULL. If it returns false, lookups find nothing any more.
    bool (*go_on)(void *ctx);
    void *go_on_ctx;
};

struct symbol_frame {
    const char *name;  // linker's name; NULL: unknown
    const char *shown; // demangled; equal to name if not mangled
    const char *file;  // NULL: unknown
    uint32_t line, column, start_line;
    bool is_inlined; // into the next frame
};

enum { SYMBOL_FRAMES_MAX = 256 };

struct symbol_file;

// Opens a file and the files that belong to it. options may be NULL. Returns NULL with e filled on
// failure.
struct symbol_file *symbol_open(const char *path, const struct symbol_options *options,
                                struct err *e);
// Takes elf, even on failure.
struct symbol_file *symbol_open_elf(struct elf *elf, const struct symbol_options *options,
                                    struct err *e);
void symbol_free(struct symbol_file *file);

// Looks up vaddr. Fills in at most max frames, innermost first, and returns their number; 0 if
// nothing is known. The texts live until the next call for this file.
int symbol_lookup(struct symbol_file *file, uint64_t vaddr, struct symbol_frame *frames, int max);

// Looks up many addresses, in address order. Calls call once for each, with its index in addrs,
// until call returns false. The frames live until call returns. Returns -1 with e filled if out of
// memory.
typedef bool symbol_each_fn(void *ctx, size_t i, const struct symbol_frame *frames, int n);
int symbol_lookup_many(struct symbol_file *file, const uint64_t *addrs, size_t n,
                       symbol_each_fn *call, void *ctx, struct err *e);

// Returns every address at which the result of a lookup can change, sorted and distinct, as a
// malloced array of *n. Returns NULL if out of memory.
uint64_t *symbol_boundaries(struct symbol_file *file, size_t *n);

// Whether one of the files has changed. Lookups then find nothing.
bool symbol_has_changed(struct symbol_file *file);
// Closes the files until the next lookup. Call it after a few lookups. Mapped files are not open.
void symbol_rest(struct symbol_file *file);
// Frees everything that can be rebuilt, and the pages of the files.
void symbol_release(struct symbol_file *file);
// Frees only the pages, and closes the files.
void symbol_release_pages(struct symbol_file *file);
// Returns the bytes of anonymous memory held.
size_t symbol_memory(const struct symbol_file *file);
struct elf *symbol_elf(struct symbol_file *file);
// Returns the path of the file with the DWARF, or NULL if there is none.
const char *symbol_debug_path(const struct symbol_file *file);
