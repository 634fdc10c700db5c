// What the rest of the agent does for heap_sampler (heap.h).
#pragma once

#include "agent/heap/heap_source.h"
#include "capture/heap_capture.h"

// Begins to sample with options of its own; while it samples it is an error.
int heap_sampler_start(const struct capture_heap_options *options, struct err *e);
// libkiln_malloc is there.
void heap_sampler_hooked(void);
// Around fork, after collector_start's lock and before all others.
void heap_sampler_before_fork(void);
void heap_sampler_after_fork_in_parent(void);
void heap_sampler_after_fork_in_child(void);
// Called by the collector some ten times a second.
void heap_sampler_round(void);
// The collector has ended: somebody else has to do its work.
void heap_sampler_keep_up(void);
