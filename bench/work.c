// CPU-bound work of several kinds, in units of some milliseconds.
//
// usage: work KIND
// Reads the number of units to run, one line at a time. Answers with the nanoseconds they took: CPU
// time of all threads, and wall-clock time.
//
// Loads real libraries at run time; exits with 77 if one is missing. A second thread sleeps, as in
// a service: once a process is multithreaded, glibc leaves its single-thread fast paths. `alone` is
// `allocation` without the second thread.
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static uint64_t wall_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
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

static volatile uint64_t sink;

static void integers(void)
{
    uint64_t x = sink;
    for (int i = 0; i < 2000000; i++)
        x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u + (uint64_t)i;
    sink = x;
}

// Walks through 16 MiB in an order that no prefetcher predicts.
static void chase(void)
{
    enum { N = 1 << 18 };
    static struct cell {
        uint32_t next, other[15];
    } * cells;
    if (!cells) {
        cells = calloc(N, sizeof *cells);
        uint32_t *order = malloc(N * sizeof *order);
        if (!cells || !order)
            exit(1);
        for (uint32_t i = 0; i < N; i++)
            order[i] = i;
        for (uint32_t i = N - 1; i > 0; i--) {
            uint32_t k = (uint32_t)rand() % (i + 1), t = order[i];
            order[i] = order[k];
            order[k] = t;
        }
        for (uint32_t i = 0; i < N; i++)
            cells[order[i]].next = order[(i + 1) % N];
        free(order);
    }
    uint32_t at = (uint32_t)sink % N;
    for (int i = 0; i < 100000; i++)
        at = cells[at].next;
    sink = at;
}

static __attribute__((noinline)) unsigned fibonacci(unsigned n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2) + (unsigned)(sink & 1);
}

static __attribute__((noinline)) unsigned deep(unsigned depth)
{
    return depth == 0 ? fibonacci(24) : deep(depth - 1) + (unsigned)(sink & 1);
}

static void recursion(void)
{
    for (unsigned i = 0; i < 20; i++)
        sink += deep(60);
}

static void allocation(void)
{
    enum { N = 1024 };
    static void *block[N];
    uint64_t x = sink | 1;
    for (int i = 0; i < 100000; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        size_t k = x >> 54;
        free(block[k]);
        block[k] = malloc(16 + (x >> 32) % 600);
        *(char *)block[k] = 1;
    }
    sink = x;
}

static void *symbol(const char *library, const char *name)
{
    void *handle = dlopen(library, RTLD_NOW);
    void *found = handle ? dlsym(handle, name) : NULL;
    if (!found) {
        fprintf(stderr, "%s\n", dlerror());
        exit(77);
    }
    return found;
}

static void sqlite(void)
{
    static void *db;
    static int (*run)(void *, const char *, void *, void *, char **);
    if (!run) {
        int (*start)(const char *, void **);
        *(void **)&start = symbol("libsqlite3.so.0", "sqlite3_open");
        *(void **)&run = symbol("libsqlite3.so.0", "sqlite3_exec");
        if (start(":memory:", &db))
            exit(1);
        run(db, "create table t(a integer primary key, b text, c int)", NULL, NULL, NULL);
        run(db,
            "with recursive n(i) as (select 1 union all select i + 1 from n where i < 4000) "
            "insert into t select i, hex(i * 7919), i % 97 from n",
            NULL, NULL, NULL);
    }
    if (run(db, "select c, count(*), max(b) from t where b like '%3%' group by c order by 3", NULL,
            NULL, NULL))
        exit(1);
}

static void lzma(void)
{
    enum { N = 1 << 16 };
    static uint8_t text[N], out[2 * N];
    static int (*encode)(uint32_t, int, void *, const uint8_t *, size_t, uint8_t *, size_t *,
                         size_t);
    if (!encode) {
        *(void **)&encode = symbol("liblzma.so.5", "lzma_easy_buffer_encode");
        for (int i = 0; i < N; i++)
            text[i] = (uint8_t) "etaoin shrdlu"[rand() % 13];
    }
    size_t n = 0;
    if (encode(1, 1, NULL, text, N, out, &n, sizeof out))
        exit(1);
    sink += n;
}

static void alone(void)
{
    allocation();
}

static void *sleep_on(void *context)
{
    for (;;)
        pause();
    return context;
}

static const struct {
    const char *name;
    void (*unit)(void);
} kinds[] = {
    {"integers", integers},     {"pointers", chase}, {"recursion", recursion},
    {"allocation", allocation}, {"sqlite", sqlite},  {"lzma", lzma},
    {"alone", alone},
};

int main(int argc, char **argv)
{
    void (*unit)(void) = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (argc > 1 && strcmp(argv[1], kinds[i].name) == 0)
            unit = kinds[i].unit;
    if (!unit) {
        fprintf(stderr, "usage: work integers|pointers|recursion|allocation|sqlite|lzma|alone\n");
        return 2;
    }
    pthread_t thread;
    if (unit != alone && pthread_create(&thread, NULL, sleep_on, NULL))
        return 1;
    unit();
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        uint64_t cpu = cpu_ns(), wall = wall_ns();
        for (long n = strtol(line, NULL, 10); n > 0; n--)
            unit();
        printf("%lu %lu\n", (unsigned long)(cpu_ns() - cpu), (unsigned long)(wall_ns() - wall));
        fflush(stdout);
    }
    return 0;
}
