// The image that heap sampling leaves (capture/heap_image.h) as a profile: in the process itself,
// or from the journal of one that is dead.
#pragma once

#include "capture/heap_image.h"
#include "codec/codec.h"

struct codec_heap_process {
    const char *name; // NULL: samples carry no labels of the process
    uint32_t pid;
};

// What is known of a process beside the samples.
struct codec_heap_totals {
    uint64_t samples, untracked, untracked_bytes, stackless, nested, unseen;
    int64_t live, peak; // bytes
};

// The profile of an image of n blocks, HEAP_BLOCK bytes each and aligned to eight; it may be
// written at the same time. Types, period and default as Go's heap profiles have them; totals may
// be NULL. NULL with e filled.
struct model_profile *codec_read_heap(struct arena *arena, const void *const *blocks, size_t n,
                                      const struct codec_heap_process *process,
                                      struct codec_heap_totals *totals, struct err *e);
// The same from the first n bytes of a journal's part. NULL with e filled; with an empty message
// if there is no image in it.
struct model_profile *codec_read_journal_heap(struct arena *arena, const uint8_t *data, size_t n,
                                              struct codec_heap_totals *totals, struct err *e);
