// A process that loads libraries, starts threads, works for a while and prints its memory use.
//
// usage: resident THREADS SECONDS [LIBRARY...]
//
// Prints kilobytes: resident, anonymous, and mapped executable code.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double seconds;

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// Works about half of the time, so that every thread is sampled even if there are many.
static void *work(void *context)
{
    volatile unsigned sink = 0;
    double until = now(CLOCK_MONOTONIC) + seconds;
    while (now(CLOCK_MONOTONIC) < until) {
        for (unsigned i = 0; i < 100000; i++)
            sink += i * i;
        usleep(1000);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int n = argc > 2 ? (int)strtol(argv[1], NULL, 10) : 0;
    pthread_t threads[1024];
    if (n < 1 || n > 1024) {
        fprintf(stderr, "usage: resident THREADS SECONDS [LIBRARY...]\n");
        return 2;
    }
    seconds = strtod(argv[2], NULL);
    for (int i = 3; i < argc; i++)
        if (!dlopen(argv[i], RTLD_LAZY)) {
            fprintf(stderr, "%s\n", dlerror());
            return 77;
        }
    for (int i = 0; i < n; i++)
        if (pthread_create(&threads[i], NULL, work, NULL))
            return 1;
    usleep((useconds_t)(seconds * 0.9e6));
    unsigned long resident = 0, anonymous = 0, text = 0;
    char line[4096];
    FILE *file = fopen("/proc/self/smaps", "r");
    while (file && fgets(line, sizeof line, file)) {
        // "from-to permissions ..." starts a mapping; "Name: value kB" belongs to it.
        char *rest;
        unsigned long from = strtoul(line, &rest, 16);
        if (*rest == '-') {
            unsigned long to = strtoul(rest + 1, &rest, 16);
            text += rest[3] == 'x' ? (to - from) / 1024 : 0;
        } else if (strncmp(line, "Rss:", 4) == 0) {
            resident += strtoul(line + 4, NULL, 10);
        } else if (strncmp(line, "Anonymous:", 10) == 0) {
            anonymous += strtoul(line + 10, NULL, 10);
        }
    }
    printf("%lu %lu %lu\n", resident, anonymous, text);
    return 0;
}
