// Distinct stacks with the thread, label set and kind that they were met with. Not
// thread-safe. Memory comes from an arena with a limit; running out of it jumps to the
// caller's ARENA_TRY and leaves the table as it was.
#pragma once

#include "capture/capture.h"
#include "model/profile.h"

struct stack_module {
    uintptr_t start, end;
    uint64_t file_offset;
    struct str path;
    struct str build_id; // in hex
};

struct stack {
    uint64_t first; // in pcs
    uint32_t n;
    uint32_t tid, label;
    enum capture_kind kind;
    bool truncated;
    char thread[CAPTURE_NAME];
};

struct stacks {
    struct arena *arena;
    struct stack *items;
    size_t n, cap;
    uintptr_t *pcs;
    uint16_t *pc_modules; // index into modules; NO_MODULE
    size_t n_pcs, cap_pcs, cap_pc_modules;
    struct stack_module *modules;
    size_t n_modules, cap_modules;
    struct hash_table index;
};

enum { STACKS_NO_MODULE = UINT16_MAX };

void stacks_init(struct stacks *s, struct arena *arena);
// Makes the module that holds pc the first one: the program itself, as readers expect.
void stacks_note_program(struct stacks *s, uintptr_t pc, const struct unwind_snapshot *snapshot);
// The number of the sample's stack; addresses are resolved to modules of snapshot when a
// stack is new.
uint32_t stacks_add(struct stacks *s, const struct capture_sample *sample,
                    const struct unwind_snapshot *snapshot);

// What a stack was met with: how often the timer expired, and the CPU time of that.
struct weight {
    uint64_t ticks, ns;
};

// The profile of weights[i] for each stack i < n.
struct model_profile *stacks_profile(const struct stacks *s, const struct weight *weights, size_t n,
                                     uint32_t hz, struct arena *arena);
