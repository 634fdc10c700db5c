// Bytes to profiles and back. Readers trust no length and never crash: what they
// cannot read is an error that says where and what was expected.
#pragma once

#include "base/out.h"
#include "model/profile.h"

enum codec_format {
    CODEC_AUTO,
    CODEC_PPROF,
    CODEC_LEGACY, // the text and binary formats that pprof still reads
    CODEC_JEMALLOC,
    CODEC_FOLDED,
    CODEC_PERF_SCRIPT,
    CODEC_SPEEDSCOPE,
    CODEC_CALLGRIND, // written only, as are JSON and CSV
    CODEC_JSON,
    CODEC_CSV,
};

// "pprof", "folded", ...; NULL past the last.
const char *codec_format_name(enum codec_format format);
// CODEC_AUTO if the name is none.
enum codec_format codec_format_from_name(struct str name);

// What a reader may use: bounds on hostile input.
struct codec_limits {
    size_t inflated; // bytes after decompression; 0: 1 GiB
};

// Reads a profile in any format that kiln knows, compressed (gzip, zstd) or not, out of
// the n bytes at data. The profile lives in arena and keeps no pointer into data.
// *format_read (may be NULL) says what it was.
// NULL with e filled on failure.
struct model_profile *codec_read(struct arena *arena, const uint8_t *data, size_t n,
                                 const struct codec_limits *limits, enum codec_format *format_read,
                                 struct err *e);

// The single formats, for what is already inflated. Each returns NULL with e filled.
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

// The profiles of a speedscope file one by one, each with one sample type: time/nanoseconds,
// space/bytes or samples/count.
struct codec_speedscope {
    struct str name, unit, type;
    double start;
    struct model_profile *profile;
};
int codec_read_speedscope_each(struct arena *arena, const uint8_t *data, size_t n,
                               struct codec_speedscope **each, size_t *n_each, struct err *e);

// pprof as google/pprof writes it, byte for byte, before compression.
int codec_write_pprof(const struct model_profile *p, struct out *out, struct err *e);
int codec_write_pprof_gzip(const struct model_profile *p, struct out *out, struct err *e);
// One value column (an index of a sample type) of each stack, root first.
void codec_write_folded(const struct model_profile *p, uint32_t type, struct out *out);
// Every sample type becomes one of the file's profiles.
void codec_write_speedscope(const struct model_profile *p, struct str name, struct out *out);
// Everything that is in the profile, resolved: no tables to join.
void codec_write_json(const struct model_profile *p, struct out *out);
// One row a sample: values, labels, stack (root first, joined by ';').
void codec_write_csv(const struct model_profile *p, struct out *out);
