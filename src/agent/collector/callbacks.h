// Applies the user's frame and thread hooks before a profile is written.
#pragma once

#include <kiln/kiln.h>

#include "agent/agent.h"

void callbacks_set_frame(kiln_frame_hook hook, void *context);
void callbacks_set_thread(kiln_thread_hook hook, void *context);
void callbacks_after_fork_in_child(void);

// Returns p, or a profile in arena with the hooks applied. Returns NULL and fills e on failure.
struct model_profile *callbacks_apply(struct model_profile *p, struct arena *arena, struct err *e);
