// See heap_windows.c. Any thread may call these.
#pragma once

#include "base/arena.h"
#include "model/profile.h"

void heap_windows_before_fork(void);
void heap_windows_after_fork_in_parent(void);
void heap_windows_after_fork_in_child(void);

// Everything since sampling began, by the source to use. NULL with e filled.
struct model_profile *heap_profile(struct arena *arena, struct err *e);
// A window's number, or -1 with e filled.
int heap_window_open(struct err *e);
// What was allocated since, and what is in use now less what was in use then, which may be
// negative. Closes the window. NULL with e filled.
struct model_profile *heap_window_close(int window, struct arena *arena, struct err *e);
void heap_window_cancel(int window);
// What was allocated between two of them, and what is in use now. NULL with e filled.
struct model_profile *heap_progress(struct model_profile *now, struct model_profile *base,
                                    struct arena *arena, struct err *e);
// What was allocated between two of them, and how what is in use changed. NULL with e filled.
struct model_profile *heap_difference(struct model_profile *now, struct model_profile *base,
                                      struct arena *arena, struct err *e);
