// Starts the profiler's own threads: all signals but SIGPROF blocked, named "kiln", registered and
// counted. Once the program has a handler for SIGPROF, they block that as well
// (own_threads_block_sigprof). Registered threads can be parked, and they do not keep the process
// alive.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attributes.h"
#include "base/err.h"

// Whether the calling thread is one of ours. It must not handle signals sent to the program.
extern __thread bool own_thread_is_caller INITIAL_EXEC;
// Whether the calling thread has its own descriptor table.
extern __thread bool own_thread_has_files INITIAL_EXEC;

enum own_thread_flags {
    OWN_THREAD_DETACHED = 1, // nobody joins the thread
    // The thread gets its own empty descriptor table: descriptors that it opens never take numbers
    // that the program expects, and the program cannot close them. Not for threads that use
    // descriptors opened by others.
    OWN_THREAD_FILES = 2,
};
// Starts a thread that calls run(context). `what` completes "cannot start a thread" in error
// messages, as in "that pushes profiles". Returns -1 and fills e on failure. Begin a change first
// (own_threads_begin_change).
int own_thread_start(pthread_t *thread, void *(*run)(void *context), void *context, unsigned flags,
                     const char *what, struct err *e);

#define OWN_THREAD_NAME "kiln"

// Sets a function that each of our threads calls when it starts.
void own_threads_on_start(void (*started)(void));
// Number of our threads that have not called it yet, including those about to be created.
uint32_t own_threads_starting(void);
// Calls visit for each of our running threads.
void own_threads_visit(void (*visit)(void *context, pid_t tid), void *context);

// Gives the calling thread its own descriptor table that contains only keep; -1: none. Returns
// false if the kernel cannot (before Linux 5.9); the thread then shares the program's table.
bool own_thread_unshare_files(int keep);

// Returns whether the program's last thread has ended and only our threads remain. The process must
// then end as it would have without us. *status: how the main thread ended, as reported by wait.
bool own_threads_are_alone(int *status);

// Makes our threads block SIGPROF, because the program has installed a handler for it. If one of
// ours took a SIGPROF sent to the process, a program thread in sigsuspend or epoll_pwait could
// return EINTR before its handler has run. Sends each running thread of ours a SIGPROF for which
// own_thread_is_asked_to_block returns true. Signal-safe.
void own_threads_block_sigprof(void);
bool own_thread_is_asked_to_block(const siginfo_t *info);

// Whether a thread of this process is one of ours. Signal-safe.
bool own_thread_is(pid_t tid);

// CPU time of our running threads; threads that have ended are not included.
uint64_t own_threads_cpu_ns(void);

// Ends the process from one of our threads as libc and the kernel would have done it. status is the
// main thread's.
_Noreturn void own_thread_end_process(int status);

// Blocks the calling thread while our threads are parked. Each thread calls this where it holds no
// lock, at least whenever it wakes up.
void own_thread_park_point(void);
// Returns whether threads are asked to park; then end a wait.
bool own_threads_parking(void);
// Registers a function that wakes up a thread so that it reaches its park point. It need not be
// signal-safe.
void own_threads_on_park(void (*wake)(void));
// Put these around code that starts or joins our threads. If own_threads_begin_change returns
// false, our threads are parked or about to be: do not start or join any, and do not call
// own_threads_end_change.
bool own_threads_begin_change(void);
void own_threads_end_change(void);
// Parks all our threads after pending changes have ended. Until own_threads_release none of our
// threads makes a system call. Returns false if some did not reach a park point in time.
bool own_threads_park(void);
void own_threads_release(void);

void own_threads_after_fork_in_child(void);
