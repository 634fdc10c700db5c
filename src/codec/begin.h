// How the readers of this room start a profile.
#pragma once

#include "model/builder.h"

// An empty profile whose columns are there, so that ranges of them can be taken even when
// no sample has a frame and no location a line: an offset from NULL is undefined, be it 0.
static inline void codec_begin(struct model_builder *b, struct arena *arena)
{
    model_build(b, arena);
    struct model_profile *p = b->p;
    p->lines = arena_push(arena, NULL, 0, &b->cap_lines, sizeof *p->lines);
    p->frames = arena_push(arena, NULL, 0, &b->cap_frames, sizeof *p->frames);
    p->values = arena_push(arena, NULL, 0, &b->cap_values, sizeof *p->values);
}
