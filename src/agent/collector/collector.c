#include "agent/collector/collector.h"

#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <time.h>

#include "agent/heap/heap_sampler.h"
#include "agent/keeper.h"
#include "agent/heap/heap_windows.h"
#include "agent/collector/callbacks.h"
#include "agent/collector/label_sets.h"
#include "agent/names/names.h"
#include "agent/names/names_cache.h"
#include "process/clock.h"
#include "process/own_threads.h"
#include "process/process.h"
#include "process/sandbox.h"

enum {
    LEAST_DRAIN_MS = 100,
    MOST_DRAIN_MS = 250,
    SCAN_MS = 1000,
    LOADING_MS = 10,
    LOADING_LASTS_MS = 100,
    // If walks cannot ask the loader about new objects, stacks end there until we have read them.
    BLIND_LOADING_LASTS_MS = 2000,
    LEAST_MEMORY = 1 << 20,
};

struct collector collector = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

// Must run before the first wait on it.
static void init_wake(void)
{
    process_condition_init(&collector.wake);
}

// --- draining; the lock is held ---

static bool is_selected_thread(const char *thread)
{
    if (!collector.threads)
        return true;
    bool wanted = collector.threads[0] == '!';
    for (const char *at = collector.threads; *at;) {
        size_t n = strcspn(at, ",");
        bool excludes = *at == '!';
        char pattern[128];
        snprintf(pattern, sizeof pattern, "%.*s", (int)(n - excludes), at + excludes);
        if (fnmatch(pattern, thread, 0) == 0)
            wanted = !excludes;
        at += n + (at[n] == ',');
    }
    return wanted;
}

static void collect_sample(void *context, const struct capture_sample *sample)
{
    struct arena_trap trap;
    struct weight weight = {sample->ticks, sample->ns, capture_squares(sample)};
    if (!is_selected_thread(sample->thread)) {
        collector.filtered += sample->ticks;
        return;
    }
    if (collector.tap)
        collector.tap->sample(sample);
    if (ARENA_TRY(collector.arena, trap)) {
        collector.dropped += sample->ticks;
        collector.starved = true;
        counts_add(STACKS_DROPPED, &weight);
        return;
    }
    uint32_t thread = stacks_add_thread(&collector.stacks, sample);
    uint32_t stack = stacks_add(&collector.stacks, sample, thread, capture_snapshot());
    arena_try_end(collector.arena);
    counts_add(stack, &weight);
}

// Ticks that found the ring full, or came before the unwind tables existed.
static void count_lost_ticks(void)
{
    struct capture_counts c;
    capture_get_counts(&c);
    uint64_t lost = c.ring_full + c.no_snapshot;
    if (lost <= collector.lost)
        return;
    uint64_t ticks = lost - collector.lost;
    counts_add(STACKS_DROPPED, &(struct weight){ticks, ticks * (1000000000 / collector.hz), ticks});
    collector.lost = lost;
}

void collector_drain(void)
{
    uint64_t now = process_now_ns();
    capture_hold();
    counts_make_room(now);
    counts_begin_second(now);
    capture_drain(collect_sample, NULL);
    count_lost_ticks();
    if (collector.tap)
        collector.tap->round();
    capture_release();
}

void collector_set_rate(uint32_t hz)
{
    if (hz == collector.hz)
        return;
    collector.hz = hz;
    capture_set_rate(hz);
    // The new rate may need shorter pauses.
    pthread_cond_signal(&collector.wake);
}

// --- the background thread ---

static void sweep_labels(void)
{
    if (!labels_want_sweep())
        return;
    labels_lock();
    for (size_t i = 0; i < collector.stacks.n; i++)
        labels_mark(collector.stacks.items[i].label);
    labels_sweep();
    labels_unlock();
}

// As long as the rings last if every stack has the maximum depth.
static uint32_t drain_pause(void)
{
    uint32_t ms = capture_ring_records() * 1000 / collector.hz;
    return ms < LEAST_DRAIN_MS ? LEAST_DRAIN_MS : ms > MOST_DRAIN_MS ? MOST_DRAIN_MS : ms;
}

// Until objects are checked again, but no longer than the rings last.
static uint32_t loading_pause(void)
{
    uint64_t now = process_now_ns(), until = capture_next_refresh();
    uint64_t ms = until > now ? (until - now) / 1000000u : 0;
    uint32_t most = drain_pause();
    return (uint32_t)(ms < LOADING_MS ? LOADING_MS : ms > most ? most : ms);
}

static void collector_pause(uint32_t ms)
{
    process_condition_wait(&collector.wake, &collector.lock, ms * UINT64_C(1000000));
}

void collector_expect_objects(void)
{
    // Without the lock: a signal just before the thread waits is lost, and it checks at its usual
    // time.
    if (capture_running() && !sandbox_confines_caller() &&
        !atomic_exchange(&collector.expecting, true) && !atomic_load(&collector.watching))
        pthread_cond_signal(&collector.wake);
}

static void *collector_main(void *context)
{
    capture_heap_enter();
    uint64_t scanned = 0, changed = process_now_ns();
    uint64_t lasts =
        (unwind_finds_objects() ? LOADING_LASTS_MS : BLIND_LOADING_LASTS_MS) * UINT64_C(1000000);
    struct unwind_regs here;
    pthread_mutex_lock(&collector.lock);
    bool alone = false;
    int status = 0;
    while (!collector.stopping && !alone) {
        uint64_t now = process_now_ns();
        // Build unwind tables without the lock, so that windows need not wait for them.
        pthread_mutex_unlock(&collector.lock);
        own_thread_park_point();
        if (now - scanned >= SCAN_MS * 1000000u || capture_threads_changed()) {
            capture_scan();
            alone = own_threads_are_alone(&status);
            names_idle();
            scanned = now;
        }
        capture_keep_handler();
        if (capture_refresh())
            changed = now;
        heap_sampler_round();
        pthread_mutex_lock(&collector.lock);
        collector_drain();
        sweep_labels();
        unwind_regs_here(&here);
        capture_settle(&here);
        // Objects are often loaded in groups. Check more often while they are: stacks are cheaper
        // once their tables exist.
        if (atomic_exchange(&collector.expecting, false))
            changed = now;
        bool loading = now - changed < lasts;
        atomic_store(&collector.watching, loading);
        // collector_stop may have run while the lock was not held.
        if (!collector.stopping)
            collector_pause(loading ? loading_pause() : drain_pause());
    }
    collector_drain();
    if (alone) {
        // Nobody will join this thread.
        collector.running = false;
        pthread_detach(pthread_self());
    }
    pthread_mutex_unlock(&collector.lock);
    if (alone)
        keeper_end_process(status);
    return NULL;
}

static void collector_wake_to_park(void)
{
    pthread_cond_signal(&collector.wake);
}

static int start_collector_thread(bool perf, struct err *e)
{
    own_threads_on_park(collector_wake_to_park);
    if (keeper_start(e))
        return -1;
    // Perf events are descriptors that program threads also open and close, so the table is shared.
    return own_thread_start(&collector.thread, collector_main, NULL, perf ? 0 : OWN_THREAD_FILES,
                            "for the profiler", e);
}

// --- fork: the child has no collector thread ---

// Held while the profiler starts or stops. Taken before all other locks.
static pthread_mutex_t start_stop_lock = PTHREAD_MUTEX_INITIALIZER;

static void collector_before_fork(void)
{
    pthread_mutex_lock(&start_stop_lock);
    heap_windows_before_fork();
    heap_sampler_before_fork();
    pthread_mutex_lock(&collector.lock);
    labels_lock();
    capture_before_fork();
}

static void collector_after_fork_in_parent(void)
{
    capture_after_fork_in_parent();
    labels_unlock();
    pthread_mutex_unlock(&collector.lock);
    heap_sampler_after_fork_in_parent();
    heap_windows_after_fork_in_parent();
    pthread_mutex_unlock(&start_stop_lock);
}

// Frees nothing: the allocator may not be usable yet. counts_free_inherited frees it later.
static void collector_after_fork_in_child(void)
{
    collector.running = false;
    keeper_after_fork_in_child();
    for (int i = 0; i < AGENT_WINDOWS; i++)
        collector.windows[i].open = false;
    capture_after_fork_in_child();
    names_after_fork_in_child();
    callbacks_after_fork_in_child();
    init_wake();
    labels_unlock();
    pthread_mutex_unlock(&collector.lock);
    heap_sampler_after_fork_in_child();
    heap_windows_after_fork_in_child();
    pthread_mutex_unlock(&start_stop_lock);
}

__attribute__((constructor)) static void register_collector_fork_hooks(void)
{
    static const struct process_fork_hooks hooks = {
        collector_before_fork, collector_after_fork_in_parent, collector_after_fork_in_child};
    process_on_fork(PROCESS_FORK_COLLECTOR, &hooks);
}

// --- start and stop ---

static int copy_options(const struct agent_options *o, struct err *e)
{
    char *threads = o->threads && *o->threads ? strdup(o->threads) : NULL;
    if (o->threads && *o->threads && !threads)
        return err_set(e, "no memory for the names of threads");
    free(collector.threads);
    collector.threads = threads;
    collector.memory = o->memory ? o->memory : (size_t)32 << 20;
    collector.symbol_memory = o->symbol_memory ? o->symbol_memory : (size_t)64 << 20;
    return 0;
}

static int collector_start_locked(const struct agent_options *o, struct err *e)
{
    struct capture_options capture = {
        .hz = o->hz ? o->hz : 100, .depth = o->depth ? o->depth : 128, .perf = o->perf};
    if (collector.running)
        return err_set(e, "the profiler is already running");
    if (o->memory && o->memory < LEAST_MEMORY)
        return err_set(e, "invalid memory limit %zu bytes; expected at least %d KiB", o->memory,
                       LEAST_MEMORY >> 10);
    counts_free_inherited();
    size_t old_memory = collector.memory;
    process_pin_library();
    if (copy_options(o, e) || capture_start(&capture, e))
        return -1;
    int result = 0;
    capture_hold();
    if (!collector.arena)
        result = counts_begin();
    else if (collector.memory != old_memory)
        counts_drop_uncounted();
    capture_release();
    if (result)
        err_set(e, "no memory for the profiler");
    collector.hz = collector.base_hz = capture.hz;
    collector.depth = capture.depth;
    collector.stopping = false;
    if (result == 0)
        result = start_collector_thread(o->perf, e);
    if (result) {
        capture_stop();
        keeper_take_watch();
    }
    collector.running = result == 0;
    return result;
}

int collector_start(const struct agent_options *o, struct err *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_wake);
    pthread_mutex_lock(&start_stop_lock);
    pthread_mutex_lock(&collector.lock);
    int result = collector_start_locked(o, e);
    pthread_mutex_unlock(&collector.lock);
    pthread_mutex_unlock(&start_stop_lock);
    return result;
}

void collector_stop(void)
{
    pthread_mutex_lock(&start_stop_lock);
    pthread_mutex_lock(&collector.lock);
    bool was = collector.running;
    pthread_mutex_unlock(&collector.lock);
    if (was) {
        // Before the thread's last drain, so that it includes the ticks that threads are due.
        capture_stop();
        pthread_mutex_lock(&collector.lock);
        collector.stopping = true;
        pthread_cond_signal(&collector.wake);
        pthread_mutex_unlock(&collector.lock);
        pthread_join(collector.thread, NULL);
    }
    pthread_mutex_lock(&collector.lock);
    collector.running = false;
    // Windows lose their rate, and the last seconds must not span the stop.
    for (int i = 0; i < AGENT_WINDOWS; i++)
        if (!collector.windows[i].ended)
            collector.windows[i].hz = 0;
    counts_drop_seconds();
    pthread_mutex_unlock(&collector.lock);
    pthread_mutex_unlock(&start_stop_lock);
    heap_sampler_start_thread();
    keeper_take_watch();
}

bool collector_running(void)
{
    pthread_mutex_lock(&collector.lock);
    bool running = collector.running;
    pthread_mutex_unlock(&collector.lock);
    return running;
}

size_t agent_symbol_memory(void)
{
    pthread_mutex_lock(&collector.lock);
    size_t memory = collector.symbol_memory;
    pthread_mutex_unlock(&collector.lock);
    return memory;
}

void collector_set_tap(const struct collector_tap *tap)
{
    collector.tap = tap;
}

void agent_get_settings(struct agent_settings *s)
{
    pthread_mutex_lock(&collector.lock);
    *s = (struct agent_settings){
        .hz = collector.hz,
        .depth = collector.depth,
        .memory = collector.memory,
        .running = collector.running,
    };
    for (int i = 0; i < AGENT_WINDOWS; i++)
        s->windows += collector.windows[i].open;
    pthread_mutex_unlock(&collector.lock);
}

void agent_get_counts(struct agent_counts *counts)
{
    pthread_mutex_lock(&collector.lock);
    *counts = (struct agent_counts){
        .dropped = collector.dropped,
        .stacks = collector.stacks.n,
        .filtered = collector.filtered,
        .memory = counts_memory(),
    };
    capture_get_counts(&counts->capture);
    labels_get_counts(&counts->labels);
    counts->name_memory = names_cache_memory();
    pthread_mutex_unlock(&collector.lock);
}
