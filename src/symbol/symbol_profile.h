// Symbolizes a profile that has only addresses, mappings and build ids.
#pragma once

#include "model/profile.h"
#include "symbol/symbol.h"

struct symbol_profile_options {
    struct symbol_options files; // symbols_only and demangle are set from fast and demangle below
    const char *binary_path;     // PPROF_BINARY_PATH; NULL or empty: $HOME/pprof/binaries
    const char *executable;      // overrides the file of the first mapping; NULL: does not
    const char *build_id;        // of the first mapping, if it has none; NULL: none
    bool fast;                   // use only the symbol table
    bool force;                  // also mappings that already have names
    bool is_live;                // of a live process: mappings without a file are anonymous memory
    enum demangle_mode demangle;
    // Opens the binary of a mapping before the mapping's path is tried. The result is ignored if
    // its build id differs from the mapping's. Returns NULL if it cannot; *refuse then prevents
    // trying the path. May be NULL.
    struct symbol_file *(*open)(void *ctx, struct str file, const struct model_mapping *mapping,
                                const struct symbol_options *options, bool *refuse);
    bool open_special; // also call open for [vdso] and similar mappings
    // Takes the file when the mapping is done. NULL: symbol_free.
    void (*close)(void *ctx, const struct model_mapping *mapping, struct symbol_file *file);
    void *open_ctx; // for open and close
    // Returns what is already known of an address in p's mapping: the number of frames, 0 if it has
    // no name, or -1 if unknown. Files are opened only for unknown addresses. The texts must live
    // until symbol_symbolize returns. May be NULL.
    int (*known)(void *ctx, uint32_t mapping, uint64_t address,
                 struct symbol_frame frames[SYMBOL_FRAMES_MAX]);
    void *known_ctx;
    // Looks up ascending addresses, and calls call for each in order, like symbol_lookup_parallel.
    // NULL: symbol_lookup for each. Not for files from open, unless their path leads to them.
    void (*lookup)(struct symbol_file *file, const struct symbol_options *files,
                   const uint64_t *addrs, size_t n, symbol_each_fn *call, void *ctx,
                   struct arena *arena);
    // Fetches "debuginfo" or "executable" of a build id into one of files.debug_dirs, below
    // .build-id. Returns false if unavailable. NULL: fetch nothing.
    bool (*fetch)(void *ctx, const char *what, struct str build_id);
    void *fetch_ctx;
    // Receives messages for the user (a missing binary, a build id mismatch). May be NULL.
    void (*note)(void *ctx, const char *text);
    void *note_ctx;
};

// Symbolizes p like pprof. Finds the binary of each mapping (in binary_path, then at the mapping's
// path, then debug files by build id). Looks up the addresses of its locations. Sets has_functions,
// has_filenames, has_line_numbers and has_inline_frames accordingly. Leaves alone mappings that
// already have names, kernel mappings ([vdso] etc.), mappings from a URL, and locations without a
// result. Demangles the names of all functions and keeps the system names.
//
// The result lives in arena and shares unchanged columns with p. Returns NULL with e filled on
// failure.
struct model_profile *symbol_symbolize(const struct model_profile *p,
                                       const struct symbol_profile_options *options,
                                       struct arena *arena, struct err *e);

// Only finds the binaries: sets the files of the mappings to the paths found.
struct model_profile *symbol_locate(const struct model_profile *p,
                                    const struct symbol_profile_options *options,
                                    struct arena *arena, struct err *e);

// Only demangles: functions whose name equals the system name, or all of them if force is set.
struct model_profile *symbol_demangle(const struct model_profile *p, enum demangle_mode mode,
                                      bool force, demangle_cxx_fn *cxx, struct arena *arena,
                                      struct err *e);
