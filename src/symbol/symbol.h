// From addresses to names: one symbolizer for the library, the command and the server.
//
// A symbol_file is an ELF file with whatever belongs to it: a separate debug file (by build id
// or debuglink), what dwz moved out (.gnu_debugaltlink), split DWARF (.dwo, .dwp), a packed symbol
// table (.gnu_debugdata). Indexes are built when they are needed, and what was built is forgotten
// when it exceeds the memory limit. Inside a host process files are never mapped: a file that
// changes on disk has no names from then on.
//
// Answers equal llvm-symbolizer's: the outermost name comes from the symbol table, inlined
// frames from DWARF. Addresses are the file's own (elf_vaddr translates); for a return address
// the caller subtracts one.
//
// One thread at a time per file. Nothing here may be called from a signal handler.
#pragma once

#include "base/err.h"
#include "symbol/demangle.h"
#include "symbol/elf.h"

struct symbol_options {
    const char *debug_dirs; // colon-separated; NULL: /usr/lib/debug
    size_t memory_limit;    // for what is built; 0: 64 MiB. Inside a host also for what
                            // compressed sections take
    bool symbols_only;      // the symbol table, no DWARF
    bool no_debug_files;    // only the file itself
    bool own_process;       // not inside a host: files are mapped, zstd and xz may be loaded
    enum demangle_mode demangle;
    demangle_cxx_fn *cxx; // how C++ names are demangled; NULL: they are not
};

struct symbol_frame {
    const char *name;  // as the linker knows it; NULL: unknown
    const char *shown; // demangled; the same pointer if there is nothing to demangle
    const char *file;  // NULL: unknown
    uint32_t line, column, start_line;
    bool is_inlined; // into the frame behind it
};

enum { SYMBOL_FRAMES_MAX = 256 };

struct symbol_file;

// NULL with e filled. options may be NULL.
struct symbol_file *symbol_open(const char *path, const struct symbol_options *options,
                                struct err *e);
// Takes elf, also when it fails.
struct symbol_file *symbol_open_elf(struct elf *elf, const struct symbol_options *options,
                                    struct err *e);
void symbol_free(struct symbol_file *file);

// The frames at vaddr, innermost first, at most max of them; 0: nothing is known. What they
// point to lives until the next call for this file.
int symbol_lookup(struct symbol_file *file, uint64_t vaddr, struct symbol_frame *frames, int max);

// The same for many, which are visited in the order of their addresses: call gets each once,
// with its place in addrs, until it returns false. Frames live until call returns.
typedef bool symbol_each_fn(void *ctx, size_t i, const struct symbol_frame *frames, int n);
int symbol_lookup_many(struct symbol_file *file, const uint64_t *addrs, size_t n,
                       symbol_each_fn *call, void *ctx, struct err *e);

// Every address at which an answer can change, sorted, each once: malloced, *n of them. NULL if
// memory ran out.
uint64_t *symbol_boundaries(struct symbol_file *file, size_t *n);

// Whether one of the files was found to have changed: there are no names in it any more.
bool symbol_has_changed(struct symbol_file *file);
// Closes the files until the next look-up: call it after a few of them. A mapped file is not open.
void symbol_rest(struct symbol_file *file);
// Forgets everything that can be built again, and the pages of the files.
void symbol_release(struct symbol_file *file);
// Only the pages, and closes the files.
void symbol_release_pages(struct symbol_file *file);
// Bytes of anonymous memory held.
size_t symbol_memory(const struct symbol_file *file);
struct elf *symbol_elf(struct symbol_file *file);
// The path of the file that the DWARF comes from; NULL: there is none.
const char *symbol_debug_path(const struct symbol_file *file);
