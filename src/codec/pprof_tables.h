// The first pass over a pprof message reads everything except samples. The second pass can then
// convert location ids to indices immediately, so each frame is touched only once.
#pragma once

#include "codec/pprof.h"
#include "codec/pprof_sample.h"
#include "model/builder.h"

// A range of the message that starts with a sample and contains whole fields.
struct pprof_range {
    size_t at;           // the offset of its first byte
    size_t first_sample; // number of samples before it
};

struct pprof_reader {
    struct arena *arena;
    struct model_builder b;
    struct model_profile *p;
    struct err *e;
    uint8_t *data;
    size_t size;

    struct pprof_tables tables;
    struct str *raw_strings;
    size_t n_raw, cap_raw;
    size_t n_samples, sample_bytes;
    size_t cap_types, cap_mappings, cap_functions, cap_locations, cap_lines, cap_comments;

    // If range_bytes is not 0, the pass divides the message into ranges of at least this size.
    size_t range_bytes;
    struct pprof_range *ranges;
    size_t n_ranges, cap_ranges;
    // The data is a private mapping of a file: drop the pages that were read.
    bool drops_pages;
};

// Fills r->p except samples, and r->tables. The caller has set arena, e, data, size and the
// options. Fills e on failure. Fails through the arena, too.
enum pprof_result pprof_read_all_tables(struct pprof_reader *r);

// The second pass on the caller's thread: fills the samples of r->p, and checks the profile. If
// disposable is set, returns the pages of the data to the kernel on the way.
enum pprof_result pprof_read_samples(struct pprof_reader *r, bool disposable);

// Fills e. Returns PPROF_BAD.
enum pprof_result pprof_bad(struct pprof_reader *r, const char *what);

// Describe errors in samples. They fill e and return PPROF_BAD.
enum pprof_result pprof_bad_sample(struct pprof_reader *r, size_t sample, size_t byte);
enum pprof_result pprof_bad_values(struct pprof_reader *r, size_t sample, uint32_t n_values);
enum pprof_result pprof_bad_location(struct pprof_reader *r);
