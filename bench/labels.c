// What labels cost: nanoseconds of entering a set and leaving it again, of making one that was
// there already, and CPU time of requests that carry a label each.
//
// usage: labels cost            prints both
//        labels none|with|enter  reads the number of requests to serve, a line at a time, and
//                               answers with the nanoseconds of CPU time that they took: without
//                               a profiler; at 100 Hz, each with a set made by kiln_labels_with;
//                               at 100 Hz, each with a set that was kept
#include <kiln/kiln.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static const char *const endpoints[] = {"/",      "/login", "/search", "/cart",
                                        "/order", "/items", "/status", "/help"};

static uint64_t thread_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// Not the process's CPU clock: that moves by the kernel's tick while ITIMER_PROF runs.
static uint64_t cpu_ns(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000u +
           (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000u;
}

static double best(int times, void (*f)(int))
{
    double least = 1e18;
    for (int round = 0; round < 20; round++) {
        uint64_t before = thread_ns();
        f(times);
        double ns = (double)(thread_ns() - before) / times;
        least = ns < least ? ns : least;
    }
    return least;
}

static kiln_labels kept;

static void set_and_clear(int times)
{
    for (int i = 0; i < times; i++) {
        kiln_labels_enter(kept);
        kiln_labels_enter(0);
    }
}

static void make(int times)
{
    for (int i = 0; i < times; i++)
        kiln_labels_with(0, "endpoint", endpoints[i % 8]);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

// Some hundred microseconds of a service's daily bread, a few calls deep.
static __attribute__((noinline)) uint64_t serve(uint64_t seed)
{
    enum { FIELDS = 1500 };
    static char field[FIELDS][24];
    uint64_t hash = seed;
    for (unsigned i = 0; i < FIELDS; i++)
        snprintf(field[i], sizeof field[i], "key%lu", (unsigned long)(i * (seed | 1) % 9973));
    qsort(field, FIELDS, sizeof field[0], by_text);
    for (unsigned i = 0; i < FIELDS; i++)
        for (const char *c = field[i]; *c; c++)
            hash = (hash ^ (uint8_t)*c) * 0x100000001b3u;
    return hash;
}

static volatile uint64_t sink;

int main(int argc, char **argv)
{
    enum { NONE, WITH, ENTER } mode = NONE;
    struct kiln_error error;
    if (argc != 2) {
        fprintf(stderr, "usage: labels cost|none|with|enter\n");
        return 2;
    }
    mode = strcmp(argv[1], "with") == 0 ? WITH : strcmp(argv[1], "enter") == 0 ? ENTER : NONE;
    if (mode != NONE && (kiln_start(NULL, &error) || kiln_window_begin(&error) < 0)) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    kiln_labels sets[8];
    for (int i = 0; i < 8; i++)
        sets[i] = kiln_labels_with(0, "endpoint", endpoints[i]);
    if (strcmp(argv[1], "cost") == 0) {
        kept = sets[3];
        printf("%.2f %.1f\n", best(2000000, set_and_clear), best(100000, make));
        return 0;
    }
    char line[64];
    for (uint64_t n = 0; fgets(line, sizeof line, stdin);) {
        uint64_t before = cpu_ns();
        for (long left = atol(line); left > 0; left--, n++) {
            kiln_labels had = 0;
            if (mode != NONE)
                had = kiln_labels_enter(mode == ENTER
                                            ? sets[n % 8]
                                            : kiln_labels_with(0, "endpoint", endpoints[n % 8]));
            sink += serve(n);
            if (mode != NONE)
                kiln_labels_enter(had);
        }
        printf("%lu\n", (unsigned long)(cpu_ns() - before));
        fflush(stdout);
    }
    return 0;
}
