// aarch64: infers frames from the instructions around an address, where tables have no information
// or cannot be trusted. Runs in signal handlers; code is read with the same checks as stacks.
#pragma once

#include "unwind/step.h"

// Returns whether a call instruction ends at pc.
bool code_after_call(struct walk *w, uintptr_t pc);

// Returns whether the walk's frame is in a PLT entry, which has no unwind information: the link
// register is the caller's. *push: bytes that the first entry has pushed for the loader.
bool code_in_plt(struct walk *w, const struct unwind_module *m, uintptr_t *push);

// What the following instructions reveal about a frame without unwind information.
struct code_hints {
    bool known;     // whether there is a frame record at the frame pointer is known
    bool record;    // there is one, or there probably is
    bool known_cfa; // cfa is valid
    uintptr_t cfa;
};
void code_scan(struct walk *w, const struct unwind_module *m, struct code_hints *o);

// The caller of an interrupted function.
struct code_caller {
    uintptr_t pc, sp, bp;
};
// Returns true if only restoring of registers and the return follow. Compilers that describe only
// call sites (clang before 15) omit epilogues.
bool code_ends(struct walk *w, const struct unwind_module *m, struct code_caller *c);
// Returns true in a prologue that the table omits; for the same compilers.
bool code_begins(struct walk *w, const struct unwind_module *m, struct code_caller *c);
