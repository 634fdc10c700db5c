// Names of frames for the text formats that have nothing but names.
#pragma once

#include "model/profile.h"

// What a line of a location is called; a location without lines has one such frame, and
// line is 0. An unknown function is `[binary]` or, with no mapping, its address.
struct str frame_name(struct arena *arena, const struct model_profile *p,
                      const struct model_location *location, uint32_t line);

// The frames of every location, outermost first, as interned names. Bytes that would break
// a line of stacks apart are replaced: `;` by `:`, line ends by a space.
struct frame_table {
    struct model_strings *names;
    uint32_t *first; // of each location, where in ids; one more at the end
    uint32_t *ids;
};

void frame_table_init(struct frame_table *table, struct arena *arena,
                      const struct model_profile *p);
