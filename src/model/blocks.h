// Splits a profile by time and by source. How much the parts differ shows how much the whole varies
// by itself (docs/explanation/diff.md).
//
// Besides its first type, such a profile has types named MODEL_WINDOWS and MODEL_GROUPS followed by
// a number. They hold the part of the first type's values in each time window and, separately, in
// each group of series. They are columns, so filters treat them like other values.
#pragma once

#include "model/profile.h"

#define MODEL_WINDOWS "__window__"
#define MODEL_GROUPS "__group__"

struct model_blocks {
    uint32_t first, n; // columns
};

// Returns the first run of columns whose types begin with prefix; n is 0 if there is none.
struct model_blocks model_blocks(const struct model_profile *p, struct str prefix);
// Makes a profile of each block, with only the first type. Blocks without values are skipped. parts
// must have room for blocks.n pointers. Returns their number. The parts live in arena and share
// columns with p.
size_t model_split_blocks(const struct model_profile *p, struct model_blocks blocks,
                          struct arena *arena, const struct model_profile **parts);
