// The tables of heap sampling, as the hooks use them. All functions are signal-safe but
// heap_drop_image, which no other thread may run beside.
#pragma once

#include <sys/types.h>

#include "capture/capture.h"
#include "capture/heap_capture.h"

// Live objects are kept in tables, each four times as large as the one before. A larger one is used
// only if the smaller ones have no free place. An address may be in HEAP_WINDOW places of each.
enum {
    HEAP_LEVELS = 5,
    HEAP_WINDOW = 16,
    HEAP_FIRST_LEVEL = 2048,
    HEAP_SCRATCHES = 64,
    HEAP_STACK = 16384
};

struct heap_level {
    uint32_t n;              // number of places, a power of two; HEAP_WINDOW more follow
    _Atomic uint32_t used;   // places that were ever used
    _Atomic uintptr_t *keys; // 0: never used; HEAP_GONE: freed; HEAP_COMING: being written
    struct capture_heap_object *objects;
};
#define HEAP_GONE ((uintptr_t)1)
#define HEAP_COMING ((uintptr_t)2)

// Memory for one sample that is too large for the stack. While busy, its user also reads the unwind
// tables.
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
    struct heap_head *head; // NULL if never started
    char *blocks[HEAP_BLOCKS - 1];
    uint32_t n_blocks;
    _Atomic uint64_t used; // bytes of the blocks: block << 20 | offset
    uint32_t no_stack;     // record number for samples without a stack
    bool shared;           // the image is in shared memory
    bool inherited;        // a child of fork inherited the image inside a hook; leave_hook drops it
    struct heap_level levels[HEAP_LEVELS];
    struct heap_scratch *scratches;
    uint32_t n_scratches; // a power of two up to HEAP_SCRATCHES
};
extern struct heap_tables heap_tables;

// Returns the record with this number, or NULL if there is none.
static inline void *heap_record(uint32_t number)
{
    uint32_t block = number >> HEAP_PLACES;
    return number && block < heap_tables.n_blocks
               ? heap_tables.blocks[block] + (size_t)(number & ((1u << HEAP_PLACES) - 1)) * 8
               : NULL;
}

// Forgets the image and all samples.
void heap_drop_image(void);

// Reserves a zeroed record and returns its number; 0 if there is no space.
uint32_t heap_reserve(size_t bytes);
// Returns the number of the stack's record, adding one if needed; heap_tables.no_stack if there is
// no space.
uint32_t heap_find_stack(const uintptr_t *pcs, size_t n, bool truncated);
bool heap_insert(uintptr_t address, const struct capture_heap_object *object);
bool heap_remove(uintptr_t address, struct capture_heap_object *object);

// Returns a random gap with this mean, at least 1. Advances *random.
uint64_t heap_gap(uint64_t *random, uint64_t mean);
// Returns 1 - exp(-x) for x > 0.
double heap_chance(double x);
