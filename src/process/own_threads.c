#include "process/own_threads.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "process/call.h"
#include "process/clock.h"
#include "process/floating.h"
#include "process/memory.h"
#include "process/process.h"
#include "process/tasks.h"

enum { MOST_THREADS = 16, MOST_WAKERS = 8, LEAST_STACK = 256 << 10, MOST_STACK = 8 << 20 };
// A change may have to wait for a push, which takes up to five seconds.
enum { PARK_TIMEOUT_MS = 1000, CHANGE_TIMEOUT_MS = 6000 };
enum { LIBC_CANCEL = 32, LIBC_SETXID = 33 }; // glibc's SIGCANCEL and SIGSETXID

static struct {
    _Atomic pid_t tids[MOST_THREADS]; // 0: free; negative: about to end
    _Atomic uint32_t starting;        // threads that have not called `started` yet
    _Atomic uint32_t parked;          // number of parked threads
    _Atomic uint32_t park;            // a futex: 1 while threads must stay parked
    _Atomic uint32_t changes;         // changes in progress
    _Atomic bool settled;             // no new changes may begin
    _Atomic bool blocks_sigprof;
    _Atomic(void (*)(void)) wakers[MOST_WAKERS];
    _Atomic(void (*)(void)) started;
} own;

__thread bool own_thread_is_caller, own_thread_has_files;

static const uint64_t sigprof = UINT64_C(1) << (SIGPROF - 1);

// A direct system call: libc's function may be our own interposer.
static void own_thread_set_mask(int how, const uint64_t *set, uint64_t *old)
{
    syscall(SYS_rt_sigprocmask, how, set, old, sizeof *set);
}

// Not from malloc: it is freed by the new thread, while a program that has only one thread itself
// may have an allocator that can bear no second one.
static struct start {
    _Atomic bool taken;
    void *(*run)(void *);
    void *context;
    unsigned flags;
} starts[MOST_THREADS];

static struct start *take_start(void)
{
    for (int i = 0; i < MOST_THREADS; i++)
        if (!atomic_exchange(&starts[i].taken, true))
            return &starts[i];
    return NULL;
}

// The program may define pthread_create, for instance to count its threads, and need not see ours.
// But a sanitizer has to know of each thread; it replaces the functions for mutexes as well.
static __typeof__(&pthread_create) create_thread = pthread_create;

#ifndef __SANITIZE_THREAD__
// Weak: a static program has no loader.
extern __typeof__(dlsym) dlsym __attribute__((weak));

__attribute__((constructor(101))) static void find_thread_create(void)
{
    __typeof__(&pthread_create) create = dlsym ? dlsym(RTLD_NEXT, "pthread_create") : NULL;
    if (create && dlsym(RTLD_NEXT, "pthread_mutex_lock") == (void *)pthread_mutex_lock)
        create_thread = create;
}
#endif

static bool has_thread_ended(pid_t tid)
{
    return process_call(SYS_tgkill, process_pid(), tid, 0, 0, 0, 0) != 0;
}

static void register_own_thread(void)
{
    pid_t tid = (pid_t)syscall(SYS_gettid);
    for (int i = 0; i < MOST_THREADS; i++) {
        pid_t old = atomic_load(&own.tids[i]);
        if ((old == 0 || (old < 0 && has_thread_ended(-old))) &&
            atomic_compare_exchange_strong(&own.tids[i], &old, tid))
            break;
    }
}

// After this the thread still makes the system calls by which libc ends a thread.
static void unregister_own_thread(void)
{
    pid_t tid = (pid_t)syscall(SYS_gettid);
    for (int i = 0; i < MOST_THREADS; i++) {
        pid_t mine = tid;
        atomic_compare_exchange_strong(&own.tids[i], &mine, -tid);
    }
}

bool own_thread_unshare_files(int keep)
{
#ifdef __SANITIZE_THREAD__
    // TSan identifies a descriptor by its number, process-wide. With two descriptor tables it
    // reports false races.
    return false;
#endif
    // With an open-ended range, the kernel copies only the descriptors below it.
    if (syscall(SYS_close_range, keep + 1, ~0u, CLOSE_RANGE_UNSHARE))
        return false;
    own_thread_has_files = true;
    if (keep > 0)
        syscall(SYS_close_range, 0, keep - 1, 0);
    // Third-party code that we call may write to standard error, so keep descriptors 0 to 2 in use.
    long fd;
    while ((fd = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC)) >= 0 &&
           fd <= STDERR_FILENO)
        ;
    if (fd >= 0)
        syscall(SYS_close, fd);
    return true;
}

static void *own_thread_main(void *context)
{
    struct start *given = context;
    void *(*run)(void *) = given->run;
    void *run_context = given->context;
    unsigned flags = given->flags;
    atomic_store(&given->taken, false); // another thread may use the entry from here on
    // A thread inherits traps from the one that starts it.
    floating_hold();
    own_thread_is_caller = true;
    // A direct system call: libc's prctl may be our own interposer.
    syscall(SYS_prctl, PR_SET_NAME, OWN_THREAD_NAME, 0, 0, 0);
    register_own_thread();
    // After registration: own_threads_block_sigprof sets the flag first and then signals registered
    // threads.
    if (!atomic_load(&own.blocks_sigprof))
        own_thread_set_mask(SIG_UNBLOCK, &sigprof, NULL);
    if (flags & OWN_THREAD_FILES)
        own_thread_unshare_files(-1);
    void (*started)(void) = atomic_load(&own.started);
    if (started)
        started();
    atomic_fetch_sub(&own.starting, 1);
    void *result = run(run_context);
    unregister_own_thread();
    return result;
}

int own_thread_start(pthread_t *thread, void *(*run)(void *context), void *context, unsigned flags,
                     const char *what, struct err *e)
{
    struct start *start = take_start();
    pthread_attr_t attributes;
    if (!start)
        return err_set(e, "cannot start a thread %s: too many are starting", what);
    start->run = run;
    start->context = context;
    start->flags = flags;
    pthread_attr_init(&attributes);
    // The default stack size is the main thread's limit, which may be anything, or what the program
    // chose for its threads.
    size_t stack = 0;
    pthread_attr_getstacksize(&attributes, &stack);
    size_t wanted = process_memory_share(stack < MOST_STACK ? stack : MOST_STACK);
    if (wanted < LEAST_STACK)
        wanted = LEAST_STACK;
    if (wanted != stack)
        pthread_attr_setstacksize(&attributes, wanted & ~(size_t)4095);
    if (flags & OWN_THREAD_DETACHED)
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    // The program's signals belong to its own threads, and SIGPROF stays blocked until the thread
    // is registered. libc's internal signals must get through.
    uint64_t blocked = ~(UINT64_C(1) << (LIBC_CANCEL - 1) | UINT64_C(1) << (LIBC_SETXID - 1)), old;
    atomic_fetch_add(&own.starting, 1);
    own_thread_set_mask(SIG_BLOCK, &blocked, &old);
    int failed = create_thread(thread, &attributes, own_thread_main, start);
    own_thread_set_mask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
    if (!failed)
        return 0;
    atomic_fetch_sub(&own.starting, 1);
    atomic_store(&start->taken, false);
    return err_set(e, "cannot start a thread %s: %s", what, strerror(failed));
}

bool own_thread_is_asked_to_block(const siginfo_t *info)
{
    return own_thread_is_caller && info->si_code == SI_QUEUE && info->si_ptr == &own;
}

void own_threads_block_sigprof(void)
{
    siginfo_t request = {.si_signo = SIGPROF, .si_code = SI_QUEUE};
    request.si_ptr = &own;
    if (atomic_exchange(&own.blocks_sigprof, true))
        return;
    for (int i = 0; i < MOST_THREADS; i++) {
        pid_t tid = atomic_load(&own.tids[i]);
        if (tid > 0)
            process_call(SYS_rt_tgsigqueueinfo, process_pid(), tid, SIGPROF, (long)&request, 0, 0);
    }
}

bool own_thread_is(pid_t tid)
{
    for (int i = 0; tid > 0 && i < MOST_THREADS; i++)
        if (atomic_load(&own.tids[i]) == tid)
            return true;
    return false;
}

void own_threads_on_start(void (*started)(void))
{
    atomic_store(&own.started, started);
}

uint32_t own_threads_starting(void)
{
    return atomic_load(&own.starting);
}

void own_threads_visit(void (*visit)(void *context, pid_t tid), void *context)
{
    for (int i = 0; i < MOST_THREADS; i++) {
        pid_t tid = atomic_load(&own.tids[i]);
        if (tid > 0)
            visit(context, tid);
    }
}

uint64_t own_threads_cpu_ns(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < MOST_THREADS; i++) {
        pid_t tid = atomic_load(&own.tids[i]);
        sum += tid > 0 ? process_thread_cpu_ns(tid) : 0;
    }
    return sum;
}

// Number of our threads that run, are about to start, or have not quite ended.
static uint32_t count_own_threads(void)
{
    uint32_t n = atomic_load(&own.starting);
    for (int i = 0; i < MOST_THREADS; i++) {
        pid_t tid = atomic_load(&own.tids[i]);
        n += tid > 0 || (tid < 0 && !has_thread_ended(-tid));
    }
    return n;
}

// --- are only our threads left? ---

// Reads the thread's /proc stat line and returns it from the state field on; an empty string if
// there is no such thread.
static const char *read_thread_stat(pid_t tid, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *p = strrchr(text, ')');
    return p ? p + 1 : text + strlen(text);
}

// number as in proc(5).
static long thread_stat_field(const char *p, int number)
{
    for (int field = 3; p && field < number; field++)
        p = strchr(p + 1, ' ');
    return p ? strtol(p, NULL, 10) : 0;
}

// Returns 1 if the thread still has its memory, 0 if it has ended, and a negative value if the
// kernel does not say. Needs neither /proc nor a descriptor.
static int has_memory(pid_t tid)
{
    char byte, some = 0;
    struct iovec to = {&byte, 1}, from = {&some, 1};
    long result = process_call(SYS_process_vm_readv, tid, (long)&to, 1, (long)&from, 1, 0);
    return result == -ESRCH ? 0 : (int)result;
}

// After the main thread has ended, it stays listed as a zombie. *status: as reported by wait, or 0
// if /proc cannot be read.
static bool main_thread_has_ended(pid_t tid, int *status)
{
    char text[512];
    const char *p = read_thread_stat(tid, text, sizeof text);
    *status = *p ? (int)thread_stat_field(p, 52) : 0;
    return *p ? strncmp(p, " Z", 2) == 0 : has_memory(tid) == 0;
}

// Threads such as io_uring's, which end together with the process.
static bool is_kernel_worker(pid_t tid)
{
    enum { IO_WORKER = 0x10, USER_WORKER = 0x4000 };
    char text[512];
    return thread_stat_field(read_thread_stat(tid, text, sizeof text), 9) &
           (IO_WORKER | USER_WORKER);
}

static void find_program_thread(void *context, pid_t tid)
{
    bool *others = context;
    if (!*others)
        *others =
            tid != (pid_t)syscall(SYS_getpid) && !own_thread_is(tid) && !is_kernel_worker(tid);
}

// Returns whether the process has such a thread, and true if the kernel does not say: a seccomp
// filter may return an error for tgkill. Clocks of threads are valid in their own process only.
static bool has_thread(pid_t pid, pid_t tid)
{
    struct timespec now;
    long result = process_call(SYS_tgkill, pid, tid, 0, 0, 0, 0);
    if (result == 0 || result == -ESRCH)
        return result == 0;
    return process_call(SYS_clock_gettime, process_thread_clock(tid), (long)&now, 0, 0, 0, 0) !=
           -EINVAL;
}

// Without /proc (after chroot, without descriptors): asks for every id that a thread may have,
// which takes some tenths of a second. As long as the thread that was found lives, it is asked for
// alone.
static bool finds_others_by_id(pid_t pid)
{
    enum { MOST_IDS = 1 << 22 };
    static pid_t found = 1;
    for (pid_t i = 0; i < MOST_IDS; i++) {
        pid_t tid = 1 + (found - 1 + i) % MOST_IDS;
        if (tid == pid || !has_thread(pid, tid) || own_thread_is(tid))
            continue;
        found = tid;
        return true;
    }
    return false;
}

bool own_threads_are_alone(int *status)
{
    bool others = false;
    int64_t position = 0;
    pid_t pid = (pid_t)syscall(SYS_getpid);
    if (has_memory(pid) > 0 || !main_thread_has_ended(pid, status))
        return false;
    if (!process_list_tasks(&position, find_program_thread, NULL, &others))
        others = finds_others_by_id(pid);
    return !others;
}

// Ends the process by the signal that ended only the main thread, as seccomp does.
static void exit_by_signal(int signal)
{
    uint64_t none = 0;
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigaction(signal, &plain, NULL);
    syscall(SYS_kill, syscall(SYS_getpid), signal);
    own_thread_set_mask(SIG_SETMASK, &none, NULL);
}

// Turns the caller into a thread of the program: it runs the program's exit handlers, so signals
// reach it, and parking does not wait for it.
static void become_program_thread(void)
{
    pid_t tid = (pid_t)syscall(SYS_gettid);
    uint64_t none = 0;
    for (int i = 0; i < MOST_THREADS; i++) {
        pid_t mine = tid;
        atomic_compare_exchange_strong(&own.tids[i], &mine, 0);
    }
    own_thread_is_caller = false;
    own_thread_set_mask(SIG_SETMASK, &none, NULL);
}

// libc runs exit handlers when the last thread ends. If the main thread ended by a bare system call
// with a nonzero code, or was killed, the kernel ends the process with that status and runs no
// handlers.
_Noreturn void own_thread_end_process(int status)
{
    if (status == 0) {
        become_program_thread();
        exit(0);
    }
    process_before_end();
    if (status & 0x7f)
        exit_by_signal(status & 0x7f);
    for (;;)
        syscall(SYS_exit_group, status >> 8 & 0xff);
}

// --- parking ---

static void own_threads_futex(_Atomic uint32_t *word, int operation, uint32_t value)
{
    syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

bool own_threads_parking(void)
{
    return atomic_load(&own.park);
}

void own_thread_park_point(void)
{
    if (!own_threads_parking())
        return;
    // Block signals: one would end the wait and cause another system call, which may be forbidden
    // by then. But setuid and similar calls wait until every thread has handled libc's internal
    // signal; a filter that lets the program's threads do so lets ours, too.
    uint64_t all = ~(UINT64_C(1) << (LIBC_SETXID - 1)), old;
    own_thread_set_mask(SIG_SETMASK, &all, &old);
    atomic_fetch_add(&own.parked, 1);
    while (atomic_load(&own.park))
        own_threads_futex(&own.park, FUTEX_WAIT, 1);
    atomic_fetch_sub(&own.parked, 1);
    own_thread_set_mask(SIG_SETMASK, &old, NULL);
}

void own_threads_on_park(void (*wake)(void))
{
    for (int i = 0; i < MOST_WAKERS; i++) {
        void (*no_waker)(void) = NULL;
        if (atomic_load(&own.wakers[i]) == wake ||
            atomic_compare_exchange_strong(&own.wakers[i], &no_waker, wake))
            return;
    }
}

bool own_threads_begin_change(void)
{
    atomic_fetch_add(&own.changes, 1);
    if (!atomic_load(&own.settled))
        return true;
    own_threads_end_change();
    return false;
}

void own_threads_end_change(void)
{
    atomic_fetch_sub(&own.changes, 1);
}

// A thread that joins another must not wait for one that is parked.
static void wait_for_changes(void)
{
    uint64_t until = process_now_ns() + CHANGE_TIMEOUT_MS * UINT64_C(1000000);
    atomic_store(&own.settled, true);
    while (atomic_load(&own.changes) && process_now_ns() < until)
        process_sleep_ns(500000);
}

bool own_threads_park(void)
{
    wait_for_changes();
    uint64_t until = process_now_ns() + PARK_TIMEOUT_MS * UINT64_C(1000000);
    atomic_store(&own.park, 1);
    bool all = count_own_threads() == 0;
    for (unsigned round = 0; !all && process_now_ns() < until; round++) {
        for (int i = 0; i < MOST_WAKERS && round % 16 == 0; i++) {
            void (*wake)(void) = atomic_load(&own.wakers[i]);
            if (wake)
                wake();
        }
        process_sleep_ns(500000);
        all = atomic_load(&own.parked) >= count_own_threads();
    }
    if (!all)
        return false;
    // A thread counts itself just before its futex call: give the last one time to get there.
    process_sleep_ns(2000000);
    return true;
}

void own_threads_release(void)
{
    atomic_store(&own.park, 0);
    atomic_store(&own.settled, false);
    own_threads_futex(&own.park, FUTEX_WAKE, MOST_THREADS);
}

void own_threads_after_fork_in_child(void)
{
    for (int i = 0; i < MOST_THREADS; i++) {
        atomic_store(&own.tids[i], 0);
        atomic_store(&starts[i].taken, false);
    }
    atomic_store(&own.starting, 0);
    atomic_store(&own.parked, 0);
    atomic_store(&own.park, 0);
    atomic_store(&own.changes, 0);
    atomic_store(&own.settled, false);
}
