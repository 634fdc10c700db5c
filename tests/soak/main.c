// usage: soak [-s SECONDS] [-f HZ] [-o PROFILE] [-m own|restart|none] [-d FOLDER] [LOAD...]
//
// Runs every load (or those named) at once. Modes:
//   own      starts the profiler itself and keeps two windows open: one for a while, which
//            PROFILE.0, PROFILE.1 and so on are written from, and one for the whole run,
//            PROFILE.whole
//   restart  the same with the profiler stopped and started all the time
//   none     never calls the profiler: it is preloaded, or not there at all
//
// The last line is `soak KEY=VALUE ...`. Exits with 0, 3 (a check failed) or 4 (a load hangs).
#include "soak.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

const char *soak_folder = ".";
_Atomic bool soak_over;

static struct load *const groups[] = {thread_loads,  signal_loads, stack_loads,    loader_loads,
                                      process_loads, kiln_loads,   confined_loads, remap_loads};
enum {
    GROUPS = sizeof groups / sizeof *groups,
    MOST_LOADS = 64,
    HANG_SECONDS = 60,
    STAY_SECONDS = 120
};

void soak_fail(const char *format, ...)
{
    char text[500];
    va_list list;
    va_start(list, format);
    int n = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    dprintf(STDERR_FILENO, "soak failed: %.*s\n", n, text);
    _exit(3);
}

static double seconds(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

double soak_cpu_seconds(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

__attribute__((noinline)) uint64_t soak_burn(uint64_t seed, unsigned steps)
{
    for (unsigned i = 0; i < steps; i++) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        __asm__ volatile("" : "+r"(seed));
    }
    return seed;
}

void soak_work(void)
{
    static _Atomic uint64_t known;
    uint64_t got = soak_burn(88172645463325252u, 60000), had = atomic_load(&known);
    if (had == 0)
        atomic_store(&known, got);
    else
        CHECK(got == had);
}

unsigned soak_random(void)
{
    static __thread uint64_t state;
    if (!state)
        state = ((uint64_t)(uintptr_t)&state ^ (uint64_t)(seconds(CLOCK_MONOTONIC) * 1e9)) | 1;
    state = soak_burn(state, 1);
    return (unsigned)(state >> 20);
}

static unsigned count_fds(void)
{
    unsigned n = 0;
    DIR *dir = opendir("/proc/self/fd");
    CHECK(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static unsigned count_maps(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    CHECK(file);
    unsigned n = 0;
    for (int c; (c = getc(file)) != EOF;)
        n += c == '\n';
    fclose(file);
    return n;
}

static double resident_mb(void)
{
    char text[200] = "";
    int fd = open("/proc/self/statm", O_RDONLY);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
    close(fd);
    char *rest = strchr(text, ' ');
    return rest ? (double)strtoul(rest, NULL, 10) * (double)sysconf(_SC_PAGESIZE) / 1e6 : 0;
}

// --- loads ---

static struct load *chosen[MOST_LOADS];
static pthread_t threads[MOST_LOADS];
static unsigned n_chosen;

static void *run_load(void *context)
{
    struct load *l = context;
    while (!atomic_load(&soak_over)) {
        l->round(l);
        atomic_fetch_add(&l->rounds, 1);
    }
    return NULL;
}

static void choose(bool with_kiln, char **names, int n_names)
{
    for (unsigned g = 0; g < GROUPS; g++)
        for (struct load *l = groups[g]; l->name; l++) {
            bool wanted = n_names == 0 && !l->only_if_named;
            for (int i = 0; i < n_names; i++)
                wanted |= strcmp(names[i], l->name) == 0;
            if (wanted && (with_kiln || !l->needs_kiln) && n_chosen < MOST_LOADS)
                chosen[n_chosen++] = l;
        }
    if (n_chosen == 0)
        soak_fail("no such load");
}

// Every load must get on. Its own thread: the main one is busy with windows.
static void *watch(void *context)
{
    uint64_t seen[MOST_LOADS] = {0};
    double changed[MOST_LOADS];
    for (unsigned i = 0; i < n_chosen; i++)
        changed[i] = seconds(CLOCK_MONOTONIC);
    for (;;) {
        usleep(200000);
        for (unsigned i = 0; i < n_chosen; i++) {
            uint64_t rounds = atomic_load(&chosen[i]->rounds);
            if (rounds != seen[i])
                changed[i] = seconds(CLOCK_MONOTONIC);
            seen[i] = rounds;
            if (seconds(CLOCK_MONOTONIC) - changed[i] > HANG_SECONDS && !atomic_load(&soak_over)) {
                dprintf(STDERR_FILENO, "soak failed: %s hangs after %llu rounds\n", chosen[i]->name,
                        (unsigned long long)rounds);
                sleep(STAY_SECONDS); // tests/soak/run prints all stacks meanwhile
                _exit(4);
            }
        }
    }
    return NULL;
}

// --- the profiler ---

// The CPU time of the windows, from both sides: a thread that wants to know it may have to wait
// for its turn between looking at the clock and opening or closing a window. The window of the
// whole run is opened before the loads begin and closed after their end.
struct account {
    double inner, outer, whole;
    const char *output;
    unsigned windows;
    double before, after; // opening it
    int window, whole_window;
};

static void open_window(struct account *a)
{
    struct kiln_error error;
    a->before = soak_cpu_seconds();
    a->window = kiln_window_begin(&error);
    a->after = soak_cpu_seconds();
    if (a->window < 0)
        soak_fail("no window: %s", error.message);
}

static int create_output(const struct account *a, const char *suffix)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.%s", a->output, suffix);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    CHECK(fd >= 0);
    return fd;
}

static void open_whole(struct account *a)
{
    struct kiln_error error;
    a->whole_window = kiln_window_begin(&error);
    a->whole = soak_cpu_seconds();
    if (a->whole_window < 0)
        soak_fail("no window: %s", error.message);
}

static void write_whole(struct account *a)
{
    struct kiln_error error;
    int fd = create_output(a, "whole");
    a->whole = soak_cpu_seconds() - a->whole;
    kiln_stop();
    if (kiln_window_write(a->whole_window, fd, &error))
        soak_fail("window not written: %s", error.message);
    close(fd);
}

static void write_window(struct account *a, bool stop)
{
    char suffix[16];
    struct kiln_error error;
    snprintf(suffix, sizeof suffix, "%u", a->windows++);
    int fd = create_output(a, suffix);
    a->inner += soak_cpu_seconds() - a->after;
    // What threads are due is told when it stops.
    if (stop)
        kiln_stop();
    if (kiln_window_write(a->window, fd, &error))
        soak_fail("window not written: %s", error.message);
    a->outer += soak_cpu_seconds() - a->before;
    close(fd);
}

static void start(uint32_t hz)
{
    struct kiln_options options = {.size = sizeof options, .frequency = hz};
    struct kiln_error error;
    if (kiln_start(&options, &error))
        soak_fail("not started: %s", error.message);
}

// tests/soak/run sends SIGPROF, which ends a program that has no handler for it.
static void on_foreign_sigprof(int number)
{
}

int main(int argc, char **argv)
{
    const struct sigaction action = {.sa_handler = on_foreign_sigprof,
                                     .sa_flags = SA_RESTART | SA_ONSTACK};
    CHECK(sigaction(SIGPROF, &action, NULL) == 0);
    double length = 10, window_length;
    uint32_t hz = 1000;
    const char *mode = "own";
    struct account account = {.output = "/dev/null"};
    for (int o; (o = getopt(argc, argv, "s:f:o:m:d:")) != -1;) {
        if (o == 's')
            length = strtod(optarg, NULL);
        else if (o == 'f')
            hz = (uint32_t)strtoul(optarg, NULL, 10);
        else if (o == 'o')
            account.output = optarg;
        else if (o == 'm')
            mode = optarg;
        else if (o == 'd')
            soak_folder = optarg;
        else
            return 2;
    }
    bool own = strcmp(mode, "none") != 0, restart = strcmp(mode, "restart") == 0;
    window_length = restart ? 0.3 : length > 300 ? 60 : length / 4;
    choose(own, argv + optind, argc - optind);
    double begin = seconds(CLOCK_MONOTONIC), cpu_before = soak_cpu_seconds();
    if (own) {
        start(hz);
        if (!restart)
            open_whole(&account);
        open_window(&account);
    }
    pthread_t watcher;
    CHECK(pthread_create(&watcher, NULL, watch, NULL) == 0);
    for (unsigned i = 0; i < n_chosen; i++)
        CHECK(pthread_create(&threads[i], NULL, run_load, chosen[i]) == 0);

    // What there is when everything has run for a while may not become more.
    double resident = 0, now;
    unsigned maps = 0, fds = 0;
    double opened = begin;
    while ((now = seconds(CLOCK_MONOTONIC)) - begin < length) {
        usleep(100000);
        if (maps == 0 && now - begin > length / 4) {
            resident = resident_mb();
            maps = count_maps();
            fds = count_fds();
        }
        if (!own || now - opened < window_length)
            continue;
        write_window(&account, restart);
        if (restart) {
            usleep(soak_random() % 20000);
            start(hz);
        }
        open_window(&account);
        opened = seconds(CLOCK_MONOTONIC);
    }
    unsigned maps_end = count_maps(), fds_end = count_fds();
    atomic_store(&soak_over, true);
    for (unsigned i = 0; i < n_chosen; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    double resident_end = resident_mb();
    struct kiln_statistics s = {.size = sizeof s};
    if (own) {
        write_window(&account, restart);
        if (!restart)
            write_whole(&account);
        kiln_get_statistics(&s);
        kiln_stop();
    }
    for (unsigned i = 0; i < n_chosen; i++) {
        struct load *l = chosen[i];
        CHECK(l->rounds > 0);
        printf("load %s rounds=%llu", l->name, (unsigned long long)l->rounds);
        if (l->event)
            printf(" %s=%llu", l->event, (unsigned long long)l->events);
        printf("\n");
    }
    printf(
        "soak seconds=%.1f hz=%u cpu=%.3f windows=%u inner=%.3f outer=%.3f whole=%.3f samples=%llu "
        "ring_full=%llu not_ready=%llu out_of_memory=%llu "
        "truncated=%llu blocked=%llu unticked=%llu resident=%.1f resident_end=%.1f maps=%u "
        "maps_end=%u fds=%u fds_end=%u\n",
        seconds(CLOCK_MONOTONIC) - begin, hz, soak_cpu_seconds() - cpu_before, account.windows,
        account.inner, account.outer, account.whole, (unsigned long long)s.samples,
        (unsigned long long)s.ring_full, (unsigned long long)s.not_ready,
        (unsigned long long)s.out_of_memory, (unsigned long long)s.truncated,
        (unsigned long long)s.blocked, (unsigned long long)s.unticked, resident, resident_end, maps,
        maps_end, fds, fds_end);
    return 0;
}
