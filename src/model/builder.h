// Decoders build profiles with this: they add what they read, and the builder interns it. The
// builder and the profile live in one arena, and a builder needs no cleanup. All functions fail
// through the arena.
#pragma once

#include "model/profile.h"

struct model_builder {
    struct model_profile *p;
    struct arena *arena;
    size_t cap_types, cap_mappings, cap_functions, cap_locations, cap_lines, cap_label_sets,
        cap_labels, cap_comments;
    size_t cap_samples, cap_values, cap_lens, cap_label_column, cap_squares;
    struct hash_table functions, locations, label_sets;
    // The sample under construction.
    struct model_label *pending;
    size_t n_pending, cap_pending;
};

// Starts an empty profile in arena. `b->p` is the result once everything is added.
void model_build(struct model_builder *b, struct arena *arena);

static inline uint32_t model_build_string(struct model_builder *b, struct str text)
{
    return model_intern(b->p->strings, text);
}

// Adds a sample type and returns its index.
uint32_t model_build_type(struct model_builder *b, struct str type, struct str unit);
void model_build_comment(struct model_builder *b, struct str text);

// Adds a mapping and sets its id to its index + 1. Returns the index.
uint32_t model_build_mapping(struct model_builder *b, struct model_mapping mapping);

// Returns the index of the function with these properties (string ids). Adds it if it is new. Ids
// count from 1.
uint32_t model_build_function(struct model_builder *b, uint32_t name, uint32_t system_name,
                              uint32_t filename, int64_t start_line);

// Returns the index of the location with this mapping (an index or MODEL_NONE), address and lines.
// Adds it if it is new. Ids count from 1.
uint32_t model_build_location(struct model_builder *b, uint32_t mapping, uint64_t address,
                              const struct model_line *lines, uint32_t n_lines);

// Returns a location that has only a function name, as in folded stacks.
uint32_t model_build_named_location(struct model_builder *b, struct str name);

// Build a sample: first add its labels, then call model_build_sample with its frames (leaf first)
// and one value per type. All types must exist before the first sample.
void model_build_label(struct model_builder *b, struct str key, struct str value);
void model_build_number_label(struct model_builder *b, struct str key, int64_t value,
                              struct str unit);
void model_build_sample(struct model_builder *b, const uint32_t *frames, size_t n_frames,
                        const int64_t *values);
// Like model_build_sample, for a profiler that knows the weights of its events (squares in struct
// model_profile). Do not mix both functions in one profile.
void model_build_weighed_sample(struct model_builder *b, const uint32_t *frames, size_t n_frames,
                                const int64_t *values, double squares);

// Adds a label set without looking for an equal one. labels must be sorted.
uint32_t model_build_new_label_set(struct model_builder *b, const struct model_label *labels,
                                   size_t n);
// Returns the index of a label set. Adds it if it is new. Sorts labels in place.
uint32_t model_build_label_set(struct model_builder *b, struct model_label *labels, size_t n);
