// Reads profiles from bytes and writes them. Readers trust no length in the input and do not crash
// on any input. An error says where the input is invalid and what was expected.
#pragma once

#include "base/out.h"
#include "model/profile.h"

enum codec_format {
    CODEC_AUTO,
    CODEC_PPROF,
    CODEC_LEGACY, // the text and binary formats from before profile.proto
    CODEC_JEMALLOC,
    CODEC_FOLDED,
    CODEC_PERF_SCRIPT,
    CODEC_SPEEDSCOPE,
    CODEC_CALLGRIND, // write-only, like JSON and CSV
    CODEC_JSON,
    CODEC_CSV,
};

// Returns "pprof", "folded", ..., or NULL if format is past the last one.
const char *codec_format_name(enum codec_format format);
// Returns CODEC_AUTO if no format has this name.
enum codec_format codec_format_from_name(struct str name);

// Limits for hostile input.
struct codec_limits {
    size_t inflated; // maximum size after decompression, in bytes; 0 means 1 GiB
};

// For commands, which may use all processors.
struct codec_parallel {
    unsigned threads; // 0: parallel_threads()
    // A large profile may keep its samples encoded (model/stream.h). If the profile has a stream,
    // it points into the data, or into a decompressed copy that lives as long as the process.
    bool keeps_encoded;
    bool is_mapped_file; // data is a private mapping of a file
};

// Reads a profile in any supported format, optionally compressed (gzip, zstd), from the n bytes at
// data. The profile lives in arena and keeps no pointer into data. limits and format_read may be
// NULL. Sets *format_read to the format that was detected. Returns NULL with e filled on failure.
struct model_profile *codec_read(struct arena *arena, const uint8_t *data, size_t n,
                                 const struct codec_limits *limits, enum codec_format *format_read,
                                 struct err *e);
// Like codec_read, on several threads if the data is large or the user asked for threads.
struct model_profile *codec_read_parallel(struct arena *arena, const uint8_t *data, size_t n,
                                          const struct codec_limits *limits,
                                          const struct codec_parallel *parallel,
                                          enum codec_format *format_read, struct err *e);

// Readers for single formats. The input must be decompressed. Each returns NULL with e filled on
// failure.
struct model_profile *codec_read_pprof(struct arena *arena, const uint8_t *data, size_t n,
                                       struct err *e);
struct model_profile *codec_read_legacy(struct arena *arena, const uint8_t *data, size_t n,
                                        struct err *e);
struct model_profile *codec_read_jemalloc(struct arena *arena, const uint8_t *data, size_t n,
                                          struct err *e);
struct model_profile *codec_read_folded(struct arena *arena, const uint8_t *data, size_t n,
                                        struct err *e);
struct model_profile *codec_read_perf_script(struct arena *arena, const uint8_t *data, size_t n,
                                             struct err *e);
struct model_profile *codec_read_speedscope(struct arena *arena, const uint8_t *data, size_t n,
                                            struct err *e);

// One profile of a speedscope file. It has one sample type: time/nanoseconds, space/bytes or
// samples/count. Everything lives in the arena and points to no input.
struct codec_speedscope {
    struct str name, unit, type;
    double start;
    struct model_profile *profile;
};
int codec_read_speedscope_each(struct arena *arena, const uint8_t *data, size_t n,
                               struct codec_speedscope **each, size_t *n_each, struct err *e);

// Writes pprof exactly as google/pprof encodes it (without compression, or as gzip). Returns -1
// with e filled on failure.
int codec_write_pprof(const struct model_profile *p, struct out *out, struct err *e);
int codec_write_pprof_gzip(const struct model_profile *p, struct out *out, struct err *e);
// Writes one value column (type is the index of a sample type). Stacks are written root first.
void codec_write_folded(const struct model_profile *p, uint32_t type, struct out *out);
// Writes each sample type as one profile of the file.
void codec_write_speedscope(const struct model_profile *p, struct str name, struct out *out);
// Writes everything in the profile with all references resolved, so readers need not join tables.
void codec_write_json(const struct model_profile *p, struct out *out);
// Writes one row per sample: values, labels, stack (root first, joined by ';').
void codec_write_csv(const struct model_profile *p, struct out *out);
