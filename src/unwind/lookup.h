// Gets a rule directly from .eh_frame, for code whose module has no table yet. Runs in signal
// handlers.
//
// A lookup takes about 10 us: it searches .eh_frame_hdr and interprets one FDE. The kernel copies
// every byte, because another thread may unload the module meanwhile.
#pragma once

#include "unwind/step.h"

// A range of code and its .eh_frame_hdr in memory.
struct lookup_code {
    uintptr_t start, end;
    uintptr_t header;
    size_t n_header;
};

// Gets the rule at pc; UNWIND_NONE if .eh_frame does not describe it. Returns false if it cannot be
// determined now: system calls are forbidden, the walk has no cache or too many lookups, another
// lookup of this thread is in progress, or the rule uses expressions that need the pool.
bool lookup_rule(struct walk *w, const struct lookup_code *code, uintptr_t pc, unwind_rule *rule);

void lookup_end(struct walk *w);

// Asks the loader, without a lock, which object contains pc. Returns false if there is none or this
// loader cannot tell.
bool lookup_object(uintptr_t pc, struct lookup_code *code);
// Returns true if the loader knows of no object at pc: if it is code, it was JIT-compiled. Returns
// false if this loader cannot tell.
bool lookup_no_object(uintptr_t pc);
