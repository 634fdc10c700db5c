// kiln's own heap sampling, for any allocator with hooks: libkiln_malloc, or one that calls us.
#include "agent/heap/heap_sampler.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/keeper.h"
#include "capture/heap_capture.h"
#include "codec/heap_read.h"
#include "process/clock.h"
#include "process/own_threads.h"

enum { ROUND_MS = 100 };

static struct {
    pthread_mutex_t lock; // guards capture_heap_* except the hooks
    _Atomic bool hooked;  // an allocator calls our hooks
    _Atomic bool has_thread;
} sampler = {.lock = PTHREAD_MUTEX_INITIALIZER};

void heap_sampler_hooked(void)
{
    atomic_store(&sampler.hooked, true);
}

// --- background work: tables for new code, modules for new stacks ---

void heap_sampler_round(void)
{
    if (!capture_heap_active() || pthread_mutex_trylock(&sampler.lock))
        return;
    capture_heap_resolve();
    pthread_mutex_unlock(&sampler.lock);
}

// While CPU time is sampled, the collector does this work.
static void *sampler_main(void *context)
{
    capture_heap_enter();
    bool alone = false;
    int status = 0;
    for (unsigned i = 0; capture_heap_active() && !capture_running() && !alone; i++) {
        capture_heap_keep_up();
        heap_sampler_round();
        process_sleep_ns(ROUND_MS * 1000000);
        own_thread_park_point();
        alone = i % 10 == 0 && own_threads_are_alone(&status);
    }
    atomic_store(&sampler.has_thread, false);
    if (alone)
        keeper_end_process(status);
    else
        keeper_take_watch();
    return NULL;
}

void heap_sampler_start_thread(void)
{
    pthread_t thread;
    struct err ignored;
    if (!capture_heap_active() || capture_running() || atomic_exchange(&sampler.has_thread, true))
        return;
    // Without the thread, code loaded later has no unwind tables; the profile shows that.
    if (keeper_start(&ignored) ||
        own_thread_start(&thread, sampler_main, NULL, OWN_THREAD_DETACHED | OWN_THREAD_FILES,
                         "for unwind tables", &ignored))
        atomic_store(&sampler.has_thread, false);
}

// --- fork ---

void heap_sampler_before_fork(void)
{
    pthread_mutex_lock(&sampler.lock);
}

void heap_sampler_after_fork_in_parent(void)
{
    pthread_mutex_unlock(&sampler.lock);
}

// The child has no background thread: newly loaded code is processed when a profile is requested.
void heap_sampler_after_fork_in_child(void)
{
    atomic_store(&sampler.has_thread, false);
    capture_heap_after_fork_in_child();
    pthread_mutex_unlock(&sampler.lock);
}

// --- the source ---

int heap_sampler_start(const struct capture_heap_options *options, struct err *e)
{
    pthread_mutex_lock(&sampler.lock);
    int result = capture_heap_start(options, e);
    pthread_mutex_unlock(&sampler.lock);
    if (result == 0)
        heap_sampler_start_thread();
    return result;
}

static bool sampler_available(void)
{
    const void *blocks[HEAP_BLOCKS];
    return atomic_load(&sampler.hooked) || capture_heap_hook_called() ||
           capture_heap_image(blocks) > 0;
}

static int sampler_activate(struct err *e)
{
    struct capture_heap_options options = {0};
    if (capture_heap_active())
        return 0;
    if (!sampler_available())
        return err_set(e, "no allocator hook is active; preload or link libkiln_malloc.so");
    return heap_sampler_start(&options, e);
}

static int sampler_deactivate(struct err *e)
{
    (void)e;
    capture_heap_stop();
    return 0;
}

static int sampler_set_interval(uint64_t bytes, struct err *e)
{
    pthread_mutex_lock(&sampler.lock);
    int result = capture_heap_set_interval(bytes, e);
    pthread_mutex_unlock(&sampler.lock);
    return result;
}

static struct model_profile *read_sampler_image(struct arena *arena, struct err *e)
{
    const void *blocks[HEAP_BLOCKS];
    size_t n = capture_heap_image(blocks);
    if (n == 0) {
        err_set(e, "heap sampling was never started in this process");
        return NULL;
    }
    capture_heap_refresh(NULL);
    capture_heap_resolve();
    struct model_profile *p = codec_read_heap(arena, blocks, n, NULL, NULL, e);
    if (p) {
        p->duration_nanos = process_wall_ns() - p->time_nanos;
        heap_drop_allocator(p);
    }
    return p;
}

static struct model_profile *sampler_snapshot(struct arena *arena, struct err *e)
{
    capture_heap_enter();
    pthread_mutex_lock(&sampler.lock);
    struct model_profile *p = read_sampler_image(arena, e);
    pthread_mutex_unlock(&sampler.lock);
    capture_heap_leave();
    return p;
}

static void sampler_get_counts(struct heap_counts *counts)
{
    const void *blocks[HEAP_BLOCKS];
    *counts = (struct heap_counts){0};
    if (capture_heap_image(blocks) == 0)
        return;
    const struct heap_head *head = blocks[0];
    int64_t live = atomic_load(&head->live);
    counts->knows_samples = counts->knows_live = true;
    counts->samples = atomic_load(&head->samples);
    counts->live_bytes = live > 0 ? (uint64_t)live : 0;
}

const struct heap_source heap_sampler = {
    .name = "kiln",
    .available = sampler_available,
    .active = capture_heap_active,
    .activate = sampler_activate,
    .deactivate = sampler_deactivate,
    .interval = capture_heap_interval,
    .set_interval = sampler_set_interval,
    .snapshot = sampler_snapshot,
    .counts = sampler_get_counts,
};
