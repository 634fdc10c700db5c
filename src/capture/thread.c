#include "capture/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture/clock.h"
#include "capture/record.h"
#include "process/sandbox.h"

struct capture_state capture_state;
pthread_mutex_t thread_slots_lock = PTHREAD_MUTEX_INITIALIZER;

enum { RING_WORDS = 4096 };

static uint32_t ring_words(void)
{
    uint32_t words = RING_WORDS;
    while (words < 8 * record_room(capture_state.depth))
        words *= 2;
    return words;
}

uint32_t capture_ring_records(void)
{
    // One record's room may be left at the end of the ring.
    return ring_words() / record_room(capture_state.depth) - 1;
}

// Memory from the kernel alone.
static void *map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static struct ring *new_ring(void)
{
    uint32_t words = ring_words();
    size_t bytes = sizeof(struct ring) + words * sizeof(uint64_t);
    struct ring *r = capture_state.ring_memory ? capture_state.ring_memory(bytes) : NULL;
    if (!r)
        r = map(bytes);
    if (r)
        r->size = words;
    return r;
}

// A free slot whose ring is as long as it must be now.
static bool slot_serves(struct capture_thread *t)
{
    if (atomic_load(&t->state) != THREAD_FREE)
        return false;
    if (!t->ring)
        t->ring = new_ring();
    return t->ring && t->ring->size >= ring_words();
}

static struct capture_thread *new_slot(uint32_t index)
{
    struct capture_thread *t = map(sizeof *t);
    if (!t)
        return NULL;
    t->index = index;
    t->ring = new_ring();
    if (t->ring)
        return t;
    munmap(t, sizeof *t);
    return NULL;
}

static struct capture_thread *take_slot(void)
{
    uint32_t n = atomic_load(&capture_state.n_slots);
    for (uint32_t i = 0; i < n; i++) {
        struct capture_thread *t = atomic_load(&capture_state.slots[i]);
        if (slot_serves(t))
            return t;
    }
    if (n == CAPTURE_MAX_THREADS)
        return NULL;
    struct capture_thread *t = new_slot(n);
    if (!t)
        return NULL;
    atomic_store(&capture_state.slots[n], t);
    atomic_store(&capture_state.n_slots, n + 1);
    return t;
}

void thread_read_name(struct capture_thread *t)
{
    if (sandbox_scope() == SANDBOX_ALL_THREADS)
        return;
    char path[64] = "/proc/self/task/", digits[16];
    size_t at = strlen(path), n = 0;
    for (uint32_t v = (uint32_t)t->tid; v; v /= 10)
        digits[n++] = (char)('0' + v % 10);
    while (n)
        path[at++] = digits[--n];
    memcpy(path + at, "/comm", 6);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char name[CAPTURE_NAME];
    ssize_t got = fd < 0 ? 0 : read(fd, name, sizeof name);
    if (fd >= 0)
        close(fd);
    // A thread that is gone keeps the name that it had.
    if (got <= 0)
        return;
    while (got > 0 && (name[got - 1] == '\n' || got == sizeof name))
        got--;
    memset(t->ring->name, 0, CAPTURE_NAME);
    memcpy(t->ring->name, name, (size_t)got);
}

uint64_t thread_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t thread_cpu_ns(pid_t tid)
{
    struct timespec ts;
    if (clock_gettime(thread_cpu_clock(tid), &ts))
        return 0;
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t thread_process_cpu_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

// The thread's CPU time now; when it is gone, as last looked at.
static uint64_t latest_cpu_ns(struct capture_thread *t)
{
    uint64_t cpu = thread_cpu_ns(t->tid);
    if (cpu > t->cpu_last)
        t->cpu_last = cpu;
    return t->cpu_last;
}

uint64_t thread_take_unsampled(void)
{
    // The process first: what threads use until they are looked at makes the result smaller, and
    // next time has it.
    uint64_t process = thread_process_cpu_ns() - capture_state.cpu_began;
    uint64_t told = capture_state.cpu_retired + capture_state.cpu_unsampled;
    uint32_t n = atomic_load(&capture_state.n_slots);
    for (uint32_t i = 0; i < n; i++) {
        struct capture_thread *t = atomic_load(&capture_state.slots[i]);
        if (atomic_load(&t->state) == THREAD_ARMED)
            told += latest_cpu_ns(t) - t->cpu_born;
    }
    uint64_t periods = process > told ? (process - told) / capture_state.period_ns : 0;
    capture_state.cpu_unsampled += periods * capture_state.period_ns;
    return periods;
}

// The first tick comes after a random part of the period: a thread that lives shorter than
// one is then seen with the probability that it deserves.
static uint64_t first_expiry(uint64_t period)
{
    static _Atomic uint64_t state;
    uint64_t x = atomic_fetch_add(&state, 0x9e3779b97f4a7c15u) + capture_state.cookie;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return 1 + (x ^ (x >> 31)) % period;
}

static int create_clock(struct capture_thread *t)
{
    if (clock_open(t))
        return -1;
    uint64_t period = capture_state.period_ns, first = first_expiry(period);
    atomic_fetch_add(&t->arming, 1);
    atomic_store(&t->period_ns, period);
    atomic_store(&t->credit, 0);
    atomic_store(&t->settled, 0);
    t->cpu_seen = thread_cpu_ns(t->tid);
    t->ticks_seen = atomic_load(&t->ticks);
    atomic_store(&t->cpu_armed, t->cpu_seen);
    atomic_store(&t->ticks_armed, t->ticks_seen);
    atomic_store(&t->first_ns, first);
    atomic_fetch_add(&t->arming, 1);
    return clock_run(t, first, period);
}

struct capture_thread *thread_arm(pid_t tid)
{
    struct capture_thread *t = take_slot();
    if (!t) {
        capture_state.no_slot++;
        return NULL;
    }
    t->tid = tid;
    t->last = NULL;
    atomic_store(&t->stack_hi, 0);
    atomic_store(&t->thread_pointer, 0);
    t->found = true;
    atomic_fetch_add(&t->generation, 1);
    t->serial = ++capture_state.last_serial;
    t->name_read = 0;
    t->ring->tid = (uint32_t)tid;
    t->ring->serial = t->serial;
    t->ring->name[0] = '\0';
    thread_read_name(t);
    atomic_store(&t->state, THREAD_ARMED);
    if (create_clock(t)) {
        atomic_store(&t->state, THREAD_FREE);
        return NULL;
    }
    t->cpu_born = t->cpu_last = t->cpu_armed;
    return t;
}

static void retire(struct capture_thread *t, uint64_t cpu)
{
    capture_state.cpu_retired += cpu - t->cpu_born;
    capture_state.threads_moved = true;
    atomic_store(&t->state, THREAD_DISARMED);
}

void thread_disarm(struct capture_thread *t)
{
    uint32_t armed = THREAD_ARMED;
    if (!atomic_compare_exchange_strong(&t->state, &armed, THREAD_ENDING))
        return;
    clock_close(t);
    uint64_t cpu = latest_cpu_ns(t), due = thread_ticks_due(t, cpu);
    uint64_t ns = due * atomic_load(&t->period_ns) + atomic_exchange(&t->carried_ns, 0);
    due += atomic_exchange(&t->carried, 0);
    if (due && !handler_record_end(t, t->tid == (pid_t)syscall(SYS_gettid), due, ns)) {
        atomic_fetch_add(&t->ring->unticked, due);
        atomic_fetch_add(&t->ring->unticked_ns, ns);
    }
    retire(t, cpu);
}

void thread_rearm(struct capture_thread *t)
{
    // A signal that is on its way counts as not had.
    atomic_fetch_add(&t->generation, 1);
    clock_close(t);
    uint64_t cpu = latest_cpu_ns(t), due = thread_ticks_due(t, cpu);
    atomic_fetch_add(&t->carried_ns, due * atomic_load(&t->period_ns));
    atomic_fetch_add(&t->carried, due);
    if (create_clock(t)) {
        capture_state.no_slot++;
        retire(t, cpu);
    }
}

static uint64_t take_count(_Atomic uint64_t *counter)
{
    return atomic_exchange_explicit(counter, 0, memory_order_relaxed);
}

void thread_release(struct capture_thread *t)
{
    struct capture_counts *c = &capture_state.retired;
    c->ticks += take_count(&t->ticks);
    c->samples += take_count(&t->samples);
    c->ring_full += take_count(&t->ring_full);
    c->no_snapshot += take_count(&t->no_snapshot);
    for (int i = 0; i < UNWIND_END_COUNT; i++)
        c->ended[i] += take_count(&t->ended[i]);
    t->tid = 0;
    atomic_store(&t->state, THREAD_FREE);
}
