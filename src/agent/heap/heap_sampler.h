// heap_sampler's interface for the rest of the agent; see also heap_source.h.
#pragma once

#include "agent/heap/heap_source.h"
#include "capture/heap_capture.h"

// Starts sampling with these options. Fails if sampling is on already.
int heap_sampler_start(const struct capture_heap_options *options, struct err *e);
// libkiln_malloc is loaded.
void heap_sampler_hooked(void);
// Fork handlers. The lock comes after the collector's start_stop_lock and heap_windows' lock, and
// before all others.
void heap_sampler_before_fork(void);
void heap_sampler_after_fork_in_parent(void);
void heap_sampler_after_fork_in_child(void);
// The collector calls this about ten times per second.
void heap_sampler_round(void);
// Takes over the background work after the collector has stopped.
void heap_sampler_start_thread(void);
