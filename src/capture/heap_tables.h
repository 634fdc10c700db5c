// The tables of heap sampling, as hooks see them. Everything here is signal-safe.
#pragma once

#include <sys/types.h>

#include "capture/capture.h"
#include "capture/heap_capture.h"

// What is live, in tables of which each is four times the one before: the next is touched when
// there is no room in those before it. An address has HEAP_WINDOW places in each.
enum {
    HEAP_LEVELS = 5,
    HEAP_WINDOW = 16,
    HEAP_FIRST_LEVEL = 2048,
    HEAP_SCRATCHES = 64,
    HEAP_STACK = 16384
};

struct heap_level {
    uint32_t n;              // places, a power of two, and HEAP_WINDOW more behind them
    _Atomic uint32_t used;   // ever
    _Atomic uintptr_t *keys; // 0: never used; HEAP_GONE: was used; HEAP_COMING: is being filled
    struct capture_heap_object *objects;
};
#define HEAP_GONE ((uintptr_t)1)
#define HEAP_COMING ((uintptr_t)2)

// What a sample needs that the stack is too small for. Busy: somebody is in it, and in the
// unwind tables.
struct heap_scratch {
    _Atomic uint32_t busy;
    struct unwind_regs regs;
    struct unwind_cache cache;
    uintptr_t pcs[CAPTURE_MAX_DEPTH];
    char text[4096];
    _Alignas(16) char stack[HEAP_STACK]; // to walk on: see heap_hook.c
};

struct heap_tables {
    _Atomic uint32_t active;
    _Atomic uint64_t interval;
    _Atomic uint64_t seed;
    uint32_t depth;
    pid_t pid;
    struct heap_head *head; // NULL: never started
    char *blocks[HEAP_BLOCKS - 1];
    uint32_t n_blocks;
    _Atomic uint64_t used; // bytes of the blocks: number << 20 | place
    uint32_t no_stack;     // the record of samples without a stack
    bool shared;           // the image is not ours alone
    bool inherited;        // by a child of fork, which drops it when its thread leaves the hooks
    struct heap_level levels[HEAP_LEVELS];
    struct heap_scratch *scratches;
};
extern struct heap_tables heap_tables;

// A record that number names; NULL: none.
static inline void *heap_record(uint32_t number)
{
    uint32_t block = number >> HEAP_PLACES;
    return number && block < heap_tables.n_blocks
               ? heap_tables.blocks[block] + (size_t)(number & ((1u << HEAP_PLACES) - 1)) * 8
               : NULL;
}

// Forgets the image and everything that was sampled.
void heap_drop_image(void);

// Room for a record of bytes, zeroed; 0 if there is none.
uint32_t heap_reserve(size_t bytes);
// The number of the stack of pcs, new if need be; heap_tables.no_stack if there is no room.
uint32_t heap_find_stack(const uintptr_t *pcs, size_t n, bool truncated);
bool heap_insert(uintptr_t address, const struct capture_heap_object *object);
bool heap_remove(uintptr_t address, struct capture_heap_object *object);

// A random gap with that mean: 1 or more.
uint64_t heap_gap(uint64_t *random, uint64_t mean);
// 1 - exp(-x), x > 0.
double heap_chance(double x);
