// Distinct stacks with the thread, label set, ids and kind that they were met with. Not
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

// The addresses alone: what threads and requests have in common is kept once.
struct stack_chain {
    uint64_t first; // in pcs
    uint32_t n;
};

struct stack_thread {
    uint32_t serial, tid;
    char name[CAPTURE_NAME]; // the last that it had
};

struct stack {
    uint32_t chain, thread, label;
    uint32_t ids; // index into ids
    uint8_t kind; // enum capture_kind
    bool truncated;
    // The caller's: where it counted this stack last.
    uint32_t counted_in, counted_at;
};

struct stacks {
    struct arena *arena;
    struct stack *items;
    struct stack_chain *chains;
    struct stack_thread *threads;
    struct stack_module *modules;
    struct capture_ids *ids; // the first is none
    uintptr_t *pcs;
    uint16_t *pc_modules; // index into modules; NO_MODULE
    size_t n, n_chains, n_threads, n_modules, n_ids, n_pcs;
    size_t cap, cap_chains, cap_threads, cap_modules, cap_ids, cap_pcs, cap_pc_modules;
    struct hash_table index, chain_index, thread_index, ids_index;
};

enum {
    STACKS_NO_MODULE = UINT16_MAX,
    // The number of a stack that every table has: of what was sampled, or due, and not kept.
    STACKS_DROPPED = 0,
};

void stacks_init(struct stacks *s, struct arena *arena);
// Makes the module that holds pc the first one: the program itself, as readers expect.
void stacks_note_program(struct stacks *s, uintptr_t pc, const struct unwind_snapshot *snapshot);
// The number of the thread; its name becomes the one that it has now.
uint32_t stacks_add_thread(struct stacks *s, const struct capture_sample *sample);
// The number of the sample's stack; addresses are resolved to modules of snapshot when a
// stack is new.
uint32_t stacks_add(struct stacks *s, const struct capture_sample *sample, uint32_t thread,
                    const struct unwind_snapshot *snapshot);

// Adds to the empty table s the stacks i of from with keep[i]; to[i] becomes their new number.
void stacks_copy(struct stacks *s, const struct stacks *from, const bool *keep, uint32_t *to);

// How often the timer expired in a stack, the CPU time that this stands for, and the sum of
// capture_squares.
struct weight {
    uint64_t ticks, ns, squares;
};

// The profile of weights[i] for each stack i < n.
struct model_profile *stacks_profile(const struct stacks *s, const struct weight *weights, size_t n,
                                     uint32_t hz, bool threads, struct arena *arena);
