#include "process/process.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "process/own_threads.h"
#include "process/sandbox.h"

static _Atomic pid_t cached_pid;

// A direct system call: an allocator or a sandbox may interpose getpid.
static pid_t current_pid(void)
{
    return (pid_t)syscall(SYS_getpid);
}

pid_t process_pid(void)
{
    // Constructors of other objects may run before ours.
    pid_t pid = atomic_load_explicit(&cached_pid, memory_order_relaxed);
    if (!pid)
        atomic_store(&cached_pid, pid = current_pid());
    return pid;
}

// A page that the kernel clears in a forked child (MADV_WIPEONFORK).
static _Atomic uint32_t *original;

static void set_up_copy_detection(void)
{
    size_t bytes = (size_t)getpagesize();
    void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return;
    if (madvise(page, bytes, MADV_WIPEONFORK)) {
        munmap(page, bytes);
        return;
    }
    original = page;
    atomic_store(original, 1);
}

bool process_is_copy(void)
{
    return original && !atomic_load(original);
}

__thread uint32_t process_vfork_children[PROCESS_VFORK_LEVELS];

// Deeper levels share the last word.
uint32_t *process_vfork_begins(void)
{
    uint32_t depth = process_vfork_depth();
    sandbox_child_begins(depth + 1);
    return &process_vfork_children[depth < PROCESS_VFORK_LEVELS ? depth : depth - 1];
}

// Comparing pids alone is not enough: in another pid namespace a child may have our pid.
bool process_is_us(void)
{
    return !process_vfork_depth() && !process_is_copy() &&
           (sandbox_confines_caller() || process_pid() == current_pid());
}

bool process_is_privileged(void)
{
    return getauxval(AT_SECURE) != 0;
}

int process_check_start(struct err *e)
{
    if (process_is_privileged())
        return err_set(e, "profiling is disabled: this program runs with elevated privileges "
                          "(setuid, setgid or file capabilities)");
    if (sandbox_confines_caller())
        return err_set(e, "profiling is disabled: a seccomp filter of this thread kills on system "
                          "calls that the profiler makes; start it before the filter is installed");
    return 0;
}

const char *process_getenv(const char *name)
{
    return process_is_privileged() ? NULL : getenv(name);
}

// Weak: a static program has no loader, and its code is never unloaded.
extern __typeof__(dladdr1) dladdr1 __attribute__((weak));
extern __typeof__(dlopen) dlopen __attribute__((weak));

// libkiln.so is linked that way. Then the loader, which may take a lock, is not needed.
static bool is_never_unloaded(const struct link_map *map)
{
    for (const ElfW(Dyn) *d = map->l_ld; d && d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_FLAGS_1)
            return d->d_un.d_val & DF_1_NODELETE;
    return false;
}

void process_pin_library(void)
{
    static _Atomic bool pinned;
    Dl_info info;
    struct link_map *map = NULL;
    if (!dladdr1 || !dlopen || atomic_exchange(&pinned, true))
        return;
    // The main program's name is empty; it is never unloaded.
    if (dladdr1((void *)process_pin_library, &info, (void **)&map, RTLD_DL_LINKMAP) && map &&
        map->l_name && *map->l_name && !is_never_unloaded(map))
        dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static _Atomic(void (*)(void)) end_hook;

void process_on_end(void (*hook)(void))
{
    atomic_store(&end_hook, hook);
}

void process_before_end(void)
{
    void (*hook)(void) = atomic_load(&end_hook);
    if (hook)
        hook();
}

static _Atomic(void (*)(void)) trace_hook;

void process_on_trace(void (*hook)(void))
{
    atomic_store(&trace_hook, hook);
}

void process_before_trace(void)
{
    void (*hook)(void) = atomic_load(&trace_hook);
    if (hook)
        hook();
}

static _Atomic(process_set_action *) set_action;

void process_on_sigaction(process_set_action *set)
{
    atomic_store(&set_action, set);
}

bool process_sigaction(int signal, const struct process_action *wanted, struct process_action *old,
                       long *result)
{
    process_set_action *set = atomic_load(&set_action);
    return set && set(signal, wanted, old, result);
}

// --- fork ---

static _Atomic(const struct process_fork_hooks *) fork_subscribers[PROCESS_FORK_COUNT];
// Held during a fork. Otherwise a subscriber registered during a fork would release locks that it
// never took.
static pthread_mutex_t fork_subscribers_lock = PTHREAD_MUTEX_INITIALIZER;

// How many forks the calling thread is in. A fork handler that was registered before ours, or a
// signal handler, may fork in the middle of a fork, when this thread has our locks. Such a fork
// needs no preparation.
static __thread uint32_t forks_begun INITIAL_EXEC;

static void fork_before(void)
{
    if (forks_begun++)
        return;
    pthread_mutex_lock(&fork_subscribers_lock);
    for (int i = 0; i < PROCESS_FORK_COUNT; i++) {
        const struct process_fork_hooks *h = atomic_load(&fork_subscribers[i]);
        if (h && h->before)
            h->before();
    }
}

static void fork_in_parent(void)
{
    // 0: the child of such a fork, which has no locks.
    if (forks_begun != 1) {
        forks_begun = forks_begun ? forks_begun - 1 : 0;
        return;
    }
    for (int i = PROCESS_FORK_COUNT - 1; i >= 0; i--) {
        const struct process_fork_hooks *h = atomic_load(&fork_subscribers[i]);
        if (h && h->in_parent)
            h->in_parent();
    }
    pthread_mutex_unlock(&fork_subscribers_lock);
    forks_begun = 0;
}

// The preload hook may restart the profiler, so it runs last, after all others are reset.
static void fork_in_child(void)
{
    // A confined child must not call getpid; process_pid calls it later if needed.
    atomic_store(&cached_pid, sandbox_confines_caller() ? 0 : current_pid());
    if (original)
        atomic_store(original, 1);
    fork_subscribers_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    forks_begun = 0;
    own_threads_after_fork_in_child();
    for (int i = PROCESS_FORK_COUNT - 2; i >= -1; i--) {
        int order = i >= 0 ? i : PROCESS_FORK_PRELOAD;
        const struct process_fork_hooks *h = atomic_load(&fork_subscribers[order]);
        if (h && h->in_child)
            h->in_child();
    }
}

// Always registered, because a child may be the first to use the library. The malloc makes sure
// that the allocator's handlers, which release its locks in the child, are registered before ours:
// some, like jemalloc, register at their first allocation.
__attribute__((constructor(101))) static void register_fork_handlers(void)
{
    void *volatile first = malloc(1);
    free(first);
    process_pid();
    set_up_copy_detection();
    pthread_atfork(fork_before, fork_in_parent, fork_in_child);
}

void process_on_fork(enum process_fork_order order, const struct process_fork_hooks *hooks)
{
    pthread_mutex_lock(&fork_subscribers_lock);
    atomic_store(&fork_subscribers[order], hooks);
    pthread_mutex_unlock(&fork_subscribers_lock);
}
