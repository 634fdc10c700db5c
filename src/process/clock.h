// Time inside a host process: the monotonic clock for waiting and comparing, CPU clocks for what
// threads use. The wall clock may jump, so it only stamps profiles.
#pragma once

#include <pthread.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "process/call.h"

// Makes a direct system call: a program may define its own clock_gettime to simulate time.
static inline uint64_t process_clock_ns(clockid_t clock)
{
    struct timespec ts = {0, 0};
    process_call(SYS_clock_gettime, clock, (long)&ts, 0, 0, 0, 0);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

// Sleeps less than a second; a signal may end the sleep early.
static inline void process_sleep_ns(long ns)
{
    struct timespec pause = {.tv_nsec = ns};
    process_call(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
}

static inline uint64_t process_now_ns(void)
{
    return process_clock_ns(CLOCK_MONOTONIC);
}

// Nanoseconds since 1970, UTC.
static inline int64_t process_wall_ns(void)
{
    return (int64_t)process_clock_ns(CLOCK_REALTIME);
}

// CPU time of the whole process.
static inline uint64_t process_cpu_ns(void)
{
    return process_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

// The clock id of another thread's CPU time.
static inline clockid_t process_thread_clock(pid_t tid)
{
    return (clockid_t)((~(uint32_t)tid << 3) | 6);
}

// CPU time of a thread of this process; 0 if there is no such thread. A thread that has not run yet
// reports 1 ns, to distinguish it from one that has ended.
static inline uint64_t process_thread_cpu_ns(pid_t tid)
{
    struct timespec ts = {0, 0};
    if (process_call(SYS_clock_gettime, process_thread_clock(tid), (long)&ts, 0, 0, 0, 0))
        return 0;
    uint64_t ns = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
    return ns ? ns : 1;
}

// A condition variable with monotonic timeouts. Spurious wakeups are possible.
void process_condition_init(pthread_cond_t *condition);
void process_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t ns);
