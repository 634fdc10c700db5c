// The thread scanner; internal to the module.
#pragma once

#include <stdbool.h>

// Arms threads that started, disarms threads that ended, credits ticks to threads that block the
// signal, and looks up stack bounds. whole: does all of it now; otherwise as much as the budget of
// one call allows.
void scan_threads(bool whole);
void scan_after_fork_in_child(void);
