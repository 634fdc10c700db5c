// Names for a profile that was loaded, as -symbolize asks.
#pragma once

#include "cli/source.h"

// NULL with e filled.
struct model_profile *source_symbolize(const struct source *source, struct model_profile *p,
                                       struct arena *arena, struct err *e);
