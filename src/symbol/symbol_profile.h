// Fills in a profile that carries only addresses, mappings and build ids.
#pragma once

#include "model/profile.h"
#include "symbol/symbol.h"

struct symbol_profile_options {
    struct symbol_options files; // symbols_only and demangle are set from the fields below
    const char *binary_path;     // PPROF_BINARY_PATH; NULL or empty: $HOME/pprof/binaries
    const char *executable;      // overrides the first mapping's file; NULL: does not
    const char *build_id;        // of the first mapping, if it has none; NULL: none
    bool fast;                   // the symbol table only
    bool force;                  // also what has names already
    enum demangle_mode demangle;
    // How the binary of a mapping is opened, before the mapping's path is tried; NULL: not at
    // all. One that is not the mapping's (by its build id) is not used. *refuse: do not try the
    // path either. May be NULL.
    struct symbol_file *(*open)(void *ctx, struct str file, const struct model_mapping *mapping,
                                const struct symbol_options *options, bool *refuse);
    bool open_special; // open is also called for [vdso] and the like
    // Takes the file when all was looked up in it. NULL: symbol_free.
    void (*close)(void *ctx, const struct model_mapping *mapping, struct symbol_file *file);
    void *open_ctx; // for both
    // What is known of an address of p's mapping without looking into a file: how many frames, 0 if
    // it is known to have no name; -1: not known. A file is opened only for what is not known. What
    // frames point to lives as long as the call of symbol_symbolize. May be NULL.
    int (*known)(void *ctx, uint32_t mapping, uint64_t address,
                 struct symbol_frame frames[SYMBOL_FRAMES_MAX]);
    void *known_ctx;
    // Brings "debuginfo" or "executable" of a build id into one of files.debug_dirs, below
    // .build-id; false if it cannot be had. NULL: nothing is brought.
    bool (*fetch)(void *ctx, const char *what, struct str build_id);
    void *fetch_ctx;
    // What a user should know (a binary is missing, a build id does not match); may be NULL.
    void (*note)(void *ctx, const char *text);
    void *note_ctx;
};

// As pprof does: finds each mapping's binary (binary_path first, then the mapping's own path,
// then debug files by build id), resolves the addresses of its locations, sets has_functions,
// has_filenames, has_line_numbers and has_inline_frames by what was found. Mappings that have
// names already, the kernel's own ([vdso] and the like) and those from a URL are left alone,
// and so are locations of which nothing is known. Names of all functions are demangled; the
// system names stay beside them.
//
// The profile that is returned lives in arena and shares with p what did not change.
struct model_profile *symbol_symbolize(const struct model_profile *p,
                                       const struct symbol_profile_options *options,
                                       struct arena *arena, struct err *e);

// Only the search for binaries: the mappings' files become those that were found.
struct model_profile *symbol_locate(const struct model_profile *p,
                                    const struct symbol_profile_options *options,
                                    struct arena *arena, struct err *e);

// Only the names: functions whose shown name equals the system name, or all of them by force.
struct model_profile *symbol_demangle(const struct model_profile *p, enum demangle_mode mode,
                                      bool force, demangle_cxx_fn *cxx, struct arena *arena,
                                      struct err *e);
