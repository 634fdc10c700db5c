// Threads that use known amounts of CPU time, each in its own function.
//
// usage: threads N SECONDS
// SECONDS is the total CPU time. Thread i gets 1 + i % 4 parts of it.
//
// Prints a line `index pthread tid nanoseconds address` for each thread, then `total nanoseconds`
// of the process. The address is that of the thread's function, which ends before the next one's.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 64 };

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline __attribute__((always_inline)) void burn(uint64_t until)
{
    volatile unsigned sink = 0;
    do
        for (unsigned i = 0; i < 3000; i++)
            sink += i * i;
    while (cpu_ns() < until);
}

#define SHARE(i)                                                                \
    static __attribute__((noipa, aligned(4096))) void share_##i(uint64_t until) \
    {                                                                           \
        burn(until);                                                            \
    }
#define EIGHT(M, t) M(t##0) M(t##1) M(t##2) M(t##3) M(t##4) M(t##5) M(t##6) M(t##7)
#define ALL(M)  \
    EIGHT(M, 1) \
    EIGHT(M, 2) EIGHT(M, 3) EIGHT(M, 4) EIGHT(M, 5) EIGHT(M, 6) EIGHT(M, 7) EIGHT(M, 8)
ALL(SHARE)
#define NAME(i) share_##i,
static void (*const shares[MOST])(uint64_t) = {ALL(NAME)};

static struct thread {
    pthread_t thread;
    int index;
    pid_t tid;
    uint64_t wanted, used;
} threads[MOST];

static void *run(void *context)
{
    struct thread *t = context;
    t->tid = gettid();
    shares[t->index](t->wanted);
    t->used = cpu_ns();
    return NULL;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0, parts = 0;
    if (argc != 3 || n < 1 || n > MOST) {
        fprintf(stderr, "usage: threads N SECONDS, N from 1 to %d\n", MOST);
        return 2;
    }
    for (int i = 0; i < n; i++)
        parts += 1 + i % 4;
    for (int i = 0; i < n; i++) {
        threads[i].index = i;
        threads[i].wanted = (uint64_t)(strtod(argv[2], NULL) * 1e9 * (1 + i % 4) / parts);
        if (pthread_create(&threads[i].thread, NULL, run, &threads[i]))
            return 1;
    }
    for (int i = 0; i < n; i++)
        pthread_join(threads[i].thread, NULL);
    for (int i = 0; i < n; i++)
        printf("%d %lu %d %lu %lu\n", i, (unsigned long)threads[i].thread, (int)threads[i].tid,
               (unsigned long)threads[i].used, (unsigned long)(uintptr_t)shares[i]);
    // Not the process's CPU clock, which advances by kernel ticks while ITIMER_PROF runs.
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    printf("total %ld\n", (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000 +
                              (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000);
    return 0;
}
