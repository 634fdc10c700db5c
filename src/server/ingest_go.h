// What Go's own profiles need before they can be read well.
#pragma once

#include "store/store.h"

// Whether the profile is Go's: what the agent is called, else what its strings look like.
bool ingest_is_go(const struct model_profile *p, const struct store_label *labels, size_t n);

// Changes p, which nobody else has yet:
//
// Type parameters are dropped: the runtime shows one instance for all (golang/go issue 64528).
//
// Stacks that the runtime cut (heap profiles before Go 1.23 at 32 frames, CPU profiles at 64) are
// completed where another stack shows what is missing: one that has 16 frames in a row in common
// with the outer end of the cut one, and frames above them.
void ingest_fix_go(struct model_profile *p, struct arena *arena);
