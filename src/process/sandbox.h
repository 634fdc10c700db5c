// Programs that confine themselves with seccomp mean their own system calls, not ours. We see the
// filter before the kernel gets it and ask it what would happen to the calls that we make: if none
// is fatal, nothing changes. Otherwise, from the moment the filter is in force, nothing of ours
// makes a system call in the threads concerned.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What a filter would do, for any arguments.
struct sandbox_verdict {
    bool kills_handler; // returning from a signal handler is fatal: the thread must not be sampled
    bool kills_calls;   // one of the calls that the profiler makes is fatal
    bool kills_wait;    // waiting for another thread (futex) is fatal
    bool kills_leaving; // so is what stops the profiler, without any file
    bool again;         // the caller was confined before: nothing but that may be done
};

struct sandbox_instruction { // struct sock_filter
    uint16_t code;
    uint8_t jt, jf;
    uint32_t k;
};
void sandbox_ask_filter(const struct sandbox_instruction *program, size_t n,
                        struct sandbox_verdict *verdict);

enum sandbox_scope {
    SANDBOX_FREE,
    SANDBOX_SOME_THREADS, // at least one thread, so no handler makes system calls
    SANDBOX_ALL_THREADS,  // ours included
};
extern _Atomic uint32_t sandbox_scope_now;
// Of the process. Signal-safe.
static inline enum sandbox_scope sandbox_scope(void)
{
    return (enum sandbox_scope)atomic_load_explicit(&sandbox_scope_now, memory_order_relaxed);
}
// Whether the calling thread may make no system calls on our behalf. Signal-safe. A thread that a
// confined one starts through pthread_create inherits it: sandbox_inherit.
bool sandbox_confines_caller(void);
// The same, but waiting on a futex is allowed.
bool sandbox_lets_caller_wait(void);

// A child of vfork is about to begin on the calling thread's storage, this many deep.
void sandbox_child_begins(uint32_t depth);

struct sandbox_inheritance {
    bool confined, may_wait, may_leave;
};
struct sandbox_inheritance sandbox_of_caller(void);
void sandbox_inherit(struct sandbox_inheritance from);

// Called before a filter that is fatal to us is installed. all: for all threads, after which none
// of ours runs on. May use system calls still, in the calling thread.
typedef void sandbox_hook(const struct sandbox_verdict *verdict, bool all);
// And when that failed: everything goes on as before.
typedef void sandbox_undo(void);
void sandbox_on_confinement(sandbox_hook *before, sandbox_undo *failed);

// A call that is about to confine the caller, or all threads.
struct sandbox_request {
    bool strict;         // strict mode; otherwise program is the caller's struct sock_fprog
    bool all;            // all threads
    bool gives_listener; // success is a descriptor, not 0
    const void *program;
    bool no_handlers; // not even the return from a signal handler is allowed
    long call[6];     // the system call's number and its arguments
};
// Makes the call. The result is the kernel's: negative error numbers.
long sandbox_enter(const struct sandbox_request *request);
