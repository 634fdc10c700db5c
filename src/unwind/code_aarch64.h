// aarch64: what the instructions around an address say about a frame, where tables say nothing
// or cannot be believed. Runs in signal handlers; reads code as carefully as stacks.
#pragma once

#include "unwind/step.h"

// Whether a call stands right before an address.
bool code_after_call(struct walk *w, uintptr_t pc);

// Whether the walk's frame is an entry of a procedure linkage table, which nobody describes: the
// link register is the caller's. *push: what the first entry has pushed for the loader.
bool code_in_plt(struct walk *w, const struct unwind_module *m, uintptr_t *push);

// What the instructions that follow say about a frame that nobody describes.
struct code_outlook {
    bool known;     // whether there is a frame record at the frame pointer
    bool record;    // there is, or probably
    bool known_cfa; // cfa is
    uintptr_t cfa;
};
void code_look(struct walk *w, const struct unwind_module *m, struct code_outlook *o);

// The caller of an interrupted function.
struct code_caller {
    uintptr_t pc, sp, bp;
};
// If nothing follows but the restoring of registers and the return. Compilers that describe only
// calls (clang before 15) leave the last instructions out.
bool code_ends(struct walk *w, const struct unwind_module *m, struct code_caller *c);
// If a frame is being made that the table does not know of; the same compilers.
bool code_begins(struct walk *w, const struct unwind_module *m, struct code_caller *c);
