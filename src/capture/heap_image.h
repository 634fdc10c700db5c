// The counters of heap sampling, by stack. They live in memory that may be shared with another
// process, so that they survive a crash. There are no pointers in it.
//
// The image consists of blocks of HEAP_BLOCK bytes: the first is a struct heap_head, the others
// hold records. A hook completes a record before it publishes it in the index, and updates its
// counters afterwards; nothing is ever removed. A record has a number: its block (0 is the first
// after the head) << 17 | its offset there / 8. Number 0 means none.
//
// A reader of another process's image must not trust its contents.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define HEAP_MAGIC UINT64_C(0x706165486e6c694b)

enum {
    HEAP_BLOCK = (1 << 20) - 64, // with its header, a journal block is at most 1 MiB
    HEAP_BLOCKS = 25,            // including the head
    HEAP_INDEX = 1 << 17,
    HEAP_MODULES = 4096,
    HEAP_PLACES = 17,      // bits of a record number for the offset in its block
    HEAP_OBJECT = 1 << 16, // object counts are fixed-point, in units of 1 / HEAP_OBJECT
    HEAP_NO_MODULE = UINT16_MAX,
    HEAP_UNRESOLVED = UINT16_MAX - 1,
    HEAP_MAX_FRAMES = 1024,
};

struct heap_head {
    uint64_t magic;
    int64_t time_nanos;        // start of sampling, wall clock
    _Atomic uint64_t interval; // current mean bytes between samples
    _Atomic uint64_t samples;  // number of sampled allocations
    // Estimated bytes in use, current and peak.
    _Atomic int64_t live, peak;
    // Samples missing from the table of live objects because it was full, and the bytes they stand
    // for.
    _Atomic uint64_t untracked, untracked_bytes;
    _Atomic uint64_t stackless; // samples whose stack was not recorded for lack of space
    _Atomic uint64_t nested;    // ignored allocations of handlers that interrupted a hook
    _Atomic uint64_t truncated; // stacks that do not reach the root
    _Atomic uint64_t unseen;    // sampled objects that were freed without a hook
    _Atomic uint32_t n_modules;
    _Atomic uint32_t modules[HEAP_MODULES]; // record numbers of module_records
    _Atomic uint32_t index[HEAP_INDEX];     // record numbers of stacks, a hash table
};
_Static_assert(sizeof(struct heap_head) <= HEAP_BLOCK, "the head fits");

struct heap_stack {
    _Atomic uint64_t alloc_objects, alloc_bytes; // objects: units of 1 / HEAP_OBJECT
    _Atomic int64_t live_objects, live_bytes;
    uint32_t hash;
    uint16_t n;
    uint16_t truncated;
    // Leaf first. An array of n _Atomic uint16_t follows: the module of each address,
    // HEAP_UNRESOLVED until it was looked up.
    uint64_t pcs[];
};
