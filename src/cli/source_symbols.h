// Symbolizes a loaded profile according to -symbolize.
#pragma once

#include "cli/source.h"

// Returns NULL and fills e on failure.
struct model_profile *source_symbolize(const struct source *source, struct model_profile *p,
                                       struct arena *arena, struct err *e);
