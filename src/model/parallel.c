#include "model/parallel.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"

// --- processors ---

// Reads a small file into text. Returns false if there is none.
static bool read_cgroup_file(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

// The processors that cpu.max ("QUOTA PERIOD" or "max PERIOD") allows, rounded up; 0: no limit.
static unsigned cgroup_quota(struct str text)
{
    size_t space = str_find(text, STR(" "), 0);
    int64_t quota, period;
    if (space == SIZE_MAX || !str_to_i64(str_from_to(text, 0, space), &quota) ||
        !str_to_i64(str_trim(str_from_to(text, space + 1, text.n)), &period) || quota <= 0 ||
        period <= 0)
        return 0;
    int64_t n = quota / period + (quota % period != 0);
    return n > PARALLEL_MOST ? PARALLEL_MOST : (unsigned)n;
}

// The lowest quota of our cgroup (version 2) and those above it; 0: no limit.
static unsigned lowest_cgroup_quota(void)
{
    char groups[4096], path[4096 + 64], text[64];
    if (!read_cgroup_file("/proc/self/cgroup", groups, sizeof groups))
        return 0;
    char *group = strstr(groups, "0::/");
    if (!group || (group != groups && group[-1] != '\n'))
        return 0;
    group += 3;
    group[strcspn(group, "\n")] = 0;
    unsigned lowest = 0;
    for (;;) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
        unsigned n = read_cgroup_file(path, text, sizeof text) ? cgroup_quota(str_from(text)) : 0;
        if (n && (!lowest || n < lowest))
            lowest = n;
        char *slash = strrchr(group, '/');
        if (!slash)
            return lowest;
        *slash = 0;
    }
}

unsigned parallel_processors(void)
{
    cpu_set_t set;
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        n = CPU_COUNT(&set);
    unsigned processors = n < 1 ? 1 : n > PARALLEL_MOST ? PARALLEL_MOST : (unsigned)n;
    unsigned quota = processors > 1 ? lowest_cgroup_quota() : 0;
    return quota && quota < processors ? quota : processors;
}

static _Atomic unsigned allowed_threads = 1;
static bool asked_for_threads;

void parallel_allow(unsigned threads)
{
    atomic_store(&allowed_threads, threads < PARALLEL_MOST ? threads : PARALLEL_MOST);
    asked_for_threads = threads > 0;
}

// Looks for the processors when they are first needed: small profiles need one.
unsigned parallel_threads(void)
{
    unsigned threads = atomic_load_explicit(&allowed_threads, memory_order_relaxed);
    if (threads == 0) {
        threads = parallel_processors();
        atomic_store_explicit(&allowed_threads, threads, memory_order_relaxed);
    }
    return threads;
}

bool parallel_is_explicit(void)
{
    return asked_for_threads;
}

// --- tasks ---

struct parallel_tasks {
    size_t n;
    _Atomic size_t next;
    bool (*run)(void *context, struct parallel_worker *worker, size_t task);
    void *context;
};

struct parallel_thread {
    struct parallel_tasks *tasks;
    struct parallel_worker worker;
    pthread_t id;
    bool failed; // its arena has the reason
};

static _Thread_local bool is_worker;

static void stop_tasks(struct parallel_tasks *tasks)
{
    atomic_store_explicit(&tasks->next, tasks->n, memory_order_relaxed);
}

static void *work_on_tasks(void *context)
{
    struct parallel_thread *thread = context;
    struct parallel_tasks *tasks = thread->tasks;
    bool was_worker = is_worker;
    is_worker = true;
    struct arena_trap trap;
    if (ARENA_TRY(thread->worker.arena, trap)) {
        thread->failed = true;
        stop_tasks(tasks);
        is_worker = was_worker;
        return NULL;
    }
    for (;;) {
        size_t task = atomic_fetch_add_explicit(&tasks->next, 1, memory_order_relaxed);
        if (task >= tasks->n)
            break;
        if (!tasks->run(tasks->context, &thread->worker, task)) {
            stop_tasks(tasks);
            break;
        }
    }
    arena_try_end(thread->worker.arena);
    is_worker = was_worker;
    return NULL;
}

void parallel_run(struct arena *arena, unsigned n_workers, size_t n_tasks,
                  bool (*run)(void *context, struct parallel_worker *worker, size_t task),
                  void *context)
{
    if (is_worker || n_workers < 1)
        n_workers = 1;
    if (n_workers > n_tasks)
        n_workers = n_tasks ? (unsigned)n_tasks : 1;
    struct parallel_tasks tasks = {.n = n_tasks, .run = run, .context = context};
    if (n_workers == 1) {
        struct parallel_worker worker = {.arena = arena};
        for (size_t i = 0; i < n_tasks && run(context, &worker, i); i++)
            ;
        return;
    }
    struct parallel_thread *threads = arena_array(arena, n_workers, sizeof *threads);
    unsigned n = 0;
    for (; n < n_workers; n++) {
        struct arena *own = arena_new_in(arena_budget(arena), 0);
        if (!own)
            break;
        arena_adopt(arena, own);
        threads[n] = (struct parallel_thread){.tasks = &tasks, .worker = {n, own}};
    }
    if (n == 0)
        arena_fail(arena, "out of memory: cannot start a thread");
    unsigned started = 1;
    while (started < n &&
           pthread_create(&threads[started].id, NULL, work_on_tasks, &threads[started]) == 0)
        started++;
    work_on_tasks(&threads[0]);
    for (unsigned i = 1; i < started; i++)
        pthread_join(threads[i].id, NULL);
    for (unsigned i = 0; i < started; i++) {
        struct err e;
        if (!threads[i].failed)
            continue;
        arena_caught(threads[i].worker.arena, &e);
        arena_fail(arena, "%s", e.message);
    }
}
