// Measures the cost of labels: nanoseconds to enter and leave a set, nanoseconds to push and pop a
// known set, and CPU time of requests with labels.
//
// usage: labels cost                    prints both
//        labels none|enter|push|trace   reads the number of requests to serve, one line at a time,
//                                       and answers with the nanoseconds of CPU time they took
//
// none runs without a profiler. The others run at 100 Hz. Each request has a cached set (enter), a
// set that is pushed and popped (push), or a cached set and its own trace id (trace).
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

// Not the process's CPU clock, which advances by kernel ticks while ITIMER_PROF runs.
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

static void push_and_pop(int times)
{
    for (int i = 0; i < times; i++)
        kiln_labels_pop(kiln_labels_push("endpoint", endpoints[i % 8]));
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

// Typical work of a service: some hundred microseconds, a few calls deep.
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

static kiln_labels sets[8];

static uint64_t serve_kept(uint64_t n)
{
    kiln_labels outer_labels = kiln_labels_enter(sets[n % 8]);
    uint64_t result = serve(n);
    kiln_labels_enter(outer_labels);
    return result;
}

static uint64_t serve_pushed(uint64_t n)
{
    kiln_labels outer_labels = kiln_labels_push("endpoint", endpoints[n % 8]);
    uint64_t result = serve(n);
    kiln_labels_pop(outer_labels);
    return result;
}

static uint64_t serve_traced(uint64_t n)
{
    uint64_t trace[2] = {n, ~n};
    kiln_set_trace((const unsigned char *)trace, (const unsigned char *)&n);
    uint64_t result = serve_kept(n);
    kiln_set_trace(NULL, NULL);
    return result;
}

static const struct {
    const char *name;
    uint64_t (*serve)(uint64_t n);
} modes[] = {
    {"none", serve}, {"enter", serve_kept}, {"push", serve_pushed}, {"trace", serve_traced}};

int main(int argc, char **argv)
{
    uint64_t (*request)(uint64_t n) = NULL;
    for (int i = 0; i < 4; i++)
        if (argc == 2 && strcmp(argv[1], modes[i].name) == 0)
            request = modes[i].serve;
    if (!request && (argc != 2 || strcmp(argv[1], "cost") != 0)) {
        fprintf(stderr, "usage: labels cost|none|enter|push|trace\n");
        return 2;
    }
    struct kiln_error error;
    if (request && request != serve &&
        (kiln_start(NULL, &error) || kiln_window_begin(&error) < 0)) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    for (int i = 0; i < 8; i++)
        sets[i] = kiln_labels_with(0, "endpoint", endpoints[i]);
    if (!request) {
        kept = sets[3];
        printf("%.2f %.1f\n", best(2000000, set_and_clear), best(100000, push_and_pop));
        return 0;
    }
    static volatile uint64_t sink;
    char line[64];
    for (uint64_t n = 1; fgets(line, sizeof line, stdin);) {
        uint64_t before = cpu_ns();
        for (long left = strtol(line, NULL, 10); left > 0; left--)
            sink += request(n++);
        printf("%lu\n", (unsigned long)(cpu_ns() - before));
        fflush(stdout);
    }
    return 0;
}
