// What the user wants to be done with frames and threads before a report.
#pragma once

#include <kiln/kiln.h>

#include "agent/agent.h"

void callbacks_set_frame(kiln_frame_hook hook, void *context);
void callbacks_set_thread(kiln_thread_hook hook, void *context);
void callbacks_after_fork_in_child(void);

// p, or a profile in arena after the hooks' work. NULL with e filled.
struct model_profile *callbacks_apply(struct model_profile *p, struct arena *arena, struct err *e);
