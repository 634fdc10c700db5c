// What a profiled process leaves to `kiln run`, however it dies: samples in memory that both
// share, written by the process (agent/journal.c) and read by the command when it is dead, or
// while it lives.
//
// The memory is one file without a name. It begins with a struct journal_file; the processes that
// are profiled have a part each, JOURNAL_PART bytes long and mostly not there. A part is a
// struct journal_part and then blocks, one after the other up to its `used`: rings of samples that
// nobody has collected yet (struct ring), and records of what was collected. Whoever writes adds
// first and counts afterwards, so a part makes sense whenever its process stops.
//
// The reader trusts nothing in a part: it was written by a process that may have gone wrong.
#pragma once

#include <stdatomic.h>

#include "capture/capture.h"
#include "capture/module_record.h"
#include "capture/ring.h"
#include "codec/codec.h"

#define JOURNAL_MAGIC UINT64_C(0x6e75526e6c694b01)

enum {
    JOURNAL_VERSION = 3,
    JOURNAL_PARTS = 4096,
    JOURNAL_NOTES = 32,
    JOURNAL_FILE_SIZE = 1 << 20, // where the first part begins
    JOURNAL_PART = 512 << 20,
    JOURNAL_BLOCK = 64 << 10,              // of records
    JOURNAL_STACK_MAX = CAPTURE_MAX_DEPTH, // frames
    JOURNAL_NAME = 64,
};

// Something that the user should know and that only the process saw.
enum journal_note_kind {
    JOURNAL_NOTE_STATIC = 1,  // it became a statically linked program
    JOURNAL_NOTE_SETUID,      // or one with more rights than it has
    JOURNAL_NOTE_FOREIGN,     // or one of another architecture or C library
    JOURNAL_NOTE_ENVIRONMENT, // or one with an environment that lacks ours
    JOURNAL_NOTE_FAILED,      // the profiler could not start: text says why
};

struct journal_note {
    _Atomic uint32_t kind; // 0: not written yet
    uint32_t pid;
    char text[248];
};

struct journal_file {
    uint64_t magic;
    uint32_t version;
    uint32_t n_parts;  // up to JOURNAL_PARTS
    uint64_t token[2]; // as the process was told; another file is not for it
    // How many processes found no part free; how many notes were wanted, kept or not.
    _Atomic uint32_t refused, n_notes;
    struct journal_note notes[JOURNAL_NOTES];
    // Whose each part is: the process id, and above it the low half of its start time. 0: nobody's.
    _Atomic uint64_t owner[JOURNAL_PARTS];
};

// As struct capture_counts; in ticks unless it says otherwise.
struct journal_counts {
    uint64_t ticks, samples, ring_full, no_snapshot, blocked, unticked, truncated /* stacks */,
        threads, no_slot /* threads */;
};

struct journal_part {
    uint64_t magic;
    uint32_t version;
    uint32_t pid;
    uint32_t hz;
    uint32_t follow; // it is one of several
    int64_t time_nanos;
    _Atomic uint64_t duration_nanos;
    _Atomic uint64_t used;      // bytes from the part's beginning
    _Atomic uint64_t collected; // stacks
    // Ticks, and their nanoseconds, for whose stacks there was no room.
    _Atomic uint64_t dropped, dropped_nanos;
    _Atomic uint64_t own_nanos;   // CPU time of kiln's own threads, as of the last drain
    struct journal_counts counts; // likewise
    char program[JOURNAL_NAME];
};

// JOURNAL_HEAP: a block of the image of heap sampling (capture/heap_image.h), the head first.
enum journal_block_kind { JOURNAL_FILLER, JOURNAL_RING, JOURNAL_RECORDS, JOURNAL_HEAP };

// In front of each block; its contents are aligned to 64 bytes.
struct journal_block {
    uint32_t kind;
    uint32_t size;         // with this
    _Atomic uint32_t used; // of records: bytes from the block's beginning
    uint32_t unused[13];
};

enum journal_record_kind { JOURNAL_MODULE = 1, JOURNAL_LABELS, JOURNAL_THREAD, JOURNAL_STACK };

// Records begin with their kind and their size, which is a multiple of eight.
struct journal_record {
    uint32_t kind, size;
};

// Numbered from 0 as they come.
struct journal_module {
    struct journal_record head;
    struct module_record module;
};

// The labels of a set: for each two lengths (uint32_t) and the bytes of key and value, all of it
// padded to eight bytes.
struct journal_labels {
    struct journal_record head;
    uint32_t set, n;
    uint32_t data[];
};

// A thread is known by its serial number: the kernel's come again. The name is the last it had.
struct journal_thread {
    struct journal_record head;
    uint32_t serial, tid;
    char name[16];
};

enum { JOURNAL_NO_MODULE = UINT16_MAX };

struct journal_stack {
    struct journal_record head;
    _Atomic uint64_t ticks, nanos, squares; // squares: of capture_squares
    uint32_t thread, label;                 // thread: its serial number
    uint64_t ids[3];                        // struct capture_ids; all zero: none
    uint8_t kind;                           // enum capture_kind
    uint8_t truncated;
    uint16_t n;
    uint32_t unused;
    uint64_t pcs[]; // then as many uint16_t: the modules that they are in
};

// CPU time of a process that no sample covers, as a profile to be merged with the others: the
// loader ran before libkiln, or the process ended by a bare system call.
struct model_profile *codec_journal_rest(struct arena *arena, const struct model_profile *like,
                                         int64_t nanos);

// The profile of the part whose first n bytes are at data: a copy, since the process may still be
// writing. rings: with the samples that were not collected yet, which a process that lives may
// be collecting right now. *n_rings (may be NULL) is how many those are. NULL with e filled.
struct model_profile *codec_read_journal(struct arena *arena, const uint8_t *data, size_t n,
                                         bool rings, uint64_t *n_rings, struct err *e);
