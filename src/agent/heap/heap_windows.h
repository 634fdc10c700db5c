// Heap profiles and windows; see heap_windows.c. Any thread may call these.
#pragma once

#include "base/arena.h"
#include "model/profile.h"

void heap_windows_before_fork(void);
void heap_windows_after_fork_in_parent(void);
void heap_windows_after_fork_in_child(void);

// Returns a profile of everything since sampling began. Returns NULL and fills e on failure.
struct model_profile *heap_profile(struct arena *arena, struct err *e);
// Returns a window number, or -1 with e filled.
int heap_window_open(struct err *e);
// Closes the window. Returns what was allocated since it was opened and how memory in use changed,
// which may be negative. Returns NULL and fills e on failure.
struct model_profile *heap_window_close(int window, struct arena *arena, struct err *e);
void heap_window_cancel(int window);
// Returns what was allocated between the two profiles, and what is in use now. Returns NULL and
// fills e on failure.
struct model_profile *heap_progress(struct model_profile *now, struct model_profile *base,
                                    struct arena *arena, struct err *e);
// Returns what was allocated between the two profiles, and how memory in use changed. Returns NULL
// and fills e on failure.
struct model_profile *heap_difference(struct model_profile *now, struct model_profile *base,
                                      struct arena *arena, struct err *e);
