// The in-process product: one collector that is always on, and windows over it.
//
// A background thread drains the capture room ten times a second into distinct stacks.
// Whoever wants a profile opens a window and closes it; any number may be open at once, and
// the last two minutes can be had without having asked before. Nobody is told "already
// profiling".
//
// Every function here may be called from any thread, none from a signal handler. Nothing here
// ends the process: what runs out of memory is counted as dropped.
#pragma once

#include "capture/capture.h"
#include "model/profile.h"

enum { AGENT_WINDOWS = 64 };

struct agent_options {
    uint32_t hz;    // 0: 100
    uint32_t depth; // 0: 128
    size_t memory;  // for stacks and counts; 0: 32 MiB
};

int agent_start(const struct agent_options *options, struct err *e);
void agent_stop(void);
bool agent_running(void);

// The number of an open window, or -1 with e filled.
int agent_window_open(struct err *e);
// What was sampled since it was opened, as a profile in arena: addresses, mappings and build
// ids, no names. Closes the window. NULL with e filled.
struct model_profile *agent_window_close(int window, struct arena *arena, struct err *e);
// Closes it without a profile.
void agent_window_cancel(int window);

struct agent_counts {
    struct capture_counts capture;
    uint64_t dropped; // ticks for which there was no memory
    uint64_t stacks;  // distinct ones held
    size_t memory;    // that they take
};
void agent_get_counts(struct agent_counts *counts);

// --- labels ---

// A label set is immutable and known by its number; 0 is the empty one. Sets live as long as
// the process. agent_label_add gives the set that is base with key=value (replacing key's
// value if it has one); 0 if there is no memory.
uint32_t agent_label_add(uint32_t base, struct str key, struct str value);
uint32_t agent_label_remove(uint32_t base, struct str key);
// Adds the labels of set to the sample under construction.
struct model_builder;
void agent_label_build(uint32_t set, struct model_builder *b);
