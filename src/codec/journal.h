// The journal keeps the samples of a profiled process for `kiln run`, however the process dies. It
// is memory shared by both: the process writes it (agent/journal.c), and the command reads it after
// the process died or while it runs.
//
// The memory is one unlinked file. It begins with a struct journal_file. Each profiled process has
// one part of JOURNAL_PART bytes, which is mostly sparse. A part is a struct journal_part followed
// by blocks up to its `used`. Blocks hold rings of samples that were not collected yet (struct
// ring) and records of collected samples. The writer first writes data and then updates the
// counters, so a part is consistent whenever its process stops.
//
// The reader trusts nothing in a part, because a corrupted process may have written it.
#pragma once

#include <stdatomic.h>

#include "capture/capture.h"
#include "capture/module_record.h"
#include "capture/ring.h"
#include "codec/codec.h"

#define JOURNAL_MAGIC UINT64_C(0x6e75526e6c694b01)

enum {
    JOURNAL_VERSION = 4,
    JOURNAL_PARTS = 4096,
    JOURNAL_NOTES = 32,
    JOURNAL_FILE_SIZE = 1 << 20, // offset of the first part
    JOURNAL_PART = 512 << 20,
    JOURNAL_BLOCK = 64 << 10,              // size of a block of records
    JOURNAL_STACK_MAX = CAPTURE_MAX_DEPTH, // frames
    JOURNAL_NAME = 64,
};

// Events that the user should know about and that only the process can see.
enum journal_note_kind {
    JOURNAL_NOTE_STATIC = 1,  // exec of a statically linked program
    JOURNAL_NOTE_SETUID,      // exec of a program that gains privileges
    JOURNAL_NOTE_FOREIGN,     // exec of a program for another architecture or C library
    JOURNAL_NOTE_ENVIRONMENT, // exec with an environment that lacks kiln's variables
    JOURNAL_NOTE_FAILED,      // the profiler could not start; text says why
    JOURNAL_NOTE_LIMITS,      // exec under memory limits that leave no room for the library
};

struct journal_note {
    _Atomic uint32_t kind; // 0: not written yet
    uint32_t pid;
    char text[248];
};

struct journal_file {
    uint64_t magic;
    uint32_t version;
    uint32_t n_parts;  // at most JOURNAL_PARTS
    uint64_t token[2]; // must equal the token in the process's environment; else the file is not
                       // its journal
    // refused: processes that found no free part. n_notes: notes requested, including dropped ones.
    _Atomic uint32_t refused, n_notes;
    struct journal_note notes[JOURNAL_NOTES];
    // The owner of each part: process id in the low half, low half of its start time above. 0:
    // free.
    _Atomic uint64_t owner[JOURNAL_PARTS];
};

// Counters of struct capture_counts. The unit is ticks unless noted.
struct journal_counts {
    uint64_t ticks, samples, ring_full, no_snapshot, blocked, unticked, truncated /* stacks */,
        threads, no_slot /* threads */;
};

struct journal_part {
    uint64_t magic;
    uint32_t version;
    uint32_t pid;
    uint32_t hz;
    uint32_t follow; // the run follows several processes: label samples with theirs
    int64_t time_nanos;
    _Atomic uint64_t duration_nanos;
    _Atomic uint64_t used;      // offset from the beginning of the part
    _Atomic uint64_t collected; // number of stacks
    // Ticks, and their nanoseconds, whose stacks did not fit.
    _Atomic uint64_t dropped, dropped_nanos;
    _Atomic uint64_t own_nanos;   // CPU time of kiln's own threads as of the last drain
    struct journal_counts counts; // as of the last drain
    char program[JOURNAL_NAME];
};

// JOURNAL_HEAP holds one block of the heap sampling image (capture/heap_image.h), its head first.
enum journal_block_kind { JOURNAL_FILLER, JOURNAL_RING, JOURNAL_RECORDS, JOURNAL_HEAP };

// Header of each block. The contents are aligned to 64 bytes.
struct journal_block {
    uint32_t kind;
    uint32_t size;         // includes this header
    _Atomic uint32_t used; // of JOURNAL_RECORDS: offset of the end of the records in the block
    uint32_t unused[13];
};

enum journal_record_kind { JOURNAL_MODULE = 1, JOURNAL_LABELS, JOURNAL_THREAD, JOURNAL_STACK };

// Header of each record. size includes it and is a multiple of eight.
struct journal_record {
    uint32_t kind, size;
};

// Modules are numbered from 0 in the order of their records.
struct journal_module {
    struct journal_record head;
    struct module_record module;
};

// The labels of a set. Each label is two uint32_t lengths and the bytes of key and value. The
// record is padded to eight bytes.
struct journal_labels {
    struct journal_record head;
    uint32_t set, n;
    uint32_t data[];
};

// Threads are identified by serial number, because the kernel reuses thread ids. name is the latest
// one.
struct journal_thread {
    struct journal_record head;
    uint32_t serial, tid;
    char name[16];
};

enum { JOURNAL_NO_MODULE = UINT16_MAX };

struct journal_stack {
    struct journal_record head;
    _Atomic uint64_t ticks, nanos, squares; // squares: see capture_squares
    uint32_t thread, label;                 // thread is a serial number
    uint64_t ids[3];                        // struct capture_ids; all zero: none
    uint8_t kind;                           // enum capture_kind
    uint8_t truncated;
    uint16_t n;
    uint32_t unused;
    uint64_t pcs[]; // followed by n uint16_t: the module of each pc
};

// Returns a profile of the CPU time that no sample covers, for merging with the others. Samples are
// missing while the loader runs before libkiln, or if the process ends with a raw system call. like
// provides period, time and duration. The profile lives in arena.
struct model_profile *codec_journal_rest(struct arena *arena, const struct model_profile *like,
                                         int64_t nanos);

// Reads the part whose first n bytes are at data. data must be a copy, because the process may
// still be writing. rings: include the samples that were not collected yet; a live process may be
// collecting them at the same time. Sets *n_rings (may be NULL) to their number. Returns NULL with
// e filled on failure.
struct model_profile *codec_read_journal(struct arena *arena, const uint8_t *data, size_t n,
                                         bool rings, uint64_t *n_rings, struct err *e);
