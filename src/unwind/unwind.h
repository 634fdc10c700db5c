// The unwinder: turns the registers of an interrupted thread into the addresses of its stack,
// inside a signal handler of the host process.
//
// It has two parts that share a snapshot:
//
// - Building (background thread, never a signal handler): unwind_snapshot_build lists the loaded
//   objects, which is cheap. unwind_snapshot_build_table turns the .eh_frame of modules that walks
//   have met into compact tables, in memory from mmap rather than malloc.
// - Walking (anywhere, by any number of threads at once, including signal handlers): unwind_stack
//   reads one snapshot and the stack. It calls no malloc, libc or libgcc, takes no lock, and uses
//   no thread-local variable; errno is preserved. Stack use in a handler: about 1 KB. If a module
//   has no table yet, or was loaded after the snapshot, the walk interprets .eh_frame itself, which
//   costs about 10 us per new address instead of a few ns.
//
// A snapshot is immutable except that tables are added. The caller publishes it to handlers, and
// frees the previous one when no handler uses it any more.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "unwind/arch.h"

// Registers by DWARF number, the program counter last: see arch.h.
struct unwind_regs {
    uintptr_t r[UNWIND_REGS];
};

// ucontext is the third argument of a signal handler. Signal-safe.
void unwind_regs_from_ucontext(struct unwind_regs *regs, const void *ucontext);

// Gets the calling function's registers as they are after this call, for synchronous samples
// (allocations). The first address is in the calling function. Call-clobbered registers are zero.
#define unwind_regs_here(regs) UNWIND_ARCH_REGS_HERE(regs)

// The thread's own stack: [lo, hi) is mapped from the stack pointer upwards. {0, 0} if unknown;
// then the kernel is asked about each page.
struct unwind_stack_bounds {
    uintptr_t lo, hi;
    // Make no system calls, because seccomp may kill the thread for one. Only the known stack is
    // read; if the walk needs anything else, it ends.
    bool no_calls;
};

// Why a walk ended. Up to UNWIND_END_TRUNCATED the stack is as complete as requested; otherwise it
// lacks frames at the root.
enum unwind_end {
    UNWIND_END_ROOT,        // the outermost frame is marked as such, or a return address is zero
    UNWIND_END_TRUNCATED,   // max reached before the root
    UNWIND_END_UNKNOWN_PC,  // an address in no module of the snapshot: build a new one
    UNWIND_END_NO_INFO,     // code without unwind information and no plausible frame pointer
    UNWIND_END_UNSUPPORTED, // unwind information that we cannot interpret
    UNWIND_END_UNREADABLE,  // memory that is not mapped
    UNWIND_END_LOOP,        // the stack pointer did not move towards the root
    UNWIND_END_PENDING,     // the table is not built yet, and .eh_frame alone is not enough
    UNWIND_END_COUNT
};

// Returns a static string, used as a counter name.
const char *unwind_end_name(enum unwind_end why);

// One thread's cache of rules by address; makes a frame two to three times cheaper. Zero it once,
// then only unwind_stack uses it. A handler may interrupt a walk of the same thread that uses the
// same cache.
#define UNWIND_CACHE_SIZE 512
#define UNWIND_SCRATCH 4096
struct unwind_cache {
    uint64_t generation;
    uint64_t word[UNWIND_CACHE_SIZE][2];
    // Whether a walk is interpreting .eh_frame, and how many lookups the current walk has made.
    // Walks without a cache make none.
    volatile bool looking;
    uint8_t lookups;
    _Alignas(16) uint8_t scratch[UNWIND_SCRATCH];
    struct unwind_regs signal; // registers of a frame interrupted by a signal, to save stack space
    // A copy of a page that another thread may unmap, and its address; 0: none. The current walk's.
    volatile uintptr_t copied;
    uint8_t page[4096];
};

struct unwind_snapshot;

// Writes at most max addresses, leaf first, and returns their number; at least 1 if max > 0. Each
// address lies within the instruction being executed: the interrupted pc itself, and the return
// address minus one for callers, so they can be symbolized as they are. cache and why may be NULL.
// Signal-safe.
size_t unwind_stack(const struct unwind_snapshot *snapshot, const struct unwind_regs *start,
                    struct unwind_stack_bounds bounds, uintptr_t *pcs, size_t max,
                    struct unwind_cache *cache, enum unwind_end *why);

// One executable mapping. Its strings live as long as the snapshot.
struct unwind_module {
    uintptr_t start, end; // run-time addresses, whole pages
    uintptr_t bias;       // run-time address minus address in the file
    uint64_t file_offset; // of start
    const char *path;     // absolute if known; "[vdso]", "[anon]", ...
    const uint8_t *build_id;
    uint32_t n_build_id; // 0: no build id
    // NULL: no unwind information; UNWIND_TABLE_PENDING: not built yet.
    _Atomic(const struct unwind_table *) table;
    uintptr_t header; // .eh_frame_hdr in memory; 0: unknown
    size_t n_header;
    uintptr_t limit;      // end of the segment that contains the header
    uint64_t fingerprint; // hash of the beginning of the header
};
#define UNWIND_TABLE_PENDING ((const struct unwind_table *)1)

// Makes a snapshot of what is loaded now: all objects of dl_iterate_phdr, the vdso, and executable
// mappings of /proc/self/maps that belong to neither (JIT code). Modules unchanged since previous
// (may be NULL) keep their tables; the other tables are pending. Calls must not overlap, and must
// not be in a signal handler. Returns NULL and fills e on failure.
struct unwind_snapshot *unwind_snapshot_build(const struct unwind_snapshot *previous,
                                              struct err *e);
// Returns what walks have missed since the last call, as a bit set.
enum { UNWIND_WANTS_TABLES = 1, UNWIND_WANTS_MODULES = 2 };
unsigned unwind_snapshot_take_wants(const struct unwind_snapshot *snapshot);
// Builds one of the tables that walks requested; with all, one of those pending. Use the same
// thread or lock as for unwind_snapshot_build; walks may run meanwhile. Returns false if there is
// none to build.
bool unwind_snapshot_build_table(const struct unwind_snapshot *snapshot, bool all);
// Returns whether walks can find objects loaded after the snapshot (glibc 2.35 and later).
bool unwind_finds_objects(void);
// From now on, use /proc/self/maps and files instead of asking the loader. For the child of a fork
// whose parent had other threads: one of them may have held the loader's lock, which would never be
// released.
void unwind_avoid_loader(void);
// No walk may use the snapshot any more. May be NULL.
void unwind_snapshot_free(struct unwind_snapshot *snapshot);
// Returns true if objects were loaded or unloaded since. Cheap; takes the loader's lock, so do not
// call it in a signal handler. It does not notice JIT code, which shows as UNWIND_END_UNKNOWN_PC.
bool unwind_snapshot_stale(const struct unwind_snapshot *snapshot);

// Returns whether both have the same address ranges.
bool unwind_snapshot_same_modules(const struct unwind_snapshot *a, const struct unwind_snapshot *b);

// Never 0, and unique per process; a snapshot's address may be reused.
uint64_t unwind_snapshot_generation(const struct unwind_snapshot *snapshot);
// Returns the modules, sorted by address and not overlapping.
const struct unwind_module *unwind_snapshot_modules(const struct unwind_snapshot *snapshot,
                                                    size_t *n);
// Returns the module that contains pc, or NULL. Signal-safe.
const struct unwind_module *unwind_snapshot_find(const struct unwind_snapshot *snapshot,
                                                 uintptr_t pc);
// Returns the memory used by the snapshot and its shared tables.
size_t unwind_snapshot_bytes(const struct unwind_snapshot *snapshot);
