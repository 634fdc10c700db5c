// Allocations only, in units of 100,000.
//
// usage: alloc tight|mixed|deep
// Reads the number of units to run, one line at a time. Answers with the nanoseconds of CPU time
// they took.
//
// tight: objects of 64 bytes, freed immediately. mixed: 16 to 1024 bytes, freed in a different
// order, some thousand alive. deep: 1024 bytes, freed immediately, twenty calls deep. A second
// thread sleeps, as in a service.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { UNIT = 100000, ALIVE = 4096, DEPTH = 20 };

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void tight(void)
{
    for (int i = 0; i < UNIT; i++) {
        void *p = malloc(64);
        __asm__ volatile("" : "+r"(p) : : "memory");
        free(p);
    }
}

static void mixed(void)
{
    static void *alive[ALIVE];
    static uint64_t x = 88172645463325252u;
    for (int i = 0; i < UNIT; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        void **p = &alive[x % ALIVE];
        free(*p);
        *p = malloc(16 + (x >> 32) % 1009);
    }
}

static __attribute__((noinline)) void deep(int depth)
{
    if (depth > 0) {
        deep(depth - 1);
        __asm__ volatile("" : : : "memory");
        return;
    }
    for (int i = 0; i < UNIT; i++) {
        void *p = malloc(1024);
        __asm__ volatile("" : "+r"(p) : : "memory");
        free(p);
    }
}

static void *sleeper(void *context)
{
    for (;;)
        pause();
    return context;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "";
    char line[64];
    pthread_t thread;
    if (pthread_create(&thread, NULL, sleeper, NULL))
        return 1;
    while (fgets(line, sizeof line, stdin)) {
        long units = strtol(line, NULL, 10);
        uint64_t before = cpu_ns();
        for (long i = 0; i < units; i++) {
            if (strcmp(kind, "tight") == 0)
                tight();
            else if (strcmp(kind, "mixed") == 0)
                mixed();
            else
                deep(DEPTH);
        }
        printf("%llu\n", (unsigned long long)(cpu_ns() - before));
        fflush(stdout);
    }
    return 0;
}
