// What heap sampling has counted, stack by stack, in memory that may be shared with another
// process, which then has it however this one ends. There is no pointer in it.
//
// Blocks of HEAP_BLOCK bytes: the first is a struct heap_head, the others hold records. Hooks add
// a record, complete, before the index names it, and count in it afterwards; nothing is ever
// removed. A record is known by a number: its block (0 is the first after the head) << 17 | its
// place there / 8; 0 is none.
//
// Whoever reads the image of another process trusts nothing in it.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define HEAP_MAGIC UINT64_C(0x706165486e6c694b)

enum {
    HEAP_BLOCK = (1 << 20) - 64, // a journal's block, with its head, is no longer than 1 MiB
    HEAP_BLOCKS = 25,            // with the head
    HEAP_INDEX = 1 << 17,
    HEAP_MODULES = 4096,
    HEAP_PLACES = 17,      // bits of a number that say where in the block
    HEAP_OBJECT = 1 << 16, // objects are counted in parts of this
    HEAP_NO_MODULE = UINT16_MAX,
    HEAP_UNRESOLVED = UINT16_MAX - 1,
    HEAP_MAX_FRAMES = 1024,
};

struct heap_head {
    uint64_t magic;
    int64_t time_nanos;        // when sampling began
    _Atomic uint64_t interval; // mean bytes between samples, now
    _Atomic uint64_t samples;  // allocations sampled
    // Estimates of the bytes in use, now and at the most.
    _Atomic int64_t live, peak;
    // Samples whose end cannot be seen, for want of room, and the bytes that they stand for.
    _Atomic uint64_t untracked, untracked_bytes;
    _Atomic uint64_t stackless; // samples whose stack could not be kept
    _Atomic uint64_t nested;    // not taken: in a handler that interrupted one
    _Atomic uint64_t truncated; // stacks that do not reach the root
    _Atomic uint64_t unseen;    // objects that ended without our knowledge
    _Atomic uint32_t n_modules;
    _Atomic uint32_t modules[HEAP_MODULES]; // numbers of module_records
    _Atomic uint32_t index[HEAP_INDEX];     // of stacks, by hash
};
_Static_assert(sizeof(struct heap_head) <= HEAP_BLOCK, "the head fits");

struct heap_stack {
    _Atomic uint64_t alloc_objects, alloc_bytes; // objects in parts of HEAP_OBJECT
    _Atomic int64_t live_objects, live_bytes;
    uint32_t hash;
    uint16_t n;
    uint16_t truncated;
    // Leaf first; then as many _Atomic uint16_t: the modules that they are in, HEAP_UNRESOLVED
    // until somebody has looked.
    uint64_t pcs[];
};
