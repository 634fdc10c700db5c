// The process we live in: the only code that deals with it. Everything above asks here.
//
// - Who we are: a child that shares our memory (vfork, CLONE_VM) or was made behind libc's back
//   (_Fork, bare clone) runs our code with our state, but it is not us and must not change it.
// - What we may believe: under AT_SECURE the environment belongs to somebody with fewer rights.
// - One ordered list of what happens around fork.
// - process/clock.h, maps.h: time and the memory map; process/own_threads.h: our threads;
//   process/sandbox.h: seccomp; process/libc.h: the libc functions behind our interposers.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attributes.h"
#include "base/err.h"

// The process that loaded the library, or the child of a fork that ran its handlers.
pid_t process_pid(void);
// False in a child that runs on our memory or a copy of it without having gone through fork().
// At most one system call, and none in a confined thread, which is taken for one of ours unless it
// is known to be a child's. Signal-safe.
bool process_is_us(void);
// Whether this is a child with its own copy of our memory that ran no fork handler: of _Fork or of
// a bare clone. False in a child of vfork, and where the kernel cannot tell. No system call.
bool process_is_copy(void);

// Children of vfork run on the thread-local storage of their parent, one in the other. Each sets a
// word of these when it begins, and the kernel clears it when the child leaves our memory: also
// where a signal handler in the parent jumps away as vfork returns.
enum { PROCESS_VFORK_LEVELS = 4 };
extern __thread uint32_t process_vfork_children[PROCESS_VFORK_LEVELS] INITIAL_EXEC;
// How many such children deep the calling thread is; 0 in the process itself. No system call.
static inline uint32_t process_vfork_depth(void)
{
    uint32_t depth = PROCESS_VFORK_LEVELS;
    while (depth && !process_vfork_children[depth - 1])
        depth--;
    return depth;
}
// In the caller of vfork: the word of the child that is about to begin.
uint32_t *process_vfork_begins(void);

// Whether the process runs with more rights than its caller (setuid, setgid, file capabilities).
// Then kiln does nothing at all: not what the environment says, and not what callers ask for.
bool process_is_privileged(void);
// 0, or -1 with e filled if the process is privileged, or the calling thread confined so that it
// may make no system call of ours.
int process_check_start(struct err *e);
// The only way to read an environment variable inside a host. NULL if it is not set, or if the
// process is privileged.
const char *process_getenv(const char *name);

// Keeps the object that contains this code in memory for good: handlers and thread-exit hooks
// must stay mapped when a plugin that carries the library is closed. Not signal-safe; takes the
// loader's lock.
void process_pin_library(void);

// What is done before the process ends without running exit handlers. Signal-safe.
void process_on_end(void (*hook)(void));
void process_before_end(void);

// --- fork ---

// Before a fork, locks are taken in this order and given back in the opposite one, whatever order
// the parts started in.
enum process_fork_order {
    PROCESS_FORK_PUSH,
    PROCESS_FORK_ENDPOINTS,
    PROCESS_FORK_COLLECTOR,
    PROCESS_FORK_PRELOAD, // may start the profiler again, so in the child it comes last
    PROCESS_FORK_COUNT
};

struct process_fork_hooks {
    void (*before)(void);
    void (*in_parent)(void);
    // Other threads do not exist here: reset state, call nothing that may take a lock.
    void (*in_child)(void);
};

// Once per part, in a constructor: a thread may hold a part's lock before the part was ever
// started. hooks must stay valid. Any member may be NULL.
void process_on_fork(enum process_fork_order order, const struct process_fork_hooks *hooks);
