#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "changes/look.h"

#define SECOND INT64_C(1000000000)

enum {
    NICE = 10,
    LEAST_WORK = 5000000,    // ns of CPU time after which it rests
    MEMORY_PART = 4,         // of the server's memory for requests: at most one in so many
    MEMORY_LEAST = 32 << 20, // but not less
    CLOCK_CHECK = 30,        // seconds after which it looks at the clock, which may be set
    RETRY_LONGEST = 15 * 60, // seconds until a tenant whose look failed is looked at again
};

static int64_t clock_now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

void job_note(struct changes *c, const char *format, ...)
{
    char text[512];
    va_list list;
    if (!c->options.note)
        return;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    c->options.note(c->options.note_ctx, text);
}

// At most for so long, until the job is to stop or to pause.
static void wait_for(struct changes *c, int64_t nanos)
{
    int64_t end = clock_now(CLOCK_MONOTONIC) + nanos;
    pthread_mutex_lock(&c->lock);
    while (!c->stopping && !c->paused && clock_now(CLOCK_MONOTONIC) < end) {
        struct timespec until = {(time_t)(end / SECOND), (long)(end % SECOND)};
        pthread_cond_timedwait(&c->wake, &c->lock, &until);
    }
    pthread_mutex_unlock(&c->lock);
}

// False: the job is to stop. While it waits it holds no memory.
static bool wait_while_paused(struct changes *c)
{
    pthread_mutex_lock(&c->lock);
    if (c->paused)
        turns_drop(c);
    while (!c->stopping && c->paused)
        pthread_cond_wait(&c->wake, &c->lock);
    bool stopping = c->stopping;
    pthread_mutex_unlock(&c->lock);
    return !stopping;
}

void job_throttle(struct changes *c)
{
    int64_t now = clock_now(CLOCK_THREAD_CPUTIME_ID), used = now - c->worked;
    if (c->is_running && used >= LEAST_WORK) {
        pthread_mutex_lock(&c->lock);
        c->counters.cpu_nanos += (uint64_t)used;
        pthread_mutex_unlock(&c->lock);
        c->worked = now;
        if (c->options.cpu > 0)
            wait_for(c, (int64_t)((double)used * (1 / c->options.cpu - 1)));
    }
}

void job_rest(struct changes *c, struct arena *arena)
{
    job_throttle(c);
    arena_check(arena);
}

static void *run_changes_job(void *context)
{
    struct changes *c = context;
    int64_t window = c->options.window, retry = window / 4;
    int64_t again = 0; // when tenants whose looks failed are looked at again; 0: none has
    retry = retry < RETRY_LONGEST * SECOND ? retry : RETRY_LONGEST * SECOND;
    // Of this thread only. Requests and commits go first.
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
    while (wait_while_paused(c)) {
        struct err e = {""};
        int code = 0;
        int64_t now = store_time(c->options.store), end = turns_window(c, now);
        if (end != c->turns_end || (again && clock_now(CLOCK_MONOTONIC) >= again)) {
            c->budget.failed = BUDGET_OK;
            again = 0;
            code = turns_begin(c, end, &e);
        }
        bool is_under_way = !code && turns_next(c, &code, &e);
        if (code && c->budget.failed == BUDGET_CANCELLED) {
            c->turns_end = 0; // begins again, if it goes on already
            continue;
        }
        if (code && !again) {
            job_note(c, "changes: search failed and will be retried: %s", e.message);
            again = clock_now(CLOCK_MONOTONIC) + retry;
        }
        if (is_under_way)
            continue;
        int64_t next = end + window + window / 12 - now, pause = CLOCK_CHECK * SECOND;
        wait_for(c, next > 0 && next < pause ? next : pause);
    }
    turns_drop(c);
    return NULL;
}

struct changes *changes_open(const struct changes_options *options, struct err *e)
{
    struct changes *c = calloc(1, sizeof *c);
    pthread_condattr_t attributes;
    if (!c || asprintf(&c->directory, "%s/changes", options->data) < 0) {
        free(c);
        err_set(e, "out of memory");
        return NULL;
    }
    c->options = *options;
    c->options.window = options->window ? options->window : 3600 * SECOND;
    c->options.lasting = options->lasting ? options->lasting : CHANGES_LASTING * c->options.window;
    c->paused = options->paused;
    c->budget.account =
        (struct budget_account){.owner = "the search for changes", .parent = options->memory};
    if (options->memory && options->memory->limit) {
        size_t part = options->memory->limit / MEMORY_PART;
        c->budget.account.limit = part > MEMORY_LEAST ? part : MEMORY_LEAST;
    }
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&c->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    return c;
}

int changes_start(struct changes *c, struct err *e)
{
    c->is_running = true;
    int error = pthread_create(&c->thread, NULL, run_changes_job, c);
    if (!error)
        return 0;
    c->is_running = false;
    return err_set(e, "cannot start the search for changes: %s", strerror(error));
}

void changes_pause(struct changes *c, bool paused)
{
    pthread_mutex_lock(&c->lock);
    c->paused = paused;
    // A look ends, so that it holds no memory meanwhile.
    c->budget.cancelled = paused || c->stopping;
    pthread_cond_broadcast(&c->wake);
    pthread_mutex_unlock(&c->lock);
}

void changes_close(struct changes *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->stopping = true;
    c->budget.cancelled = true;
    pthread_cond_broadcast(&c->wake);
    pthread_mutex_unlock(&c->lock);
    if (c->is_running)
        pthread_join(c->thread, NULL);
    pthread_cond_destroy(&c->wake);
    pthread_mutex_destroy(&c->lock);
    free(c->directory);
    free(c);
}

void changes_counters(struct changes *c, struct changes_counters *counters)
{
    pthread_mutex_lock(&c->lock);
    *counters = c->counters;
    counters->paused = c->paused;
    pthread_mutex_unlock(&c->lock);
}
