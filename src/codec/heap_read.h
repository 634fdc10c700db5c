// Converts a heap sampling image (capture/heap_image.h) to a profile. The image belongs to this
// process, or it comes from the journal of a dead one.
#pragma once

#include "capture/heap_image.h"
#include "codec/codec.h"

struct codec_heap_process {
    const char *name; // NULL: do not add process labels to the samples
    uint32_t pid;
};

// Totals of a process, as struct heap_head counts them.
struct codec_heap_totals {
    uint64_t samples, untracked, untracked_bytes, stackless, nested, unseen;
    int64_t live, peak; // estimated bytes in use: now, and the maximum
};

// Reads an image of n blocks. Each block has HEAP_BLOCK bytes and is aligned to eight bytes.
// Another thread or process may write to the image during the call. The profile has the types, the
// period and the default type of Go's heap profiles. process and totals may be NULL. Returns NULL
// with e filled on failure.
struct model_profile *codec_read_heap(struct arena *arena, const void *const *blocks, size_t n,
                                      const struct codec_heap_process *process,
                                      struct codec_heap_totals *totals, struct err *e);
// Reads the image from the first n bytes of a journal part. Returns NULL with e filled on failure;
// the message is empty if the part contains no image.
struct model_profile *codec_read_journal_heap(struct arena *arena, const uint8_t *data, size_t n,
                                              struct codec_heap_totals *totals, struct err *e);
