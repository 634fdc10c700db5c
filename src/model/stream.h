// Samples that stay encoded. A large profile whose report needs only sums is never decoded as a
// whole: its samples pass by in windows that fit the cache. A profile with a stream has all tables,
// n_samples and n_types, but no columns; model_decode_samples adds them.
#pragma once

#include "base/out.h"
#include "model/parallel.h"
#include "model/profile.h"

enum { MODEL_WITH_LABELS = 1, MODEL_WITH_SQUARES = 2 };

// Memory for a window; one per thread, reused.
struct model_window {
    struct arena *arena;
    struct model_profile p; // the tables of the whole profile; columns of some of its samples
    size_t first;           // index of the first of them in the whole profile
    uint32_t *frames;
    size_t cap_frames, cap_values, cap_samples;
    void *decoder; // of the codec
};

struct model_stream {
    size_t n_windows;
    bool has_labels;
    bool has_zeros;      // samples whose values are all zero
    bool has_negatives;  // values below zero
    bool repeats;        // several samples may have the same stack and labels
    int64_t *absolute;   // the sum of |value| by type
    int64_t first_value; // the sum of the first type's values
    // Distinct keys and units of numeric labels, in the order of the samples. Only key and unit are
    // set.
    struct model_label *number_labels;
    size_t n_number_labels;
    // Decodes a window. what: MODEL_WITH_LABELS, MODEL_WITH_SQUARES. Fails through window->arena.
    void (*read)(const struct model_stream *stream, size_t index, unsigned what,
                 struct model_window *window);
    // Adds the columns to p.
    void (*decode)(const struct model_stream *stream, struct model_profile *p);
};

// Returns p, or a derived profile with columns if p's samples are encoded. Inline, so that libkiln,
// which has no encoded samples, links none of stream.c.
static inline const struct model_profile *model_decode_samples(const struct model_profile *p,
                                                               struct arena *arena)
{
    if (!p->stream)
        return p;
    struct model_profile *to = model_profile_derive(p, arena);
    to->stream = NULL;
    p->stream->decode(p->stream, to);
    return to;
}

// Merges profiles whose samples are encoded, and stay so: equal stacks are not found, but the sums
// of a report are the same. Returns NULL if they cannot be merged like this: types differ, or
// samples may cancel out.
struct model_profile *model_join_encoded(struct model_profile *const *profiles, size_t n,
                                         struct arena *arena);

// Returns the number of threads that model_each_window uses for p.
unsigned model_window_workers(const struct model_profile *p);

// Calls visit for windows that together contain all samples, each once, on several threads: the
// order is arbitrary, except that a single worker visits them in order. A profile whose samples are
// decoded is divided into ranges of its columns. Fails through the arena.
void model_each_window(const struct model_profile *p, struct arena *arena, unsigned what,
                       void (*visit)(void *context, struct parallel_worker *worker,
                                     const struct model_profile *window, size_t first),
                       void *context);

// Calls write for such windows on several threads, and take for what it wrote, in the order of the
// samples. Calls of take do not overlap; they may use arena. Fails through the arena.
void model_each_in_order(const struct model_profile *p, struct arena *arena, unsigned what,
                         void (*write)(void *context, struct parallel_worker *worker,
                                       const struct model_profile *window, size_t first,
                                       struct out *text),
                         void (*take)(void *context, struct str text), void *context);
