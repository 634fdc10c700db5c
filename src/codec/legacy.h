// The formats from before profile.proto. Each parser looks at the whole input and answers
// whether it is its format; the first that does not say LEGACY_NOT decides.
#pragma once

#include "codec/maps.h"
#include "codec/scan.h"
#include "model/builder.h"

// LEGACY_NOT: not this parser's format, another may read it.
// LEGACY_BAD: it is, and it is broken; the err says how.
enum legacy_result { LEGACY_OK, LEGACY_NOT, LEGACY_BAD };

struct legacy {
    struct arena *arena;
    struct str input;
    struct err *e;
    // Begun by the parser that recognizes the input.
    struct model_builder b;
    uint32_t *frames; // of the sample that is being read
    size_t n_frames, cap_frames;
};

enum legacy_result legacy_read_cpu(struct legacy *l);
enum legacy_result legacy_read_heap(struct legacy *l);
enum legacy_result legacy_read_count(struct legacy *l);
enum legacy_result legacy_read_thread(struct legacy *l);
enum legacy_result legacy_read_contention(struct legacy *l);
enum legacy_result legacy_read_java(struct legacy *l);

// All of them in pprof's order. The caller holds the arena's trap.
enum legacy_result legacy_read(struct arena *arena, const uint8_t *data, size_t n,
                               struct model_profile **profile, struct err *e);

// What the parsers share.

void legacy_begin(struct legacy *l, struct str period_type, struct str period_unit, int64_t period);
// The frame goes to the sample that is being read. Frames are one location an address.
void legacy_add_frame(struct legacy *l, uint64_t address);
// Adds a frame for each address in text, less adjust. False with the sentence in e if one
// of them is too large.
bool legacy_add_addresses(struct legacy *l, struct str text, uint64_t adjust, size_t line);
// Ends the sample that is being read.
void legacy_add_sample(struct legacy *l, const int64_t *values);
// Takes the second frame of those samples where it is the given location.
void legacy_drop_second(struct legacy *l, uint32_t location);
// Takes the second frame of those samples where it is the first one again: handlers get the
// leaf both from the signal's context and, less one, from the stack.
void legacy_drop_repeated_leaf(struct legacy *l);
// Goes on to the memory map, if there is one, and reads it; then every location has its
// mapping and its id.
void legacy_read_map(struct legacy *l, struct scan_lines *lines);
bool legacy_is_map_start(struct str line);

// Sampled allocations, scaled to what they stand for: of a block of size S, one in
// 1 - exp(-S/rate) is seen.
void legacy_unsample(int64_t *count, int64_t *size, int64_t rate);

// The rest of a Java profile: names of the locations whose addresses are in the samples.
// Afterwards no location has an address.
enum legacy_result legacy_read_java_names(struct legacy *l, struct str rest, size_t line);
