// What the user wants to be done with frames and threads before a report.
#pragma once

#include "agent/agent.h"

enum agent_verdict { AGENT_KEEP, AGENT_RENAME, AGENT_DROP };

// name holds n bytes; what is written there is the new name. Called without locks.
typedef int agent_frame_hook(void *context, const char *name, const char *system_name,
                             const char *file, char *renamed, size_t n);
typedef int agent_thread_hook(void *context, const char *name, uint32_t tid, char *renamed,
                              size_t n);

void hooks_set_frame(agent_frame_hook *hook, void *context);
void hooks_set_thread(agent_thread_hook *hook, void *context);

// p, or a profile in arena after the hooks' work. NULL with e filled.
struct model_profile *hooks_apply(struct model_profile *p, struct arena *arena, struct err *e);
