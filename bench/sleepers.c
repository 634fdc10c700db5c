// Many sleeping threads, and some that start and end: the cost of starting and joining a thread,
// and the CPU time of the profiler's own threads.
//
// usage: sleepers N SECONDS
// Starts N sleeping threads. Waits SECONDS, then starts and joins 1,000 threads per second for
// SECONDS.
//
// Prints `threads N`, `idle SHARE`, `churn SHARE` (CPU seconds per second of threads named kiln),
// `resident KILOBYTES`, and a line `joins NANOSECONDS...` with the time of each start and join.
#include <dirent.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_OWN = 8, STACK = 32 << 10, PER_SECOND = 1000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static int own[MOST_OWN], n_own;

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec ts = {0, 0};
    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void *sleep_on(void *context)
{
    pthread_mutex_lock(&lock);
    while (n_own >= 0)
        pthread_cond_wait(&never, &lock);
    return context;
}

static void *return_at_once(void *context)
{
    return context;
}

// Finds the profiler's threads while there are few threads to list.
static void find_own(void)
{
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *e; tasks && (e = readdir(tasks));) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", e->d_name);
        FILE *file = e->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (!file)
            continue;
        if (fgets(name, sizeof name, file) && strcmp(name, "kiln\n") == 0 && n_own < MOST_OWN)
            own[n_own++] = (int)strtol(e->d_name, NULL, 10);
        fclose(file);
    }
    closedir(tasks);
}

static uint64_t own_cpu_ns(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < n_own; i++)
        sum += clock_ns((clockid_t)((~(uint32_t)own[i] << 3) | 6));
    return sum;
}

static long resident_kilobytes(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%*d %ld", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static uint64_t start_and_join(const pthread_attr_t *attributes)
{
    pthread_t thread;
    uint64_t begin = clock_ns(CLOCK_MONOTONIC);
    if (pthread_create(&thread, attributes, return_at_once, NULL) || pthread_join(thread, NULL))
        exit(1);
    return clock_ns(CLOCK_MONOTONIC) - begin;
}

int main(int argc, char **argv)
{
    int n = argc > 2 ? (int)strtol(argv[1], NULL, 10) : 0,
        seconds = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0, made = 0;
    if (seconds < 1) {
        fprintf(stderr, "usage: sleepers N SECONDS\n");
        return 2;
    }
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_attr_setguardsize(&attributes, 0); // saves a mapping per thread
    usleep(100000);
    find_own();
    for (pthread_t thread; made < n; made++)
        if (pthread_create(&thread, &attributes, sleep_on, NULL))
            break;
    sleep(2);
    uint64_t begin = clock_ns(CLOCK_MONOTONIC), cpu = own_cpu_ns();
    sleep((unsigned)seconds);
    printf("threads %d\nidle %.5f\n", made,
           (double)(own_cpu_ns() - cpu) / (double)(clock_ns(CLOCK_MONOTONIC) - begin));
    size_t rounds = (size_t)seconds * PER_SECOND;
    uint64_t *took = calloc(rounds, sizeof *took);
    begin = clock_ns(CLOCK_MONOTONIC);
    cpu = own_cpu_ns();
    for (size_t i = 0; i < rounds; i++) {
        uint64_t due = begin + i * (1000000000 / PER_SECOND), now = clock_ns(CLOCK_MONOTONIC);
        struct timespec pause = {0, due > now ? (long)(due - now) : 0};
        if (due > now)
            nanosleep(&pause, NULL);
        took[i] = start_and_join(&attributes);
    }
    printf("churn %.5f\nresident %ld\njoins",
           (double)(own_cpu_ns() - cpu) / (double)(clock_ns(CLOCK_MONOTONIC) - begin),
           resident_kilobytes());
    for (size_t i = 0; i < rounds; i++)
        printf(" %llu", (unsigned long long)took[i]);
    printf("\n");
    fflush(stdout);
    _exit(0);
}
