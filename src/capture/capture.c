#include "capture/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// Guards the slots against being taken by two at once, and threads' names. Handlers never take it.
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;
// Guards the snapshot against being freed while somebody other than a handler reads it.
static pthread_mutex_t snapshot_lock = PTHREAD_MUTEX_INITIALIZER;
// Held while the loader is asked what is loaded.
static pthread_mutex_t loader_lock = PTHREAD_MUTEX_INITIALIZER;

#define EACH_SLOT(t)                                                               \
    for (uint32_t i_ = 0, n_ = atomic_load(&capture_state.n_slots); i_ < n_; i_++) \
        for (struct capture_thread *t = atomic_load(&capture_state.slots[i_]); t; t = NULL)

static uint64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

// --- unwind tables ---

// No handler is in a snapshot that was replaced once each thread was seen outside. False: one is
// inside for so long that it must have been stopped there, or gets no CPU time.
static bool wait_for_readers(void)
{
    uint64_t begin = now_ns();
    EACH_SLOT(t)
    while (atomic_load(&t->inside)) {
        if (now_ns() - begin > 1000000000u)
            return false;
        struct timespec pause = {.tv_nsec = 100000};
        nanosleep(&pause, NULL);
    }
    return true;
}

// Frees a snapshot that was replaced, now or when no handler is in it any more.
static void retire_snapshot(const struct unwind_snapshot *old)
{
    enum { MOST = 16 };
    static const struct unwind_snapshot *retired[MOST];
    static unsigned n;
    bool free_now = wait_for_readers();
    if (!free_now && n < MOST)
        retired[n++] = old; // with more than that, memory is what we lose
    for (; free_now && n > 0; n--)
        unwind_snapshot_free((struct unwind_snapshot *)retired[n - 1]);
    if (free_now)
        unwind_snapshot_free((struct unwind_snapshot *)old);
}

// 1 if there is a new one, 0 if the old one serves, -1 with e filled.
static int refresh_snapshot(struct err *e)
{
    const struct unwind_snapshot *old = atomic_load(&capture_state.snapshot);
    static uint64_t last_forced;
    bool unknown = atomic_exchange(&capture_state.unknown_pc, 0);
    // Code that no module explains may stay so: do not look for it all the time.
    if (unknown && old && now_ns() - last_forced < 5000000000u)
        unknown = false;
    pthread_mutex_lock(&loader_lock);
    if (old && !unknown && !unwind_snapshot_stale(old)) {
        pthread_mutex_unlock(&loader_lock);
        return 0;
    }
    if (unknown)
        last_forced = now_ns();
    struct unwind_snapshot *fresh = unwind_snapshot_build(old, e);
    pthread_mutex_unlock(&loader_lock);
    if (!fresh)
        return -1;
    capture_hold();
    atomic_store(&capture_state.snapshot, fresh);
    retire_snapshot(old);
    capture_release();
    return 1;
}

void capture_hold(void)
{
    pthread_mutex_lock(&snapshot_lock);
}

void capture_release(void)
{
    pthread_mutex_unlock(&snapshot_lock);
}

bool capture_refresh(void)
{
    if (!atomic_load(&capture_state.running) || capture_confined() == CAPTURE_ALL_CONFINED)
        return false;
    atomic_store(&capture_state.refresher, (int32_t)syscall(SYS_gettid));
    handler_keep();
    return refresh_snapshot(NULL) > 0;
}

const struct unwind_snapshot *capture_snapshot(void)
{
    return atomic_load(&capture_state.snapshot);
}

// --- threads ---

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
    else if ((t = thread_arm(tid)))
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
    pthread_mutex_lock(&slots_lock);
    // Still the same thread, and is it its own?
    if (atomic_load(&t->thread_pointer) == top && main_stack == (t->tid == capture_state.pid)) {
        atomic_store(&t->stack_lo, lo);
        atomic_store_explicit(&t->stack_hi, main_stack ? hi : top, memory_order_release);
    }
    pthread_mutex_unlock(&slots_lock);
}

static bool ends_with(const char *line, const char *end, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(end - line) >= n && memcmp(end - n, text, n) == 0;
}

// Where threads have their stacks: reads there need no check.
static void learn_stacks(void)
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
    if (capture_confined() == CAPTURE_ALL_CONFINED)
        return false;
    return atomic_load(&capture_state.running) && count_tasks() != atomic_load(&tasks_scanned);
}

static void scan_threads(void)
{
    pthread_mutex_lock(&slots_lock);
    if (!atomic_load(&capture_state.running)) {
        pthread_mutex_unlock(&slots_lock);
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
    pthread_mutex_unlock(&slots_lock);
    learn_stacks();
}

void capture_scan(void)
{
    if (!atomic_load(&capture_state.running) || capture_confined() == CAPTURE_ALL_CONFINED)
        return;
    refresh_snapshot(NULL);
    scan_threads();
}

static pid_t first_other;
static unsigned n_others;

static void count_other(pid_t tid)
{
    if (tid == (pid_t)syscall(SYS_gettid))
        return;
    first_other = tid;
    n_others++;
}

// The first thread of a process stays in the list when it has ended. *code: its exit code.
static bool has_ended(pid_t tid, int *code)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *p = strrchr(text, ')');
    if (!p || strncmp(p, ") Z", 3) != 0)
        return false;
    for (int field = 2; p && field < 52; field++)
        p = strchr(p + 1, ' ');
    *code = p ? (int)strtol(p, NULL, 10) >> 8 : 0;
    return true;
}

bool capture_is_alone(int *code)
{
    if (capture_confined() == CAPTURE_ALL_CONFINED)
        return false;
    n_others = 0;
    return each_task(count_other) && n_others == 1 && first_other == capture_state.pid &&
           has_ended(first_other, code);
}

static pthread_key_t at_exit;

// A thread that was cancelled before it began must not be so in the middle of this.
static int calm_down(void)
{
    int had;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &had);
    return had;
}

static void on_thread_exit(void *armed)
{
    capture_disarm_self();
}

static void make_key(void)
{
    pthread_key_create(&at_exit, on_thread_exit);
}

// What a handler knows to be mapped it need not ask the kernel about, which not every thread is
// allowed to.
static void set_own_stack(struct capture_thread *t)
{
    pthread_attr_t attributes;
    void *lo;
    size_t n;
    if (pthread_getattr_np(pthread_self(), &attributes))
        return;
    if (pthread_attr_getstack(&attributes, &lo, &n) == 0) {
        atomic_store(&t->stack_lo, (uintptr_t)lo);
        atomic_store_explicit(&t->stack_hi, (uintptr_t)lo + n, memory_order_release);
    }
    pthread_attr_destroy(&attributes);
}

void capture_arm_self(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    // A child of a bare clone or vfork has our memory, but it is not us.
    if (!atomic_load(&capture_state.running) || capture_confined() || capture_state.pid != getpid())
        return;
    int cancellation = calm_down();
    pthread_once(&once, make_key);
    pthread_setspecific(at_exit, &capture_state);
    pid_t tid = (pid_t)syscall(SYS_gettid);
    pthread_mutex_lock(&slots_lock);
    struct capture_thread *t = NULL;
    if (atomic_load(&capture_state.running) && !thread_find(tid))
        t = thread_arm(tid);
    if (t)
        set_own_stack(t);
    pthread_mutex_unlock(&slots_lock);
    pthread_setcancelstate(cancellation, NULL);
}

void capture_disarm_self(void)
{
    if (capture_confined() || capture_state.pid != getpid())
        return;
    pthread_mutex_lock(&slots_lock);
    struct capture_thread *t = thread_find((pid_t)syscall(SYS_gettid));
    if (t) {
        // Its last chance to tell what it is called.
        prctl(PR_GET_NAME, t->ring->name);
        thread_disarm(t);
    }
    pthread_mutex_unlock(&slots_lock);
}

void capture_settle(const struct unwind_regs *here)
{
    if (!atomic_load(&capture_state.running) || capture_confined())
        return;
    pthread_mutex_lock(&slots_lock);
    struct capture_thread *t = thread_find((pid_t)syscall(SYS_gettid));
    uint64_t set = UINT64_C(1) << (SIGPROF - 1), old;
    uint64_t cpu = t ? thread_cpu_ns(t->tid) : 0, due = t ? thread_ticks_due(t, cpu) : 0;
    if (due) {
        syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, &old, sizeof set);
        // One may have come before it was blocked.
        due = thread_ticks_due(t, cpu);
        if (due)
            handler_record_own(t, here, due, due * atomic_load(&t->period_ns));
        syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof set);
    }
    pthread_mutex_unlock(&slots_lock);
}

// --- start and stop ---

void capture_confine(enum capture_sandbox sandbox)
{
    if (sandbox > atomic_load(&capture_state.sandbox))
        atomic_store(&capture_state.sandbox, sandbox);
}

enum capture_sandbox capture_confined(void)
{
    return (enum capture_sandbox)atomic_load(&capture_state.sandbox);
}

void capture_set_ring_memory(void *(*get)(size_t bytes))
{
    capture_state.ring_memory = get;
}

int capture_start(const struct capture_options *o, struct err *e)
{
    if (o->hz < 1 || o->hz > 10000)
        return err_set(e, "the frequency is %u Hz; it must be 1 to 10000", o->hz);
    if (o->depth < 1 || o->depth > CAPTURE_MAX_DEPTH)
        return err_set(e, "the depth is %u frames; it must be 1 to %d", o->depth,
                       CAPTURE_MAX_DEPTH);
    if (atomic_load(&capture_state.running))
        return err_set(e, "sampling has been started already");
    if (handler_install(e))
        return -1;
    if (!atomic_load(&capture_state.cookie)) {
        uint32_t cookie;
        if (getrandom(&cookie, sizeof cookie, GRND_NONBLOCK) != sizeof cookie)
            cookie = (uint32_t)now_ns();
        atomic_store(&capture_state.cookie, cookie | 1);
    }
    capture_state.hz = o->hz;
    capture_state.depth = o->depth;
    capture_state.period_ns = 1000000000u / o->hz;
    // A child of fork has its parent's tables. It may also have the loader's lock in the hands of a
    // thread that is not there: looking for news is left to the background thread.
    if (!atomic_load(&capture_state.snapshot) && refresh_snapshot(e) < 0)
        return -1;
    capture_state.pid = getpid();
    capture_state.cpu_retired = capture_state.cpu_unsampled = 0;
    capture_state.cpu_began = thread_process_cpu_ns();
    atomic_store(&capture_state.running, 1);
    scan_threads();
    pid_t self = (pid_t)syscall(SYS_gettid);
    pthread_mutex_lock(&slots_lock);
    struct capture_thread *t = thread_find(self);
    if (!t) // threads cannot be listed
        t = thread_arm(self);
    pthread_mutex_unlock(&slots_lock);
    if (t)
        atomic_store(&t->thread_pointer, (uintptr_t)pthread_self());
    learn_stacks();
    return 0;
}

void capture_stop(void)
{
    pthread_mutex_lock(&slots_lock);
    atomic_store(&capture_state.running, 0);
    EACH_SLOT(t)
    thread_disarm(t);
    pthread_mutex_unlock(&slots_lock);
}

void capture_set_rate(uint32_t hz)
{
    pthread_mutex_lock(&slots_lock);
    capture_state.hz = hz;
    capture_state.period_ns = 1000000000u / hz;
    if (atomic_load(&capture_state.running))
        EACH_SLOT(t)
    if (atomic_load(&t->state) == THREAD_ARMED)
        thread_rearm(t);
    pthread_mutex_unlock(&slots_lock);
}

// As capture_stop, without the lock that an interrupted thread may hold.
void capture_end(void)
{
    atomic_store(&capture_state.running, 0);
    EACH_SLOT(t)
    thread_disarm(t);
}

bool capture_running(void)
{
    return atomic_load(&capture_state.running);
}

// --- samples ---

// Names are set after threads began, and changed: look again each second that has samples.
static void copy_name(struct capture_thread *t, char name[CAPTURE_NAME])
{
    pthread_mutex_lock(&slots_lock);
    uint64_t now = now_ns();
    if (atomic_load(&t->state) == THREAD_ARMED && now - t->name_read > 1000000000u) {
        thread_read_name(t);
        t->name_read = now;
    }
    memcpy(name, t->ring->name, CAPTURE_NAME);
    pthread_mutex_unlock(&slots_lock);
}

static void drain_thread(struct capture_thread *t, const char *name,
                         void (*take)(void *, const struct capture_sample *), void *context)
{
    uintptr_t pcs[CAPTURE_MAX_DEPTH];
    const uint64_t *words;
    while ((words = ring_peek(t->ring))) {
        uint32_t length = (uint32_t)(words[0] & 0xffff);
        uint32_t head = RING_HEAD + (words[0] & RING_HAS_IDS ? RING_IDS : 0);
        struct capture_ids ids = {{0}, 0};
        if (words[0] & RING_HAS_IDS)
            ids = (struct capture_ids){{words[3], words[4]}, words[5]};
        struct capture_sample sample = {
            .kind = words[0] & RING_UNTICKED ? CAPTURE_UNTICKED : CAPTURE_STACK,
            .tid = (uint32_t)t->tid,
            .serial = t->serial,
            .thread = name,
            .ids = words[0] & RING_HAS_IDS ? &ids : NULL,
            .label = (uint32_t)(words[0] >> 32),
            .ticks = words[1],
            .ns = words[2],
            .end = (enum unwind_end)(words[0] >> 16 & 0xff),
            .n = length - head,
            .pcs = pcs,
        };
        memcpy(pcs, words + head, sample.n * sizeof *pcs);
        ring_drop(t->ring, length);
        if (sample.kind == CAPTURE_UNTICKED)
            capture_state.retired.unticked += sample.ticks;
        take(context, &sample);
    }
}

// Ticks for which there is no stack.
static uint64_t take_rest(struct capture_thread *t, const char *name, enum capture_kind kind,
                          _Atomic uint64_t *ticks, _Atomic uint64_t *ns,
                          void (*take)(void *, const struct capture_sample *), void *context)
{
    struct capture_sample sample = {.kind = kind,
                                    .tid = (uint32_t)t->tid,
                                    .serial = t->serial,
                                    .thread = name,
                                    .ticks = atomic_exchange(ticks, 0),
                                    .ns = atomic_exchange(ns, 0)};
    if (sample.ticks)
        take(context, &sample);
    return sample.ticks;
}

// Threads that come and go leave something that no timer saw.
static void take_unsampled(void (*take)(void *, const struct capture_sample *), void *context)
{
    static const char nobody[CAPTURE_NAME];
    pthread_mutex_lock(&slots_lock);
    uint64_t ticks = capture_state.threads_moved ? thread_take_unsampled() : 0;
    capture_state.threads_moved = false;
    capture_state.retired.unsampled += ticks;
    pthread_mutex_unlock(&slots_lock);
    struct capture_sample sample = {.kind = CAPTURE_UNSAMPLED,
                                    .thread = nobody,
                                    .ticks = ticks,
                                    .ns = ticks * capture_state.period_ns};
    if (ticks)
        take(context, &sample);
}

void capture_drain(void (*take)(void *context, const struct capture_sample *sample), void *context)
{
    take_unsampled(take, context);
    EACH_SLOT(t)
    {
        uint32_t state = atomic_load(&t->state);
        if (state == THREAD_FREE)
            continue;
        char name[CAPTURE_NAME] = "";
        if (ring_peek(t->ring) || atomic_load(&t->ring->blocked) ||
            atomic_load(&t->ring->unticked)) {
            copy_name(t, name);
            drain_thread(t, name, take, context);
            capture_state.retired.blocked += take_rest(t, name, CAPTURE_BLOCKED, &t->ring->blocked,
                                                       &t->ring->blocked_ns, take, context);
            capture_state.retired.unticked +=
                take_rest(t, name, CAPTURE_UNTICKED, &t->ring->unticked, &t->ring->unticked_ns,
                          take, context);
        }
        if (state == THREAD_DISARMED && !atomic_load(&t->inside)) {
            pthread_mutex_lock(&slots_lock);
            thread_release(t);
            pthread_mutex_unlock(&slots_lock);
        }
    }
}

void capture_get_counts(struct capture_counts *c)
{
    *c = capture_state.retired;
    c->no_slot = capture_state.no_slot;
    EACH_SLOT(t)
    {
        c->ticks += atomic_load(&t->ticks);
        c->samples += atomic_load(&t->samples);
        c->ring_full += atomic_load(&t->ring_full);
        c->no_snapshot += atomic_load(&t->no_snapshot);
        for (int i = 0; i < UNWIND_END_COUNT; i++)
            c->ended[i] += atomic_load(&t->ended[i]);
        c->threads += atomic_load(&t->state) == THREAD_ARMED;
    }
}

// --- fork and exec ---

static pid_t forker;
static bool loader_is_held;

void capture_is_helper(void)
{
    atomic_store(&capture_state.helper, (int32_t)syscall(SYS_gettid));
}

// Somebody may fork while the loader waits for him: then a fork without our care is better than
// none.
void capture_before_fork(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 200000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    loader_is_held = pthread_mutex_timedlock(&loader_lock, &until) == 0;
    forker = (pid_t)syscall(SYS_gettid);
}

void capture_after_fork_in_parent(void)
{
    if (loader_is_held)
        pthread_mutex_unlock(&loader_lock);
}

// Timers do not survive fork; slots must not pretend they do.
void capture_after_fork_in_child(void)
{
    slots_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    snapshot_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    loader_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    atomic_store(&capture_state.running, 0);
    // The thread that asks the loader did not do so: it needs our lock for that.
    if (!loader_is_held)
        unwind_avoid_loader();
    EACH_SLOT(t)
    if (atomic_load(&t->state) == THREAD_ARMED && t->tid != forker &&
        t->tid != atomic_load(&capture_state.refresher) &&
        t->tid != atomic_load(&capture_state.helper))
        unwind_avoid_loader();
    EACH_SLOT(t)
    {
        atomic_store(&t->state, THREAD_FREE);
        atomic_store(&t->inside, 0);
        // Rings in shared memory are still the parent's.
        if (capture_state.ring_memory) {
            t->ring = NULL;
            continue;
        }
        atomic_store(&t->ring->tail, atomic_load(&t->ring->head));
        atomic_store(&t->ring->blocked, 0);
        atomic_store(&t->ring->unticked, 0);
    }
}

// A SIGPROF that is pending when exec happens kills the new program, which has no handler:
// the timer goes first and does not come back, then what it has sent.
bool capture_before_exec(void)
{
    if (!atomic_load(&capture_state.running) || capture_state.pid != getpid())
        return false;
    pthread_mutex_lock(&slots_lock);
    atomic_store(&capture_state.running, 0);
    pthread_mutex_unlock(&slots_lock);
    // Straight to the kernel: a mask that is set through libc may be ours to watch over.
    uint64_t set = UINT64_C(1) << (SIGPROF - 1), old;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, &old, sizeof set);
    capture_disarm_self();
    struct timespec zero = {0, 0};
    while (syscall(SYS_rt_sigtimedwait, &set, NULL, &zero, sizeof set) == SIGPROF)
        ;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof set);
    return true;
}

void capture_after_failed_exec(void)
{
    atomic_store(&capture_state.running, 1);
}
