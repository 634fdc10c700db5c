// A profile in parts, by time and by where it was taken: how much the parts differ tells how much
// the whole varies by itself (docs/diff.md).
//
// Beside its first type such a profile has types named MODEL_WINDOWS and MODEL_GROUPS with a number
// behind: what of the first type's values is in each window of time, and again, in each group of
// series. They are columns, so that filters treat them as they treat the values.
#pragma once

#include "model/profile.h"

#define MODEL_WINDOWS "__window__"
#define MODEL_GROUPS "__group__"

struct model_blocks {
    uint32_t first, n; // columns
};

// The first columns in a row whose types begin with the prefix; n 0: there are none.
struct model_blocks model_blocks(const struct model_profile *p, struct str prefix);
// Each of them as a profile that has the first type only; parts without a value are left out.
size_t model_split_blocks(const struct model_profile *p, struct model_blocks blocks,
                          struct arena *arena, const struct model_profile **parts);
