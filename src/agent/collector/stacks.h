// A table of distinct stacks, each with its thread, label set, ids and kind. Not thread-safe. Its
// memory comes from an arena with a limit. Running out jumps to the caller's ARENA_TRY and leaves
// the table consistent.
#pragma once

#include "capture/capture.h"
#include "model/profile.h"

struct stack_module {
    uintptr_t start, end;
    uint64_t file_offset;
    struct str path;
    struct str build_id; // in hex
};

// The addresses alone; stored once for all threads and requests.
struct stack_chain {
    uint64_t first; // index into pcs
    uint32_t n;
};

struct stack_thread {
    uint32_t serial, tid;
    char name[CAPTURE_NAME]; // its latest name
};

struct stack {
    uint32_t chain, thread, label;
    uint32_t ids; // index into ids
    uint8_t kind; // enum capture_kind
    bool truncated;
    // For the caller: where it last counted this stack.
    uint32_t counted_in, counted_at;
};

struct stacks {
    struct arena *arena;
    struct stack *items;
    struct stack_chain *chains;
    struct stack_thread *threads;
    struct stack_module *modules;
    struct capture_ids *ids; // the first entry means none
    uintptr_t *pcs;
    uint16_t *pc_modules; // index into modules, or STACKS_NO_MODULE
    size_t n, n_chains, n_threads, n_modules, n_ids, n_pcs;
    size_t cap, cap_chains, cap_threads, cap_modules, cap_ids, cap_pcs, cap_pc_modules;
    struct hash_table index, chain_index, thread_index, ids_index;
};

enum {
    STACKS_NO_MODULE = UINT16_MAX,
    // Every table has this entry: samples and ticks whose stack was not kept.
    STACKS_DROPPED = 0,
};

void stacks_init(struct stacks *s, struct arena *arena);
// Makes the program's own module, which contains pc, the first one: readers expect that.
void stacks_add_program(struct stacks *s, uintptr_t pc, const struct unwind_snapshot *snapshot);
// Returns the thread's number, and updates its name.
uint32_t stacks_add_thread(struct stacks *s, const struct capture_sample *sample);
// Returns the number of the sample's stack. Resolves the addresses of a new stack to modules of
// snapshot.
uint32_t stacks_add(struct stacks *s, const struct capture_sample *sample, uint32_t thread,
                    const struct unwind_snapshot *snapshot);

// Copies stacks i of `from` with keep[i] to the empty table s; to[i] becomes the new number.
void stacks_copy(struct stacks *s, const struct stacks *from, const bool *keep, uint32_t *to);

// Ticks in a stack, the CPU time they stand for, and the sum of their capture_squares.
struct weight {
    uint64_t ticks, ns, squares;
};

// Builds a profile with weights[i] for each stack i < n.
struct model_profile *stacks_profile(const struct stacks *s, const struct weight *weights, size_t n,
                                     uint32_t hz, bool threads, struct arena *arena);
