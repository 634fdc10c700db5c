// Where profiles come from: files, standard input, URLs; several merged into one, a base
// taken away.
#pragma once

#include "codec/codec.h"
#include "net/fetch.h"

// Notes on profiles that have been printed: one that holds for many profiles is printed once.
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
    int seconds, timeout;       // -1: not given
    bool all_frames;            // ignore drop_frames and keep_frames
    bool strict;                // a source that cannot be had is an error, whatever else there is
    bool as_is;                 // nothing is added, dropped or saved: what was read is what is had
    const char *symbolize;      // as pprof's option; NULL: the default, names from local binaries
    bool debuginfod;            // ask debuginfod servers for what is not on this machine
    struct source_notes *notes; // NULL: all notes are printed
    struct net_tls tls;
    enum codec_format *format; // NULL, or where to tell what the last one read was
};

// Loads everything into arena. NULL with e filled if nothing could be had; what failed
// among several is told on standard error.
struct model_profile *source_load(const struct source *source, struct arena *arena, struct err *e);

// Where debug files are: NULL for the usual place, or also what debuginfod servers gave, if those
// were to be asked. Lives in arena.
const char *source_debug_dirs(const struct source *source, struct arena *arena);

// An arena for profiles and reports, bounded by KILN_MAX_MIB: eight times the largest
// profile that is read.
struct arena *source_arena_new(void);

// One file ("-" is standard input), nothing done to it.
struct model_profile *source_read_file(const char *name, struct arena *arena,
                                       enum codec_format *format, struct err *e);

// The same from bytes.
struct model_profile *source_decode(const uint8_t *data, size_t n, struct arena *arena,
                                    enum codec_format *format, struct err *e);
// How large a source may be: KILN_MAX_MIB, or 1 GiB.
size_t source_byte_limit(void);

// A message to the user on standard error, red on a terminal.
void source_complain(const char *text);
// The same, unless it is among the notes (a struct source_notes, or NULL) already.
void source_note(void *notes, const char *text);
