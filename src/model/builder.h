// How decoders make a profile: they add what they meet, the builder interns it.
// The builder and the profile live in one arena; a builder needs no clean-up.
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

// An empty profile in arena: `b->p` is the result once everything was added.
void model_build(struct model_builder *b, struct arena *arena);

static inline uint32_t model_build_string(struct model_builder *b, struct str text)
{
    return model_intern(b->p->strings, text);
}

uint32_t model_build_type(struct model_builder *b, struct str type, struct str unit);
void model_build_comment(struct model_builder *b, struct str text);

// Adds a mapping; its id becomes its index + 1. Returns the index.
uint32_t model_build_mapping(struct model_builder *b, struct model_mapping mapping);

// The function with these four properties (string ids), added if it is new. Ids count from 1.
uint32_t model_build_function(struct model_builder *b, uint32_t name, uint32_t system_name,
                              uint32_t filename, int64_t start_line);

// The location with this mapping (an index or MODEL_NONE), address and lines, added if it
// is new. Ids count from 1.
uint32_t model_build_location(struct model_builder *b, uint32_t mapping, uint64_t address,
                              const struct model_line *lines, uint32_t n_lines);

// A location that is nothing but a function's name: what folded stacks have.
uint32_t model_build_named_location(struct model_builder *b, struct str name);

// A sample is built in order: labels, then model_build_sample with its frames (leaf
// first) and one value for each type that was added.
void model_build_label(struct model_builder *b, struct str key, struct str value);
void model_build_number_label(struct model_builder *b, struct str key, int64_t value,
                              struct str unit);
void model_build_sample(struct model_builder *b, const uint32_t *frames, size_t n_frames,
                        const int64_t *values);
// The same for a profiler that knows the weights of its events (struct model_profile, squares): all
// samples of a profile are built with one or the other.
void model_build_weighed_sample(struct model_builder *b, const uint32_t *frames, size_t n_frames,
                                const int64_t *values, double squares);

// A label set that is not looked for among those there are. labels are sorted.
uint32_t model_build_new_label_set(struct model_builder *b, const struct model_label *labels,
                                   size_t n);
// The interned id of a label set: sorts labels into the canonical order in place.
uint32_t model_build_label_set(struct model_builder *b, struct model_label *labels, size_t n);
