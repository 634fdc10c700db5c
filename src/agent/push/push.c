#include "agent/push/push.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/agent.h"
#include "agent/heap/heap_source.h"
#include "agent/heap/heap_windows.h"
#include "capture/heap_capture.h"
#include "process/clock.h"
#include "process/own_threads.h"
#include "process/process.h"
#include "process/sandbox.h"

enum {
    DEFAULT_SECONDS = 10,
    MOST_SECONDS = 3600,
    DEFAULT_QUEUE = 8 << 20,
    SHORTEST_NS = 20000000, // a shorter first window is merged with the next
};

static struct {
    pthread_mutex_t lock; // guards running and stopping
    pthread_cond_t stop;
    pthread_t thread;
    bool running, stopping;
    bool left_behind; // stopped, but its sending thread still runs
    bool started_profiler;
    struct push_target target;
    uint32_t seconds, flags;
} push = {.lock = PTHREAD_MUTEX_INITIALIZER};

// --- one window ---

struct heap_state {
    struct arena *arena;
    struct model_profile *profile; // NULL: none yet, or heap profiling was off
};

static bool heap_is_on(void)
{
    const struct heap_source *source = push.flags & KILN_PUSH_NO_HEAP ? NULL : heap_source();
    return source && source->active();
}

static struct heap_state take_heap_snapshot(void)
{
    struct heap_state now = {0};
    struct err ignored;
    if (!heap_is_on() || !(now.arena = arena_new(0)))
        return now;
    now.profile = heap_profile(now.arena, &ignored);
    if (!now.profile)
        arena_free(now.arena);
    return now.profile ? now : (struct heap_state){0};
}

static int open_push_window(void)
{
    struct agent_window_options o = {.no_threads = !(push.flags & KILN_PUSH_THREADS)};
    struct err ignored;
    return push.flags & KILN_PUSH_NO_CPU ? -1 : agent_window_open(&o, &ignored);
}

// Sends the profiles of a window that has ended. *before becomes the current heap snapshot.
static void send_window(int window, struct heap_state *before)
{
    struct err e = {""};
    struct arena *arena = arena_new((size_t)1 << 30);
    if (!arena) {
        agent_window_cancel(window);
        return;
    }
    struct model_profile *cpu = window >= 0 ? agent_window_close(window, arena, &e) : NULL;
    struct model_profile *heap = NULL;
    struct heap_state now = take_heap_snapshot();
    if (now.profile && before->profile)
        heap = heap_progress(now.profile, before->profile, arena, &e);
    struct push_body body;
    if (push_message(&push.target, cpu, heap, arena, &body, &e) == 0 && body.n)
        push_queue_add(body);
    arena_free(arena);
    arena_free(before->arena);
    *before = now;
}

// --- the thread ---

// Waits until the end of the window that begins now. Returns false if it is the last.
static bool wait_for_end(void)
{
    uint64_t length = push.seconds * UINT64_C(1000000000), now = (uint64_t)process_wall_ns();
    uint64_t end = (now / length + 1) * length;
    if (end - now < SHORTEST_NS)
        end += length;
    pthread_mutex_lock(&push.lock);
    // The wall clock may be set meanwhile, so check it repeatedly, and limit the window's length by
    // the monotonic clock.
    uint64_t began = process_now_ns();
    for (;;) {
        now = (uint64_t)process_wall_ns();
        if (push.stopping || now >= end || process_now_ns() - began >= length + SHORTEST_NS)
            break;
        process_condition_wait(&push.stop, &push.lock,
                               end - now < 1000000000 ? end - now : 1000000000);
        pthread_mutex_unlock(&push.lock);
        own_thread_park_point();
        pthread_mutex_lock(&push.lock);
    }
    bool more = !push.stopping;
    pthread_mutex_unlock(&push.lock);
    return more;
}

static void *push_windows_main(void *context)
{
    capture_heap_enter();
    heap_jemalloc_leave_out_thread();
    struct heap_state heap = take_heap_snapshot();
    int window = open_push_window();
    for (bool more = true; more;) {
        more = wait_for_end();
        int ended = window;
        if (ended >= 0)
            agent_window_end(ended);
        // Open the next window first, so that the cost of writing this one is part of it.
        window = more ? open_push_window() : -1;
        send_window(ended, &heap);
    }
    arena_free(heap.arena);
    return NULL;
}

// --- fork: the child does not push ---

static void push_before_fork(void)
{
    pthread_mutex_lock(&push.lock);
    push_queue_before_fork();
}

static void push_after_fork_in_parent(void)
{
    push_queue_after_fork_in_parent();
    pthread_mutex_unlock(&push.lock);
}

static void push_after_fork_in_child(void)
{
    push_queue_after_fork_in_child();
    push.running = push.stopping = push.left_behind = push.started_profiler = false;
    pthread_mutex_unlock(&push.lock);
}

__attribute__((constructor)) static void register_push_fork_hooks(void)
{
    static const struct process_fork_hooks hooks = {push_before_fork, push_after_fork_in_parent,
                                                    push_after_fork_in_child};
    process_on_fork(PROCESS_FORK_PUSH, &hooks);
}

// --- start and stop ---

static void finish_push(void)
{
    push_target_fini(&push.target);
    push.running = push.stopping = push.left_behind = false;
}

static void push_wake_to_park(void)
{
    pthread_cond_broadcast(&push.stop);
    push_queue_wake();
}

static int start_push_threads(const struct kiln_push_options *o, struct err *e)
{
    // libc resolves the host's name by these.
    static const uint32_t resolver_calls[] = {SYS_sendmmsg, SYS_recvmsg, SYS_bind, SYS_getsockname,
                                              SYS_ioctl};
    for (size_t i = 0; i < sizeof resolver_calls / sizeof *resolver_calls; i++)
        sandbox_expect_call(resolver_calls[i]);
    // Initialize it each time: in a child of fork it would still contain waiters of the parent.
    process_condition_init(&push.stop);
    own_threads_on_park(push_wake_to_park);
    int result =
        push_queue_start(&push.target, o->queue ? o->queue : DEFAULT_QUEUE, push.seconds, e);
    if (result == 0) {
        result = own_thread_start(&push.thread, push_windows_main, NULL, 0, "that pushes", e);
        while (result && !push_queue_stop())
            ;
    }
    return result;
}

static int push_start_locked(const struct kiln_push_options *o, struct err *e)
{
    if (push.left_behind && push_queue_stop())
        finish_push();
    if (push.left_behind)
        return err_set(
            e, "the last push to %.300s has not ended: resolving the host name; try again later",
            push.target.url.shown);
    if (push.running)
        return err_set(e, "profiles are being pushed already, to %.300s", push.target.url.shown);
    if (o->interval > MOST_SECONDS)
        return err_set(e, "invalid interval %u s; expected 1 to %d s", o->interval, MOST_SECONDS);
    push_target_fini(&push.target); // a child of fork inherits the parent's
    if (push_target_init(&push.target, o, e))
        return -1;
    push.seconds = o->interval ? o->interval : DEFAULT_SECONDS;
    push.flags = o->flags;
    push.stopping = push.started_profiler = false;
    struct agent_options agent = {0};
    int result = 0;
    if (!(o->flags & KILN_PUSH_NO_CPU) && !collector_running()) {
        result = collector_start(&agent, e);
        push.started_profiler = result == 0;
    }
    if (result == 0)
        result = start_push_threads(o, e);
    if (result) {
        if (push.started_profiler)
            collector_stop();
        push_target_fini(&push.target);
    }
    push.running = result == 0;
    return result;
}

int push_start(const struct kiln_push_options *o, struct err *e)
{
    pthread_mutex_lock(&push.lock);
    int result = push_start_locked(o, e);
    pthread_mutex_unlock(&push.lock);
    return result;
}

void push_stop(void)
{
    pthread_mutex_lock(&push.lock);
    bool ours = push.running && !push.stopping;
    if (ours) {
        push.stopping = true;
        pthread_cond_signal(&push.stop);
    }
    pthread_mutex_unlock(&push.lock);
    if (!ours)
        return;
    pthread_join(push.thread, NULL);
    bool ended = push_queue_stop();
    if (push.started_profiler)
        collector_stop();
    pthread_mutex_lock(&push.lock);
    if (ended)
        finish_push();
    else
        push.left_behind = true;
    pthread_mutex_unlock(&push.lock);
}

void push_get_statistics(struct kiln_push_statistics *s)
{
    push_queue_get_statistics(s);
}
