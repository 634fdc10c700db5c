// A rule straight from .eh_frame, for code whose module has no table yet. Runs in signal handlers.
//
// A lookup takes some 10 us: a binary search in .eh_frame_hdr, then the one FDE is interpreted.
// Every byte is copied by the kernel, because another thread may unload the module meanwhile.
#pragma once

#include "unwind/step.h"

// A stretch of code and its .eh_frame_hdr in memory.
struct lookup_code {
    uintptr_t start, end;
    uintptr_t header;
    size_t n_header;
};

// The rule at pc; UNWIND_NONE where .eh_frame describes nothing. False: it cannot be told now,
// since system calls are forbidden, another lookup of this thread is under way, or the rule needs
// the long form, which only tables have.
bool lookup_rule(struct walk *w, const struct lookup_code *code, uintptr_t pc, unwind_rule *rule);

void lookup_end(struct walk *w);

// Asks the loader which object holds pc, without a lock. False: none, or this loader cannot tell.
bool lookup_object(uintptr_t pc, struct lookup_code *code);
// The loader knows of no object there: if it is code, a JIT compiler made it. False if this loader
// cannot tell.
bool lookup_no_object(uintptr_t pc);
