// Symbol files of `kiln run`, opened while the program still runs: inflating libc's debug file
// alone takes 25 ms, which would otherwise come after the program has ended. Files stay open for
// all profiles of the run.
#pragma once

#include "cli/harvest.h"
#include "symbol/symbol_profile.h"

struct run_names;

// Starts the thread that opens them. The harvest must outlive it. NULL: no memory or no thread; the
// profiles are then symbolized at the end only.
struct run_names *run_names_start(const struct harvest *h);
// Waits for the thread. From then on the files are the caller's thread's.
void run_names_stop(struct run_names *names);
void run_names_free(struct run_names *names);

// How a run symbolizes. names may be NULL.
struct symbol_profile_options run_names_options(struct run_names *names);
