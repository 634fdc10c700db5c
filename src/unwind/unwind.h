// The unwinder: from the registers of an interrupted thread to the addresses of its
// stack, inside a signal handler of a foreign process.
//
// Two halves that meet in a snapshot:
//
// - Building (background thread, never a signal handler): unwind_snapshot_build lists the
//   loaded objects, which is cheap. unwind_snapshot_build_tables turns the .eh_frame of those that
//   walks have met into compact tables, kept in memory from mmap and never from malloc.
// - Walking (anywhere, any number of threads at once, signal handlers included):
//   unwind_stack reads one snapshot, the stack, and nothing else. No malloc, no lock, no
//   libc or libgcc, no thread-local variable; errno stays as it was. Handler stack: some 1 KB.
//   Where a module has no table yet, or was loaded after the snapshot, it interprets .eh_frame
//   itself, which costs some 10 us for each new address instead of a few ns.
//
// A snapshot is immutable but for tables, which are added. Publishing it to handlers, and freeing
// the one before when no handler can be in it any more, is the caller's.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "unwind/arch.h"

// Registers by their DWARF numbers, the program counter last: see arch.h.
struct unwind_regs {
    uintptr_t r[UNWIND_REGS];
};

// What a handler was given as its third argument. Signal-safe.
void unwind_regs_from_ucontext(struct unwind_regs *regs, const void *ucontext);

// The caller's own registers, as they are after this call: for samples that are taken
// synchronously (allocations). The first address is that of the function that calls this.
// Registers that a call may destroy are zero.
#define unwind_regs_here(regs) UNWIND_ARCH_REGS_HERE(regs)

// The stack that the thread was given: [lo, hi) is mapped from its stack pointer upwards.
// {0, 0} if it is not known; then the kernel is asked about every page.
struct unwind_stack_bounds {
    uintptr_t lo, hi;
    // The walk makes no system call, because seccomp may kill the thread for one. Only the known
    // stack is read; a walk that needs anything else ends there.
    bool no_calls;
};

// Why a walk ended. Up to UNWIND_END_TRUNCATED the stack is as complete as it was asked to
// be; after that it lacks frames at the root.
enum unwind_end {
    UNWIND_END_ROOT,        // the outermost frame says so, or a return address of zero
    UNWIND_END_TRUNCATED,   // max reached with frames left
    UNWIND_END_UNKNOWN_PC,  // an address in no module of the snapshot: time to build a new one
    UNWIND_END_NO_INFO,     // code without unwind information and no plausible frame pointer
    UNWIND_END_UNSUPPORTED, // information that we cannot follow
    UNWIND_END_UNREADABLE,  // memory that is not mapped
    UNWIND_END_LOOP,        // the stack pointer did not move towards the root
    UNWIND_END_PENDING,     // the table is not built yet, and .eh_frame alone does not serve
    UNWIND_END_COUNT
};

// Static text for a counter's name.
const char *unwind_end_name(enum unwind_end why);

// One thread's memory of addresses met before; makes a frame two to three times cheaper.
// Zeroed at birth, then unwind_stack's alone. A handler may interrupt a walk of the same
// thread that uses the same cache.
#define UNWIND_CACHE_SIZE 512
#define UNWIND_SCRATCH 4096
struct unwind_cache {
    uint64_t generation;
    uint64_t word[UNWIND_CACHE_SIZE][2];
    // Where a walk interprets .eh_frame, and how often it did; without a cache it does not.
    volatile bool looking;
    uint8_t lookups;
    _Alignas(16) uint8_t scratch[UNWIND_SCRATCH];
    struct unwind_regs signal; // of a frame that a signal has interrupted, to spare the stack
};

struct unwind_snapshot;

// Writes at most max addresses, leaf first, and returns how many; at least one if max > 0.
// Each lies within the instruction that was being executed: the interrupted pc itself, for
// callers the return address minus one. So they can be symbolized as they are.
// cache and why may be NULL.
size_t unwind_stack(const struct unwind_snapshot *snapshot, const struct unwind_regs *start,
                    struct unwind_stack_bounds bounds, uintptr_t *pcs, size_t max,
                    struct unwind_cache *cache, enum unwind_end *why);

// One executable mapping. Strings and bytes live as long as the snapshot.
struct unwind_module {
    uintptr_t start, end; // run-time addresses, whole pages
    uintptr_t bias;       // run-time address minus the address in the file
    uint64_t file_offset; // of start
    const char *path;     // absolute where the loader knows it; "[vdso]", "[anon]", ...
    const uint8_t *build_id;
    uint32_t n_build_id; // 0: none
    // NULL: no unwind information; UNWIND_TABLE_PENDING: not built yet.
    _Atomic(const struct unwind_table *) table;
    uintptr_t header; // .eh_frame_hdr in memory; 0: the loader did not say
    size_t n_header;
    uintptr_t limit;      // the end of the segment that holds the header
    uint64_t fingerprint; // of the header
};
#define UNWIND_TABLE_PENDING ((const struct unwind_table *)1)

// Makes a snapshot of what is loaded now: every object that dl_iterate_phdr shows, the vdso,
// and the executable mappings of /proc/self/maps that belong to neither (JIT code). It has the
// tables of modules that are in previous (may be NULL) unchanged; the others are pending. One
// thread at a time; not in a signal handler. NULL with a message in e.
struct unwind_snapshot *unwind_snapshot_build(const struct unwind_snapshot *previous,
                                              struct err *e);
// What walks missed since the last call, as a set.
enum { UNWIND_WANTS_TABLES = 1, UNWIND_WANTS_MODULES = 2 };
unsigned unwind_snapshot_take_wants(const struct unwind_snapshot *snapshot);
// Builds one of the tables that walks have wanted, or of all that are pending. The same thread or
// lock as unwind_snapshot_build; walks may go on meanwhile. False: there is none to build.
bool unwind_snapshot_build_table(const struct unwind_snapshot *snapshot, bool all);
// Whether walks find objects that were loaded after the snapshot (glibc 2.35 and later).
bool unwind_finds_objects(void);
// From now on the loader is not asked: /proc/self/maps and the files say what is loaded. For the
// child of a fork whose parent had other threads: one of them may have had the loader's lock, and
// nobody is left to give it back.
void unwind_avoid_loader(void);
// No walk may use it any more. NULL is legal.
void unwind_snapshot_free(struct unwind_snapshot *snapshot);
// True if objects were loaded or unloaded since. Cheap; takes the loader's lock, so not in a
// signal handler. JIT code is not noticed: that shows as UNWIND_END_UNKNOWN_PC.
bool unwind_snapshot_stale(const struct unwind_snapshot *snapshot);

// Whether both list the same addresses.
bool unwind_snapshot_same_modules(const struct unwind_snapshot *a, const struct unwind_snapshot *b);

// Never 0, and never the same for two snapshots of a process, as addresses may be.
uint64_t unwind_snapshot_generation(const struct unwind_snapshot *snapshot);
// Sorted by address, not overlapping.
const struct unwind_module *unwind_snapshot_modules(const struct unwind_snapshot *snapshot,
                                                    size_t *n);
// The module that holds pc, or NULL. Signal-safe.
const struct unwind_module *unwind_snapshot_find(const struct unwind_snapshot *snapshot,
                                                 uintptr_t pc);
// Bytes of memory that the snapshot and the tables it shares take.
size_t unwind_snapshot_bytes(const struct unwind_snapshot *snapshot);
