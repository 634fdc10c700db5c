// Frame names for text formats that store only names.
#pragma once

#include "model/profile.h"

// Returns the name of one line of a location. A location without lines has a single frame; pass
// line 0. Without a function name the result is `[binary]` or, without a mapping, the address. The
// text lives in arena or belongs to p.
struct str frame_name(struct arena *arena, const struct model_profile *p,
                      const struct model_location *location, uint32_t line);

// The interned frame names of every location, outermost first. Characters that would break a line
// of stacks are replaced: `;` by `:`, line ends by a space.
struct frame_table {
    struct model_strings *names;
    uint32_t *first; // index into ids of each location's first frame, plus a final end entry
    uint32_t *ids;
};

// Builds the table for p in arena. Fails through the arena.
void frame_table_init(struct frame_table *table, struct arena *arena,
                      const struct model_profile *p);
