// Names for addresses of this process. Takes none of the collector's locks.
#pragma once

#include "agent/agent.h"

// A profile in arena with names, sharing with p what did not change. NULL with e filled.
struct model_profile *names_fill(const struct model_profile *p, struct arena *arena, struct err *e);
