// Loads profiles from files, standard input and URLs; merges several, and subtracts a base.
#pragma once

#include "codec/codec.h"
#include "net/fetch.h"

// Notes that were printed: a note about many profiles is printed once.
struct source_notes {
    struct arena *arena;
    const char **texts;
    size_t n, cap;
};

struct source {
    const char *const *names;
    size_t n_names;
    const char *const *bases;
    size_t n_bases;
    bool diff_base; // percentages refer to the base
    bool normalize; // scale to the base's total first
    const char *exec_name, *build_id, *comment;
    int seconds, timeout; // -1: not given
    int threads;          // 0: all processors; see source_use_threads
    bool all_frames;      // ignore drop_frames and keep_frames
    bool strict;          // fail if any source is unavailable, even if others are available
    // Large profiles may keep their samples encoded (model/stream.h); for commands that read the
    // samples once or twice.
    bool keeps_encoded;
    bool joins_encoded;         // also those of several files, for reports that need only sums
    bool as_is;                 // keep the profile exactly as it was read, and do not save it
    const char *symbolize;      // like pprof's option; NULL: the default, names from local binaries
    bool debuginfod;            // query debuginfod servers for missing debug files
    struct source_notes *notes; // NULL: print all notes
    struct net_tls tls;
    enum codec_format *format; // receives the format of the last file read; may be NULL
};

// Allows as many threads as source->threads says. Returns -1 and fills e if the number is invalid.
int source_use_threads(const struct source *source, struct err *e);

// Loads everything into arena. Returns NULL and fills e if nothing is available. If only some
// sources fail, prints the errors to standard error.
struct model_profile *source_load(const struct source *source, struct arena *arena, struct err *e);

// The directories of debug files: NULL for the default, or also the cache of debuginfod servers if
// these are used. Allocated in arena.
const char *source_debug_dirs(const struct source *source, struct arena *arena);

// Creates an arena for profiles and reports, limited to eight times the size of the largest
// readable profile (KILN_MAX_MIB).
struct arena *source_arena_new(void);

// Reads one file ("-" is standard input) unmodified.
struct model_profile *source_read_file(const char *name, struct arena *arena,
                                       const struct codec_parallel *parallel,
                                       enum codec_format *format, struct err *e);

// Decodes a profile from bytes.
struct model_profile *source_decode(const uint8_t *data, size_t n, struct arena *arena,
                                    const struct codec_parallel *parallel,
                                    enum codec_format *format, struct err *e);
// The maximum size of a source: KILN_MAX_MIB, or 1 GiB.
size_t source_byte_limit(void);

// Prints a message to standard error, in red on a terminal.
void source_complain(const char *text);
// Like source_complain, unless the note was printed before. notes: a struct source_notes, or NULL.
void source_note(void *notes, const char *text);
