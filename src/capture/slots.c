// The slot table: hash chains by thread id, the free list, and the memory for slots, rings and
// lanes. Memory is mapped for many slots at a time, because a process may have few mappings left,
// and is never unmapped.
#include <string.h>
#include <sys/mman.h>

#include "capture/record.h"
#include "capture/signal_stack.h"
#include "capture/thread.h"
#include "process/memory.h"

struct capture_state capture_state;
pthread_mutex_t thread_slots_lock = PTHREAD_MUTEX_INITIALIZER;

enum {
    RING_WORDS = 4096,
    PAGE = 4096,
    SLAB_SLOTS = 64,
    SLAB_LANES = 16, // maximum lanes per mapping
    FEW_LANES = 256, // free lanes that keep their pages
};

static uint32_t free_slot; // index + 1
static struct {
    struct thread_lane *lanes[CAPTURE_MAX_THREADS];
    uint32_t n, n_cold; // the first n_cold have returned their pages
    uint32_t words;     // size of their rings
    uint32_t slab;      // lanes in the next mapping; doubles each time
    char *at, *end;     // unused rest of the last mapping
} free_lanes;

static uint32_t ring_words(void)
{
    uint32_t words = RING_WORDS;
    while (words < 8 * record_room(capture_state.depth))
        words *= 2;
    return words;
}

uint32_t capture_ring_records(void)
{
    // Up to one record's space may be lost at the end of the ring.
    return ring_words() / record_room(capture_state.depth) - 1;
}

// --- slots; thread_slots_lock is held ---

static bool add_slots(void)
{
    uint32_t n = atomic_load(&capture_state.n_slots), more = SLAB_SLOTS;
    uint32_t most = capture_state.most_slots ? capture_state.most_slots : CAPTURE_MAX_THREADS;
    if (n >= most)
        return false;
    if (more > most - n)
        more = most - n;
    struct capture_thread *slab = process_map(more * sizeof *slab);
    if (!slab)
        return false;
    for (uint32_t i = more; i-- > 0;) {
        struct capture_thread *t = &slab[i];
        t->index = n + i;
        pthread_mutex_init(&t->lock, NULL);
        atomic_store(&t->next, free_slot);
        free_slot = t->index + 1;
        atomic_store(&capture_state.slots[t->index], t);
    }
    atomic_store(&capture_state.n_slots, n + more);
    return true;
}

static _Atomic uint32_t *slot_bucket(pid_t tid)
{
    return &capture_state.buckets[(uint32_t)tid % THREAD_BUCKETS];
}

// Whether tid has a slot. also: count a slot that is not drained yet.
static bool has_slot(pid_t tid, bool also)
{
    for (uint32_t at = atomic_load(slot_bucket(tid)); at;) {
        const struct capture_thread *t = atomic_load(&capture_state.slots[at - 1]);
        uint32_t state = atomic_load(&t->state);
        if (atomic_load(&t->tid) == tid &&
            (also || state == THREAD_STARTING || state == THREAD_ARMED))
            return true;
        at = atomic_load(&t->next);
    }
    return false;
}

static struct capture_thread *slot_take_locked(pid_t tid, bool again, bool *full)
{
    if (!atomic_load(&capture_state.running) || has_slot(tid, !again))
        return NULL;
    if (!free_slot && !add_slots()) {
        *full = true;
        return NULL;
    }
    struct capture_thread *t = atomic_load(&capture_state.slots[free_slot - 1]);
    _Atomic uint32_t *bucket = slot_bucket(tid);
    free_slot = atomic_load(&t->next);
    atomic_store(&t->tid, tid);
    atomic_store(&t->state, THREAD_STARTING);
    atomic_store(&t->next, atomic_load(bucket));
    atomic_store(bucket, t->index + 1);
    atomic_fetch_add(&capture_state.n_live, 1);
    return t;
}

struct capture_thread *thread_slot_take(pid_t tid, bool again, bool *full)
{
    pthread_mutex_lock(&thread_slots_lock);
    struct capture_thread *t = slot_take_locked(tid, again, full);
    pthread_mutex_unlock(&thread_slots_lock);
    return t;
}

void thread_slot_free(struct capture_thread *t)
{
    signal_stack_release(&t->signal_stack);
    pthread_mutex_lock(&thread_slots_lock);
    _Atomic uint32_t *link = slot_bucket(atomic_load(&t->tid));
    atomic_fetch_add(&capture_state.removals, 1);
    while (atomic_load(link) != t->index + 1)
        link = &atomic_load(&capture_state.slots[atomic_load(link) - 1])->next;
    atomic_store(link, atomic_load(&t->next));
    atomic_store(&t->tid, 0);
    atomic_store(&t->state, THREAD_FREE);
    atomic_store(&t->next, free_slot);
    free_slot = t->index + 1;
    atomic_fetch_add(&capture_state.removals, 1);
    pthread_mutex_unlock(&thread_slots_lock);
}

// --- lanes; thread_slots_lock is held ---

static size_t ring_bytes(void)
{
    return sizeof(struct ring) + free_lanes.words * sizeof(uint64_t);
}

enum { LANE_BYTES = (sizeof(struct thread_lane) + 63) & ~63 };

// Size of a lane, its private ring and its cache, in whole pages. A thread that was never sampled
// touches only the first page.
static size_t lane_bytes(bool with_ring)
{
    size_t bytes = LANE_BYTES + (with_ring ? ring_bytes() : 0) + sizeof(struct unwind_cache);
    return (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
}

static void set_lane(struct thread_lane *lane, struct ring *shared)
{
    char *behind = (char *)lane + LANE_BYTES;
    lane->ring = shared ? shared : (struct ring *)behind;
    lane->cache = (struct unwind_cache *)(shared ? behind : behind + ring_bytes());
    lane->shared = shared;
}

static struct thread_lane *new_lane(void)
{
    struct ring *shared =
        capture_state.ring_memory ? capture_state.ring_memory(ring_bytes()) : NULL;
    size_t size = lane_bytes(!shared);
    if ((size_t)(free_lanes.end - free_lanes.at) < size) {
        free_lanes.slab = free_lanes.slab ? free_lanes.slab * 2 : 1;
        if (free_lanes.slab > SLAB_LANES)
            free_lanes.slab = SLAB_LANES;
        free_lanes.at = process_map(free_lanes.slab * size);
        free_lanes.end = free_lanes.at ? free_lanes.at + free_lanes.slab * size : NULL;
    }
    struct thread_lane *lane = (struct thread_lane *)free_lanes.at;
    if (!lane)
        return NULL;
    free_lanes.at += size;
    set_lane(lane, shared);
    return lane;
}

static void drop_free_lanes(void)
{
    free_lanes.n = free_lanes.n_cold = 0;
}

static struct thread_lane *pop_lane(void)
{
    // Rings of another size, from before a restart with another depth, are dropped.
    if (free_lanes.words != ring_words()) {
        drop_free_lanes();
        free_lanes.words = ring_words();
    }
    if (!free_lanes.n)
        return new_lane();
    struct thread_lane *lane = free_lanes.lanes[--free_lanes.n];
    if (free_lanes.n_cold > free_lanes.n)
        free_lanes.n_cold = free_lanes.n;
    if (!lane->ring) // its pages were returned
        set_lane(lane, NULL);
    return lane;
}

bool thread_lane_take(struct capture_thread *t)
{
    if (t->lane)
        return true;
    pthread_mutex_lock(&thread_slots_lock);
    struct thread_lane *lane = pop_lane();
    if (lane)
        lane->ring->size = free_lanes.words;
    pthread_mutex_unlock(&thread_slots_lock);
    if (!lane)
        return false;
    lane->ring->tid = (uint32_t)atomic_load(&t->tid);
    lane->ring->serial = t->serial;
    ring_set_name(lane->ring, (const char[RING_NAME]){0});
    t->last = NULL;
    atomic_store(&t->lane, lane);
    atomic_store(&t->ring, lane->ring); // from here on the drain may read it
    return true;
}

void thread_lane_free(struct capture_thread *t)
{
    struct thread_lane *lane = atomic_exchange(&t->lane, NULL);
    atomic_store(&t->ring, NULL);
    t->last = NULL;
    if (!lane)
        return;
    pthread_mutex_lock(&thread_slots_lock);
    if (lane->ring->size == free_lanes.words && free_lanes.n < CAPTURE_MAX_THREADS)
        free_lanes.lanes[free_lanes.n++] = lane;
    pthread_mutex_unlock(&thread_slots_lock);
    if (!atomic_load(&capture_state.running)) // no scan will do it
        thread_lanes_trim();
}

// Takes the least recently used lane that still has its pages.
static struct thread_lane *pop_warm_lane(void)
{
    if (free_lanes.n <= free_lanes.n_cold + FEW_LANES)
        return NULL;
    struct thread_lane **first = &free_lanes.lanes[free_lanes.n_cold], *lane = *first;
    *first = free_lanes.lanes[--free_lanes.n];
    return lane;
}

static void push_cold_lane(struct thread_lane *lane)
{
    struct thread_lane **first = &free_lanes.lanes[free_lanes.n_cold++];
    free_lanes.lanes[free_lanes.n++] = *first;
    *first = lane;
}

bool thread_lanes_trim(void)
{
    enum { SOME = 16 };
    struct thread_lane *lane = NULL;
    for (int i = 0; i < SOME; i++) {
        pthread_mutex_lock(&thread_slots_lock);
        uint32_t words = free_lanes.words;
        size_t bytes = lane_bytes(true);
        lane = pop_warm_lane();
        pthread_mutex_unlock(&thread_slots_lock);
        if (!lane)
            break;
        if (!lane->shared)
            madvise(lane, bytes, MADV_DONTNEED);
        pthread_mutex_lock(&thread_slots_lock);
        if (words == free_lanes.words)
            push_cold_lane(lane);
        pthread_mutex_unlock(&thread_slots_lock);
    }
    return lane;
}

// --- fork ---

static void reset_ring(struct ring *r)
{
    atomic_store(&r->tail, atomic_load(&r->head));
    atomic_store(&r->blocked, 0);
    atomic_store(&r->blocked_ns, 0);
    atomic_store(&r->unticked, 0);
    atomic_store(&r->unticked_ns, 0);
}

// A child that resets many slots and lanes copies all their pages, which takes milliseconds, and
// most children run another program soon. So the child leaves them and maps new ones if needed.
static void drop_slots(void)
{
    atomic_store(&capture_state.n_slots, 0);
    drop_free_lanes();
    free_lanes.at = free_lanes.end = NULL;
}

// Timers do not survive fork, so all slots become free. Rings in shared memory belong to the
// parent.
void thread_slots_after_fork_in_child(void)
{
    thread_slots_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    if (atomic_load(&capture_state.n_slots) > SLAB_SLOTS)
        drop_slots();
    if (capture_state.ring_memory)
        drop_free_lanes();
    for (uint32_t i = 0; i < THREAD_BUCKETS; i++)
        if (atomic_load(&capture_state.buckets[i]))
            atomic_store(&capture_state.buckets[i], 0);
    for (uint32_t i = 0; i < CAPTURE_MAX_THREADS / 64; i++)
        if (atomic_load(&capture_state.dirty[i]))
            atomic_store(&capture_state.dirty[i], 0);
    free_slot = 0;
    EACH_SLOT(t)
    {
        pthread_mutex_init(&t->lock, NULL);
        atomic_store(&t->state, THREAD_FREE);
        atomic_store(&t->inside, 0);
        atomic_store(&t->tid, 0);
        t->signal_stack = 0;
        atomic_store(&t->next, free_slot);
        free_slot = t->index + 1;
        if (t->lane && capture_state.ring_memory) {
            atomic_store(&t->lane, NULL);
            atomic_store(&t->ring, NULL);
        } else if (t->lane) {
            reset_ring(t->ring);
            thread_lane_free(t);
        }
    }
    atomic_store(&capture_state.removals, 0);
    atomic_store(&capture_state.n_live, 0);
}
