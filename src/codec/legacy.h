// The formats from before profile.proto. Each parser inspects the whole input and tells whether it
// recognizes it. The first result other than LEGACY_NOT is final.
#pragma once

#include "codec/maps.h"
#include "codec/scan.h"
#include "model/builder.h"

// LEGACY_NOT: another format; try the next parser.
// LEGACY_BAD: this parser's format, but invalid; the err says why.
enum legacy_result { LEGACY_OK, LEGACY_NOT, LEGACY_BAD };

struct legacy {
    struct arena *arena;
    struct str input;
    struct err *e;
    // Initialized by the parser that recognizes the input.
    struct model_builder b;
    uint32_t *frames; // of the sample being read
    size_t n_frames, cap_frames;
};

enum legacy_result legacy_read_cpu(struct legacy *l);
enum legacy_result legacy_read_heap(struct legacy *l);
enum legacy_result legacy_read_count(struct legacy *l);
enum legacy_result legacy_read_thread(struct legacy *l);
enum legacy_result legacy_read_contention(struct legacy *l);
enum legacy_result legacy_read_java(struct legacy *l);

// Tries all parsers in pprof's order. The caller must hold the arena's trap. Fills e unless the
// result is LEGACY_OK.
enum legacy_result legacy_read(struct arena *arena, const uint8_t *data, size_t n,
                               struct model_profile **profile, struct err *e);

// Starts the profile in l->b. Call once the parser has recognized the input.

void legacy_begin(struct legacy *l, struct str period_type, struct str period_unit, int64_t period);
// Adds a frame to the sample being read. Equal addresses share one location.
void legacy_add_frame(struct legacy *l, uint64_t address);
// Adds a frame for each address in text, minus adjust. line is for the error message. Returns false
// with l->e filled if an address exceeds 64 bits.
bool legacy_add_addresses(struct legacy *l, struct str text, uint64_t adjust, size_t line);
// Finishes the sample being read.
void legacy_add_sample(struct legacy *l, const int64_t *values);
// Removes the second frame of each sample in which it is this location.
void legacy_drop_second(struct legacy *l, uint32_t location);
// Removes the second frame of each sample in which it repeats the first one. Signal handlers record
// the leaf twice: from the signal's context and, minus one, from the stack.
void legacy_drop_repeated_leaf(struct legacy *l);
// Skips to the memory map, if there is one, and reads it. Then assigns a mapping and an id to every
// location.
void legacy_read_map(struct legacy *l, struct scan_lines *lines);
bool legacy_is_map_start(struct str line);

// Scales sampled allocations to estimates: a block of size S is sampled with probability 1 -
// exp(-S/rate). Rates up to 1 leave the values unchanged.
void legacy_unsample(int64_t *count, int64_t *size, int64_t rate);

// Reads the rest of a Java profile: the names of the locations that the samples refer to by
// address. Clears the addresses of all locations. line is the number of the line before rest.
enum legacy_result legacy_read_java_names(struct legacy *l, struct str rest, size_t line);
