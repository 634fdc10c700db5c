// The host process: everything that concerns the process as a whole.
//
// - Identity: a child that shares our memory (vfork, CLONE_VM) or was created without libc's fork
//   (_Fork, bare clone) runs our code with our state, but must not change that state.
// - Trust: under AT_SECURE a less privileged user controls the environment.
// - Fork: one ordered list of handlers.
// - process/clock.h, maps.h: time and the memory map; process/own_threads.h: our threads;
//   process/sandbox.h: seccomp; process/libc.h: the libc functions behind our interposers.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attributes.h"
#include "base/err.h"

// The pid of the process that loaded the library, or of a fork's child that ran fork handlers.
pid_t process_pid(void);
// Returns false in a child that shares or copied our memory without running fork handlers. Makes at
// most one system call. Makes none in a confined thread, which counts as ours unless it is known to
// belong to a child. Signal-safe.
bool process_is_us(void);
// Returns whether this is a child with its own copy of our memory that ran no fork handlers (_Fork,
// bare clone). False in a child of vfork, and on kernels without MADV_WIPEONFORK. No system call.
bool process_is_copy(void);

// A child of vfork runs on its parent's thread-local storage, possibly nested. Each child sets one
// of these words when it begins. The kernel clears it when the child leaves our memory, even if a
// signal handler of the parent jumps away when vfork returns.
enum { PROCESS_VFORK_LEVELS = 4 };
extern __thread uint32_t process_vfork_children[PROCESS_VFORK_LEVELS] INITIAL_EXEC;
// How many vfork children deep the calling thread is; 0 in the process itself. No system call.
static inline uint32_t process_vfork_depth(void)
{
    uint32_t depth = PROCESS_VFORK_LEVELS;
    while (depth && !process_vfork_children[depth - 1])
        depth--;
    return depth;
}
// Call it in the caller of vfork: returns the word for the child that is about to begin.
uint32_t *process_vfork_begins(void);

// Returns whether the process has more privileges than its caller (setuid, setgid, file
// capabilities). Then kiln does nothing, whatever the environment says or callers request.
bool process_is_privileged(void);
// Checks whether the profiler may start. Returns -1 and fills e if the process is privileged, or if
// the calling thread is confined and may make none of our system calls.
int process_check_start(struct err *e);
// The only function that reads environment variables inside a host. Returns NULL if the variable is
// not set or the process is privileged.
const char *process_getenv(const char *name);

// Keeps the object that contains this code loaded for good: handlers and thread-exit hooks must
// stay mapped after dlclose of a plugin that contains the library. Takes the loader's lock, so it
// is not signal-safe.
void process_pin_library(void);

// process_before_end calls the hook set by process_on_end. Call it before the process ends without
// running exit handlers. The hook must be signal-safe.
void process_on_end(void (*hook)(void));
void process_before_end(void);

// process_before_trace calls the hook set by process_on_trace. Call it before the calling thread
// asks to be traced: then each of its signals stops it until the tracer, which may expect none,
// continues it. The hook must be signal-safe.
void process_on_trace(void (*hook)(void));
void process_before_trace(void);

// Calls of rt_sigaction that a program makes by libc's syscall() go to this function, if it is set.
// It returns false if the kernel must handle the call; otherwise *result is 0 or a negative error
// number. wanted and old may be invalid. Signal-safe.
struct process_action { // as the kernel has it
    uintptr_t handler;
    unsigned long flags;
    uintptr_t restorer;
    uint64_t mask;
};
typedef bool process_set_action(int signal, const struct process_action *wanted,
                                struct process_action *old, long *result);
void process_on_sigaction(process_set_action *set);
bool process_sigaction(int signal, const struct process_action *wanted, struct process_action *old,
                       long *result);

// --- fork ---

// Locks are taken in this order before a fork and released in reverse order, in whatever order the
// subscribers were registered.
enum process_fork_order {
    PROCESS_FORK_PUSH,
    PROCESS_FORK_ENDPOINTS,
    PROCESS_FORK_COLLECTOR,
    PROCESS_FORK_PRELOAD, // may restart the profiler, so it runs last in the child
    PROCESS_FORK_COUNT
};

struct process_fork_hooks {
    void (*before)(void);
    void (*in_parent)(void);
    // Other threads do not exist here: reset state, and call nothing that may take a lock.
    void (*in_child)(void);
};

// Registers one subscriber's hooks. Call it once, in a constructor: a thread may hold one of the
// subscriber's locks before the subscriber was ever started. hooks must stay valid; members may be
// NULL.
void process_on_fork(enum process_fork_order order, const struct process_fork_hooks *hooks);
