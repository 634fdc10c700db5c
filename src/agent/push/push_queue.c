// The queue of requests, and the thread that sends them.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "agent/heap/heap_source.h"
#include "agent/push/push.h"
#include "base/retry.h"
#include "capture/heap_capture.h"
#include "process/clock.h"
#include "process/own_threads.h"

enum {
    TIMEOUT_SECONDS = 10,
    LAST_PAUSE_MS = 200, // the first pause when stopping; it doubles
    GRACE_NS = 1000000000,
};

struct item {
    struct item *next;
    struct push_body body;
    uint64_t ready; // earliest time to send, unless stopping; CLOCK_MONOTONIC, ns
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    const struct push_target *target;
    struct item *first, **last;
    struct item *inherited; // items that a child of fork must free
    size_t n, bytes, limit;
    bool stopping, ended;
    _Atomic uint64_t until; // deadline when stopping; 0 otherwise
    struct retry retry;
    uint64_t phase_ns;      // delay from a window's end to its first attempt
    uint64_t next;          // earliest time of the next attempt
    uint64_t asked;         // earliest time according to Retry-After
    unsigned last_attempts; // failed attempts since stopping began
    struct kiln_push_statistics counts;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER};

// --- with the lock held ---

static struct item *pop_item(void)
{
    struct item *item = queue.first;
    if (item) {
        if (!(queue.first = item->next))
            queue.last = &queue.first;
        queue.n--;
        queue.bytes -= item->body.n;
    }
    return item;
}

static void drop_item(struct item *item)
{
    free(item->body.p);
    free(item);
    queue.counts.dropped++;
}

static bool queue_has_room(size_t bytes)
{
    return queue.n < PUSH_WINDOWS && queue.bytes + bytes <= queue.limit;
}

// Puts an item that could not be sent back to the front, unless newer items need its space.
static void requeue_item(struct item *item)
{
    if (!queue_has_room(item->body.n)) {
        drop_item(item);
        return;
    }
    item->next = queue.first;
    if (!queue.first)
        queue.last = &item->next;
    queue.first = item;
    queue.n++;
    queue.bytes += item->body.n;
}

// --- the thread ---

enum outcome { TAKEN, REFUSED, BUSY, NO_ANSWER };

// *after_s: the server's Retry-After with BUSY; -1: none.
static enum outcome try_to_send(const struct item *item, int64_t *after_s, char why[static 256])
{
    *after_s = -1;
    const struct post post = {
        .url = &queue.target->url,
        .path = "/push.v1.PusherService/Push",
        .headers = queue.target->headers,
        .body = {item->body.p, item->body.n},
        .timeout_ns = TIMEOUT_SECONDS * UINT64_C(1000000000),
        .until = &queue.until,
    };
    struct post_answer answer;
    struct err e = {""};
    if (post_send(&post, &answer, &e)) {
        snprintf(why, 256, "%.255s", e.message);
        return NO_ANSWER;
    }
    if (answer.status >= 200 && answer.status < 300)
        return TAKEN;
    snprintf(why, 256, "%.100s: %d %.140s", queue.target->url.shown, answer.status, answer.text);
    *after_s = answer.retry_after;
    bool passes = answer.status >= 500 || answer.status == 429 || answer.status == 408;
    return passes ? BUSY : REFUSED;
}

// Waits until *flag is set, the monotonic clock reaches ns, or threads are asked to park.
static void queue_wait_until(const bool *flag, uint64_t ns)
{
    struct timespec until = {.tv_sec = (time_t)(ns / 1000000000),
                             .tv_nsec = (long)(ns % 1000000000)};
    while (!*flag && !own_threads_parking() &&
           pthread_cond_timedwait(&queue.changed, &queue.lock, &until) != ETIMEDOUT)
        ;
}

static bool push_deadline_passed(void)
{
    uint64_t until = atomic_load(&queue.until);
    return until && process_now_ns() >= until;
}

static uint64_t ns_from_now(uint64_t ms)
{
    return process_now_ns() + ms * 1000000;
}

// Schedules the next attempt after a failed one.
static void schedule_retry(enum outcome outcome, int64_t after_s)
{
    uint64_t pause =
        outcome == BUSY ? retry_refused(&queue.retry, after_s) : retry_no_answer(&queue.retry);
    queue.next = ns_from_now(pause);
    queue.asked = after_s > 0 ? ns_from_now(1000 * (uint64_t)after_s) : 0;
    if (queue.stopping) {
        uint64_t span = (uint64_t)LAST_PAUSE_MS
                        << (queue.last_attempts < 8 ? queue.last_attempts : 8);
        queue.last_attempts++;
        queue.next = ns_from_now(span / 2 + retry_random(&queue.retry, span / 2));
        if (queue.next < queue.asked)
            queue.next = queue.asked;
    }
}

// Sends one item. The lock is held on entry and return, but not while sending.
static void send_one(struct item *item)
{
    char why[256] = "";
    int64_t after_s;
    pthread_mutex_unlock(&queue.lock);
    enum outcome outcome = try_to_send(item, &after_s, why);
    pthread_mutex_lock(&queue.lock);
    if (outcome == TAKEN) {
        queue.counts.sent++;
        queue.counts.sent_bytes += item->body.n;
        free(item->body.p);
        free(item);
        queue.next = ns_from_now(retry_taken(&queue.retry, queue.first != NULL));
        queue.asked = 0;
        queue.last_attempts = 0;
        return;
    }
    queue.counts.failed++;
    // At the end, "timed out" is less useful than the previous error.
    if (!push_deadline_passed() || !*queue.counts.error)
        memcpy(queue.counts.error, why, sizeof why);
    if (outcome == REFUSED) {
        drop_item(item);
        return;
    }
    requeue_item(item);
    schedule_retry(outcome, after_s);
}

// When the first item may be sent.
static uint64_t next_send_time(void)
{
    if (queue.stopping)
        return queue.last_attempts ? queue.next : queue.asked;
    return queue.next > queue.first->ready ? queue.next : queue.first->ready;
}

static void *push_queue_main(void *context)
{
    static const bool never = false;
    struct err ignored;
    capture_heap_enter();
    heap_jemalloc_leave_out_thread();
    // Stop before the TLS library's exit handler runs: nothing can be sent after that.
    if (queue.target->url.tls && post_prepare(&queue.target->url, &ignored) == 0)
        atexit(push_stop);
    pthread_mutex_lock(&queue.lock);
    for (;;) {
        pthread_mutex_unlock(&queue.lock);
        own_thread_park_point();
        pthread_mutex_lock(&queue.lock);
        uint64_t until = atomic_load(&queue.until);
        if (!queue.first && !queue.stopping)
            pthread_cond_wait(&queue.changed, &queue.lock);
        else if (!queue.first || push_deadline_passed() || (until && next_send_time() >= until))
            break; // stopping, and nothing more can be sent in time
        else if (process_now_ns() >= next_send_time())
            send_one(pop_item());
        else
            queue_wait_until(queue.stopping ? &never : &queue.stopping, next_send_time());
    }
    for (struct item *item; (item = pop_item());)
        drop_item(item);
    queue.ended = true;
    pthread_cond_broadcast(&queue.changed);
    pthread_mutex_unlock(&queue.lock);
    return NULL;
}

// --- public functions ---

static void reset_queue(void)
{
    queue.first = NULL;
    queue.last = &queue.first;
    queue.n = queue.bytes = 0;
    queue.stopping = queue.ended = false;
    queue.next = queue.asked = 0;
    queue.last_attempts = 0;
    atomic_store(&queue.until, 0);
}

static void free_inherited(void)
{
    for (struct item *item; (item = queue.inherited);) {
        queue.inherited = item->next;
        free(item->body.p);
        free(item);
    }
}

int push_queue_start(const struct push_target *t, size_t limit, uint32_t seconds, struct err *e)
{
    pthread_mutex_lock(&queue.lock);
    process_condition_init(&queue.changed);
    free_inherited();
    reset_queue();
    queue.target = t;
    queue.limit = limit;
    retry_init(&queue.retry, seconds * UINT64_C(1000), retry_seed());
    // The windows of a whole fleet end at the same moment, so spread their pushes.
    queue.phase_ns = retry_random(&queue.retry, seconds * UINT64_C(1000000000) / 2);
    queue.counts = (struct kiln_push_statistics){0};
    pthread_mutex_unlock(&queue.lock);
    return own_thread_start(&queue.thread, push_queue_main, NULL, OWN_THREAD_FILES, "that pushes",
                            e);
}

void push_queue_wake(void)
{
    pthread_cond_broadcast(&queue.changed);
}

void push_queue_add(struct push_body body)
{
    struct item *item = malloc(sizeof *item);
    pthread_mutex_lock(&queue.lock);
    queue.counts.windows++;
    if (!item || body.n > queue.limit) {
        free(item);
        free(body.p);
        queue.counts.dropped++;
    } else {
        *item = (struct item){.body = body, .ready = process_now_ns() + queue.phase_ns};
        while (!queue_has_room(body.n))
            drop_item(pop_item());
        *queue.last = item;
        queue.last = &item->next;
        queue.n++;
        queue.bytes += body.n;
        pthread_cond_broadcast(&queue.changed);
    }
    pthread_mutex_unlock(&queue.lock);
}

bool push_queue_stop(void)
{
    pthread_mutex_lock(&queue.lock);
    if (!queue.stopping) {
        queue.stopping = true;
        atomic_store(&queue.until, process_now_ns() + PUSH_STOP_SECONDS * UINT64_C(1000000000));
        pthread_cond_broadcast(&queue.changed);
    }
    queue_wait_until(&queue.ended, atomic_load(&queue.until) + GRACE_NS);
    bool ended = queue.ended;
    pthread_mutex_unlock(&queue.lock);
    if (ended)
        pthread_join(queue.thread, NULL);
    return ended;
}

void push_queue_get_statistics(struct kiln_push_statistics *s)
{
    pthread_mutex_lock(&queue.lock);
    *s = queue.counts;
    s->queued = queue.n;
    s->queued_bytes = queue.bytes;
    pthread_mutex_unlock(&queue.lock);
}

void push_queue_before_fork(void)
{
    pthread_mutex_lock(&queue.lock);
}

void push_queue_after_fork_in_parent(void)
{
    pthread_mutex_unlock(&queue.lock);
}

// The parent sends what is queued. The allocator may not be usable yet, so free it later.
void push_queue_after_fork_in_child(void)
{
    if (queue.first)
        queue.inherited = queue.first;
    reset_queue();
    queue.counts = (struct kiln_push_statistics){0};
    pthread_mutex_unlock(&queue.lock);
}
