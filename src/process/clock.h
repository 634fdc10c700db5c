// Time as the library measures it inside a host process: the monotonic clock for everything that
// waits or compares, CPU clocks for what threads used. The wall clock only stamps profiles; it may
// jump, so nothing waits on it.
#pragma once

#include <pthread.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "process/call.h"

// Straight from the kernel: a program may define clock_gettime itself, to simulate time.
static inline uint64_t process_clock_ns(clockid_t clock)
{
    struct timespec ts = {0, 0};
    process_call(SYS_clock_gettime, clock, (long)&ts, 0, 0, 0, 0);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

// A signal ends it early.
static inline void process_sleep_ns(long ns)
{
    struct timespec pause = {.tv_nsec = ns};
    process_call(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
}

static inline uint64_t process_now_ns(void)
{
    return process_clock_ns(CLOCK_MONOTONIC);
}

// Nanoseconds since 1970.
static inline int64_t process_wall_ns(void)
{
    return (int64_t)process_clock_ns(CLOCK_REALTIME);
}

// CPU time of the whole process.
static inline uint64_t process_cpu_ns(void)
{
    return process_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

// The kernel's clock of another thread's CPU time.
static inline clockid_t process_thread_clock(pid_t tid)
{
    return (clockid_t)((~(uint32_t)tid << 3) | 6);
}

// CPU time of a thread of this process; 0 if there is no such thread. A thread that has not run yet
// has used 1 ns, which tells it from one that is gone.
static inline uint64_t process_thread_cpu_ns(pid_t tid)
{
    struct timespec ts = {0, 0};
    if (process_call(SYS_clock_gettime, process_thread_clock(tid), (long)&ts, 0, 0, 0, 0))
        return 0;
    uint64_t ns = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
    return ns ? ns : 1;
}

// A condition variable whose timeouts are monotonic. Waits end early as any wait may.
void process_condition_init(pthread_cond_t *condition);
void process_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t ns);
