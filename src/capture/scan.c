// What /proc tells of the threads: which there are, and where their stacks lie.
#include "capture/scan.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture/clock.h"
#include "capture/tables.h"
#include "capture/thread.h"
#include "process/sandbox.h"

struct directory_entry {
    uint64_t inode;
    int64_t offset;
    uint16_t length;
    uint8_t type;
    char name[];
};

// Calls visit for every thread of the process, without opendir's malloc. False: they cannot be
// listed, in a place without /proc for instance.
static bool each_task(void (*visit)(pid_t tid))
{
    int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    _Alignas(8) char buffer[4096];
    long n;
    while ((n = syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0) {
        for (long at = 0; at < n;) {
            const struct directory_entry *entry = (const struct directory_entry *)(buffer + at);
            pid_t tid = 0;
            for (const char *c = entry->name; *c >= '0' && *c <= '9'; c++)
                tid = tid * 10 + (*c - '0');
            if (tid)
                visit(tid);
            at += entry->length;
        }
    }
    close(fd);
    return true;
}

static void visit_task(pid_t tid)
{
    struct capture_thread *t = thread_find(tid);
    if (t)
        t->found = true;
    else if (!atomic_load(&capture_state.only_starts) && (t = thread_arm(tid)))
        thread_read_name(t);
}

// A thread whose clock moves but that gets no tick blocks the signal. What it used is
// credited, and taken off again if the kernel delivers it later as overrun.
static void credit_blocked(struct capture_thread *t)
{
    uint64_t cpu = thread_cpu_ns(t->tid), ticks = atomic_load(&t->ticks);
    uint64_t period = atomic_load(&t->period_ns);
    if (ticks != t->ticks_seen || cpu < t->cpu_seen) {
        t->ticks_seen = ticks;
        t->cpu_seen = cpu;
        return;
    }
    uint64_t missed = (cpu - t->cpu_seen) / period;
    // The kernel checks timers at its own pace: short silences mean nothing.
    if (missed < 4 || cpu - t->cpu_seen < 50000000u)
        return;
    t->cpu_seen += missed * period;
    atomic_fetch_add(&t->ring->blocked, missed);
    atomic_fetch_add(&t->ring->blocked_ns, missed * period);
    atomic_fetch_add(&t->credit, missed);
}

// A thread's stack ends below its thread pointer, in the same mapping; the main thread's has a
// name. The mapping that a thread happens to run in would not do: it may be a coroutine's, and
// reach into what is unmapped later.
static void learn_stack(struct capture_thread *t, uintptr_t lo, uintptr_t hi, bool main_stack)
{
    uintptr_t top = atomic_load(&t->thread_pointer);
    if (atomic_load(&t->state) != THREAD_ARMED || !top || atomic_load(&t->stack_hi) ||
        !(main_stack || (top > lo && top < hi)))
        return;
    pthread_mutex_lock(&thread_slots_lock);
    // Still the same thread, and is it its own?
    if (atomic_load(&t->thread_pointer) == top && main_stack == (t->tid == capture_state.pid)) {
        atomic_store(&t->stack_lo, lo);
        atomic_store_explicit(&t->stack_hi, main_stack ? hi : top, memory_order_release);
    }
    pthread_mutex_unlock(&thread_slots_lock);
}

static bool ends_with(const char *line, const char *end, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(end - line) >= n && memcmp(end - n, text, n) == 0;
}

void scan_stacks(void)
{
    bool wanted = false;
    EACH_SLOT(t)
    wanted |= atomic_load(&t->state) == THREAD_ARMED && atomic_load(&t->thread_pointer) &&
              !atomic_load(&t->stack_hi);
    int fd = wanted ? open("/proc/thread-self/maps", O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    char buffer[8192];
    size_t n = 0;
    ssize_t got;
    while ((got = read(fd, buffer + n, sizeof buffer - n)) > 0) {
        n += (size_t)got;
        char *line = buffer, *end;
        while ((end = memchr(line, '\n', n - (size_t)(line - buffer)))) {
            char *dash;
            uintptr_t lo = strtoul(line, &dash, 16);
            uintptr_t hi = *dash == '-' ? strtoul(dash + 1, &dash, 16) : 0;
            EACH_SLOT(t)
            learn_stack(t, lo, hi, ends_with(line, end, "[stack]"));
            line = end + 1;
        }
        n -= (size_t)(line - buffer);
        memmove(buffer, line, n);
    }
    close(fd);
}

// Its directory has a link for each thread.
static uint64_t count_tasks(void)
{
    struct stat st;
    return stat("/proc/self/task", &st) ? 0 : (uint64_t)st.st_nlink;
}

static _Atomic uint64_t tasks_scanned;

bool capture_threads_changed(void)
{
    if (sandbox_scope() == SANDBOX_ALL_THREADS)
        return false;
    return atomic_load(&capture_state.running) && count_tasks() != atomic_load(&tasks_scanned);
}

void scan_threads(void)
{
    pthread_mutex_lock(&thread_slots_lock);
    if (!atomic_load(&capture_state.running)) {
        pthread_mutex_unlock(&thread_slots_lock);
        return;
    }
    EACH_SLOT(t)
    t->found = false;
    atomic_store(&tasks_scanned, count_tasks());
    each_task(visit_task);
    capture_state.threads_moved = true; // threads without timers are not seen otherwise
    EACH_SLOT(t)
    {
        if (atomic_load(&t->state) != THREAD_ARMED)
            continue;
        // While threads come and go the kernel may leave some out that are there.
        if (t->found || thread_cpu_ns(t->tid))
            credit_blocked(t);
        else
            thread_disarm(t);
    }
    clock_keep_process();
    pthread_mutex_unlock(&thread_slots_lock);
    scan_stacks();
}

void capture_scan(void)
{
    if (!atomic_load(&capture_state.running) || sandbox_scope() == SANDBOX_ALL_THREADS)
        return;
    tables_refresh(NULL);
    scan_threads();
}
