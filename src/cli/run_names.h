// Opens symbol files for `kiln run` while the program runs: decompressing libc's debug file alone
// takes 25 ms, which would otherwise delay the end. Files stay open for all profiles of the run.
#pragma once

#include "cli/harvest.h"
#include "symbol/symbol_profile.h"

struct run_names;

// Starts the thread that opens them. The harvest must outlive it. Returns NULL without memory or
// thread; then profiles are symbolized at the end only.
struct run_names *run_names_start(const struct harvest *h);
// Waits for the thread. Afterwards the files belong to the caller's thread.
void run_names_stop(struct run_names *names);
void run_names_free(struct run_names *names);

// The options for symbolizing profiles of the run. names may be NULL.
struct symbol_profile_options run_names_options(struct run_names *names);
