// Handles programs that confine themselves with seccomp: they restrict their own system calls and
// do not expect ours. We see a filter before the kernel does, and evaluate it for each system call
// that we make. If none is fatal, nothing changes. Otherwise, once the filter is installed, our
// code makes no system calls in the threads it confines.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What a filter would do, whatever the arguments.
struct sandbox_verdict {
    bool kills_handler; // returning from a handler is fatal: do not sample the thread
    bool kills_calls;   // a system call that the profiler makes is fatal
    bool kills_wait;    // waiting for another thread (futex) is fatal
    bool kills_leaving; // a system call needed to stop the profiler, without files, is fatal
    bool again;         // the caller was confined before: do only what a confined thread may do
};

struct sandbox_instruction { // same layout as struct sock_filter
    uint16_t code;
    uint8_t jt, jf;
    uint32_t k;
};
void sandbox_evaluate_filter(const struct sandbox_instruction *program, size_t n,
                             struct sandbox_verdict *verdict);
// Adds a system call that the profiler will make in its current configuration: from now on, a
// filter that kills on it is fatal. The calls of every configuration are known.
void sandbox_expect_call(uint32_t call);

enum sandbox_scope {
    SANDBOX_FREE,
    SANDBOX_SOME_THREADS, // at least one thread is confined, so no handler makes system calls
    SANDBOX_ALL_THREADS,  // including ours
};
extern _Atomic uint32_t sandbox_scope_now;
// The scope of the process. Signal-safe.
static inline enum sandbox_scope sandbox_scope(void)
{
    return (enum sandbox_scope)atomic_load_explicit(&sandbox_scope_now, memory_order_relaxed);
}
// Returns whether our code must make no system calls in the calling thread. Signal-safe. A thread
// created by pthread_create inherits this from its creator: sandbox_inherit.
bool sandbox_confines_caller(void);
// Returns whether our code may wait on a futex in the calling thread, confined or not.
bool sandbox_caller_may_wait(void);

// Call it before a vfork whose child is at this depth and uses the calling thread's storage.
void sandbox_child_begins(uint32_t depth);

struct sandbox_inheritance {
    bool confined, may_wait, may_leave;
};
struct sandbox_inheritance sandbox_of_caller(void);
void sandbox_inherit(struct sandbox_inheritance from);

// Called before a filter that is fatal to us is installed. all: for all threads; none of our
// threads runs afterwards. The hook may still make system calls in the calling thread.
typedef void sandbox_hook(const struct sandbox_verdict *verdict, bool all);
// Called if installing the filter failed: continue as before.
typedef void sandbox_undo(void);
void sandbox_on_confinement(sandbox_hook *before, sandbox_undo *failed);

// A system call that is about to confine the caller or all threads.
struct sandbox_request {
    bool strict;         // strict mode; otherwise program points to the caller's struct sock_fprog
    bool all;            // all threads
    bool gives_listener; // success is a descriptor rather than 0
    const void *program;
    bool no_handlers; // even returning from a signal handler is forbidden
    long call[6];     // system call number and arguments
};
// Makes the system call. Returns the kernel's result: negative error numbers.
long sandbox_enter(const struct sandbox_request *request);
