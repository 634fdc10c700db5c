// The one way to start a thread of the profiler's own: all signals blocked but SIGPROF, named
// "kiln", registered and counted. Once the program has a handler for SIGPROF, that is blocked too
// (own_threads_block_sigprof). Registered threads can be parked, and they are the ones that do not
// keep a process alive.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attributes.h"
#include "base/err.h"

// Whether the calling thread is one of them: signals that are meant for the program are not for it.
extern __thread bool own_thread_is_caller INITIAL_EXEC;

enum own_thread_flags {
    OWN_THREAD_DETACHED = 1, // nobody joins it
    // It has a table of descriptors of its own, empty at first: what it opens never takes a number
    // that the program expects, and what the program closes is never its. For threads that use
    // nothing that others have opened.
    OWN_THREAD_FILES = 2,
};
// Starts run(context). what: "that does this"; -1 with e filled.
int own_thread_start(pthread_t *thread, void *(*run)(void *context), void *context, unsigned flags,
                     const char *what, struct err *e);

// Gives the calling thread a descriptor table of its own, with nothing in it but keep (-1:
// nothing). False if the kernel cannot (before Linux 5.9): then it shares the program's.
bool own_thread_take_files(int keep);

// Whether the program's last thread has ended and only ours are left: then the process must end as
// it would have without us. *status: how the first thread ended, as wait reports it.
bool own_threads_are_alone(int *status);

// Makes our threads block SIGPROF, because the program has installed a handler for it. If one of
// them took a SIGPROF that was sent to the process, a program thread in sigsuspend or epoll_pwait
// could return EINTR before its handler has run. Sends each running thread a SIGPROF for which
// own_thread_is_asked_to_block is true. Signal-safe.
void own_threads_block_sigprof(void);
bool own_thread_is_asked_to_block(const siginfo_t *info);

// CPU time that our threads have used, without those that have ended.
uint64_t own_threads_cpu_ns(void);

// Ends the process from one of our threads, as libc and the kernel would have done: status is the
// first thread's.
_Noreturn void own_thread_end_process(int status);

// Each thread calls this at a point where it holds no lock, at least when it was woken. It blocks
// there while the threads are parked.
void own_thread_park_point(void);
// Whether threads are asked to park: a reason to end a wait.
bool own_threads_parking(void);
// wake gets a thread out of its wait so that it comes to its park point; signal-safe is not needed.
void own_threads_on_park(void (*wake)(void));
// Around what starts or stops our threads. False: they are about to be parked, or are, and it must
// not be done.
bool own_threads_begin_change(void);
void own_threads_end_change(void);
// Parks all our threads, once nobody starts or stops any; false if some did not come to their park
// points in time. Nothing of ours makes a system call until own_threads_release.
bool own_threads_park(void);
void own_threads_release(void);

void own_threads_after_fork_in_child(void);
