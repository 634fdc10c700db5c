// usage: traps CASE LIBKILN SLOW_PLUGIN
//
// One trap each that a profiler was once caught in, set so that it snaps every time: the process
// hangs, crashes or says what is wrong unless it is avoided. Prints `ok`.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <kiln/kiln.h>

// `closed` is run without the library linked.
#pragma weak kiln_start
#pragma weak kiln_stop
#pragma weak kiln_window_begin
#pragma weak kiln_window_write
#pragma weak kiln_get_statistics

static const char *libkiln, *slow_plugin;
static volatile unsigned long sink;

static void fail(const char *what)
{
    dprintf(STDERR_FILENO, "%s (errno %d)\n", what, errno);
    _exit(3);
}

static double cpu(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void burn(double seconds)
{
    double end = cpu(CLOCK_THREAD_CPUTIME_ID) + seconds;
    while (cpu(CLOCK_THREAD_CPUTIME_ID) < end)
        for (unsigned i = 0; i < 1000; i++)
            sink += i;
}

static void start(uint32_t hz)
{
    struct kiln_options options = {.size = sizeof options, .frequency = hz};
    struct kiln_error error;
    if (kiln_start(&options, &error))
        fail(error.message);
}

static void *nothing(void *context)
{
    pause();
    return NULL;
}

// A thread that is cancelled before it begins dies at its first cancellation point. If that is
// in the profiler, so does its lock.
static void cancelled(void)
{
    start(100);
    for (unsigned i = 0; i < 200; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, nothing, NULL) || pthread_cancel(thread) ||
            pthread_join(thread, NULL))
            fail("threads");
    }
    kiln_stop();
}

// The same in the middle of a call.
static void *call_cancelled(void *context)
{
    pthread_cancel(pthread_self());
    start(100);
    kiln_window_write(kiln_window_begin(NULL), -1, NULL);
    kiln_stop();
    pthread_testcancel();
    return NULL;
}

static void cancelled_inside(void)
{
    pthread_t thread;
    void *result;
    if (pthread_create(&thread, NULL, call_cancelled, NULL) || pthread_join(thread, &result))
        fail("thread");
    if (result != PTHREAD_CANCELED)
        fail("not cancelled at all");
    start(100);
    kiln_stop();
}

static void *load_slowly(void *context)
{
    if (!dlopen(slow_plugin, RTLD_NOW))
        fail(dlerror());
    return NULL;
}

// Nobody has to wait for the loader's lock who would not without us, least of all a child of fork,
// where the thread that has it is not there.
static void calls_while_loading(void)
{
    pthread_t thread;
    start(100);
    if (pthread_create(&thread, NULL, load_slowly, NULL))
        fail("thread");
    usleep(200000);
    double begin = cpu(CLOCK_MONOTONIC);
    sigset_t none;
    sigemptyset(&none);
    if (sigprocmask(SIG_SETMASK, &none, NULL) || sigaction(SIGUSR1, NULL, NULL))
        fail("signals");
    if (cpu(CLOCK_MONOTONIC) - begin > 0.4)
        fail("sigprocmask waits for the loader");
    pid_t child = fork();
    if (child == 0) {
        alarm(5);
        sigset_t set;
        sigemptyset(&set);
        struct sigaction action = {.sa_handler = SIG_IGN};
        sigaction(SIGUSR1, &action, NULL);
        sigprocmask(SIG_SETMASK, &set, NULL);
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status != 0)
        fail("the child hangs");
    pthread_join(thread, NULL);
}

// The handler and the thread stay when the library is closed.
static void closed(void)
{
    void *library = dlopen(libkiln, RTLD_NOW);
    if (!library)
        fail(dlerror());
    int (*begin)(const struct kiln_options *, struct kiln_error *) = dlsym(library, "kiln_start");
    struct kiln_options options = {.size = sizeof options, .frequency = 1000};
    if (!begin || begin(&options, NULL))
        fail("not started");
    dlclose(library);
    burn(0.3);
}

// An alternate stack with room for one frame of the kernel's and a small handler.
static void on_small(int signal)
{
    for (unsigned long i = 0; i < 200000000; i++)
        sink += i;
}

static void small_stack(void)
{
    enum { BELOW = 65536 };
    start(1000);
    size_t size = getauxval(AT_MINSIGSTKSZ) + 512;
    unsigned char *memory = malloc(BELOW + size);
    memset(memory, 0xa5, BELOW);
    stack_t stack = {.ss_sp = memory + BELOW, .ss_size = size};
    struct sigaction action = {.sa_handler = on_small, .sa_flags = SA_ONSTACK}, had;
    if (sigaltstack(&stack, NULL) || sigaction(SIGUSR1, &action, NULL) ||
        sigaction(SIGUSR1, NULL, &had))
        fail("sigaltstack");
    if (sigismember(&had.sa_mask, SIGPROF))
        fail("the mask is not the program's");
    burn(0.3);
    raise(SIGUSR1);
    for (unsigned i = 0; i < BELOW; i++)
        if (memory[i] != 0xa5)
            fail("written below the alternate stack");
}

// A frame pointer that leads into what used to be part of the mapping of the stack.
#if defined(__x86_64__)
static ucontext_t inside, outside;
static char *region;
enum { REGION = 1 << 20 };

// push %rbp; mov %rsi,%rbp; 1: dec %rdi; jnz 1b; pop %rbp; ret
static const unsigned char wild_code[] = {0x55, 0x48, 0x89, 0xf5, 0x48, 0xff,
                                          0xcf, 0x75, 0xfb, 0x5d, 0xc3};

static void on_region(void)
{
    burn(2.5); // until the profiler has looked where stacks are
    char *code =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, wild_code, sizeof wild_code);
    if (munmap(region + REGION / 2, REGION / 2))
        fail("munmap");
    void (*wild)(uint64_t, uintptr_t) = (void (*)(uint64_t, uintptr_t))(void *)code;
    wild(400000000, (uintptr_t)region + REGION / 2 + 65536);
}

static void *run_region(void *context)
{
    if (getcontext(&inside))
        fail("getcontext");
    inside.uc_stack.ss_sp = region;
    inside.uc_stack.ss_size = REGION / 2;
    inside.uc_link = &outside;
    makecontext(&inside, on_region, 0);
    swapcontext(&outside, &inside);
    return NULL;
}

static void wild_pointer(void)
{
    pthread_t thread;
    start(1000);
    region = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (region == MAP_FAILED || pthread_create(&thread, NULL, run_region, NULL) ||
        pthread_join(thread, NULL))
        fail("thread");
}
#endif

// Timers are signals that may be queued: where those are few, threads go without.
static void *burn_some(void *context)
{
    burn(0.1);
    return NULL;
}

static void no_timers(void)
{
    struct rlimit none = {0, 0};
    start(1000);
    if (setrlimit(RLIMIT_SIGPENDING, &none))
        fail("setrlimit");
    double before = cpu(CLOCK_PROCESS_CPUTIME_ID);
    pthread_t threads[8];
    for (unsigned i = 0; i < 8; i++)
        if (pthread_create(&threads[i], NULL, burn_some, NULL))
            fail("thread");
    for (unsigned i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    double used = cpu(CLOCK_PROCESS_CPUTIME_ID) - before;
    usleep(1500000);
    struct kiln_statistics s = {.size = sizeof s};
    kiln_get_statistics(&s);
    double told = (double)(s.ticks + s.blocked + s.unticked + s.unsampled) / 1000;
    if (told < used * 0.95)
        fail("CPU time of threads without timers is not told");
}

// Starting and stopping from everywhere at once.
static void *restart(void *context)
{
    struct kiln_options options = {.size = sizeof options, .frequency = 1000};
    for (unsigned i = 0; i < 100; i++) {
        kiln_start(&options, NULL);
        kiln_window_write(kiln_window_begin(NULL), -1, NULL);
        kiln_stop();
    }
    return NULL;
}

static void restarts(void)
{
    pthread_t threads[4];
    for (unsigned i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, restart, NULL))
            fail("thread");
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    start(1000); // it can still be started, and samples
    burn(0.2);
    struct kiln_statistics s = {.size = sizeof s};
    kiln_get_statistics(&s);
    if (s.ticks < 50)
        fail("no ticks after many starts and stops");
    kiln_stop();
}

struct kernel_action {
    uintptr_t handler;
    unsigned long flags;
    uintptr_t restorer;
    uint64_t mask;
};

// Asks the kernel: from libc's syscall(), libkiln answers with the program's own action.
static long read_kernel_action(int signal, struct kernel_action *action)
{
#if defined(__x86_64__)
    long result;
    register long size __asm__("r10") = sizeof action->mask;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(SYS_rt_sigaction), "D"((long)signal), "S"(0L), "d"(action), "r"(size)
                     : "rcx", "r11", "memory");
    return result;
#else
    register long x0 __asm__("x0") = signal;
    register long x1 __asm__("x1") = 0;
    register struct kernel_action *x2 __asm__("x2") = action;
    register long x3 __asm__("x3") = sizeof action->mask;
    register long x8 __asm__("x8") = SYS_rt_sigaction;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x1), "r"(x2), "r"(x3), "r"(x8) : "memory");
    return x0;
#endif
}

// Another signal's handler must not run on top of ours: it could leave it by siglongjmp.
static void uninterrupted(void)
{
    struct kernel_action kernel = {0};
    start(100);
    if (read_kernel_action(SIGPROF, &kernel))
        fail("rt_sigaction");
    uint64_t never = UINT64_C(1) << (SIGKILL - 1) | UINT64_C(1) << (SIGSTOP - 1);
    uint64_t libc = UINT64_C(3) << 31; // its own two
    if (~kernel.mask & ~never & ~libc)
        fail("signals that are not blocked in the handler");
}

// A handler of the program's own for SIGPROF that does not want the alternate stack, because it
// needs more than that has: another profiler's.
static volatile unsigned large;

static void on_large(int signal)
{
    volatile char room[32768];
    for (unsigned i = 0; i < sizeof room; i += 64)
        room[i] = 1;
    large++;
}

static void large_handler(void)
{
    enum { BELOW = 65536, SIZE = 8192 };
    unsigned char *memory = malloc(BELOW + SIZE);
    memset(memory, 0xa5, BELOW);
    stack_t stack = {.ss_sp = memory + BELOW, .ss_size = SIZE};
    struct sigaction action = {.sa_handler = on_large, .sa_flags = SA_RESTART};
    start(1000);
    if (sigaltstack(&stack, NULL) || sigaction(SIGPROF, &action, NULL))
        fail("sigaltstack");
    for (unsigned i = 1; i <= 50; i++) {
        raise(SIGPROF);
        burn(0.01);
        if (large != i)
            fail("a SIGPROF of the program's own was lost");
    }
    for (unsigned i = 0; i < BELOW; i++)
        if (memory[i] != 0xa5)
            fail("written below the alternate stack");
}

// A program may block SIGPROF because its handler and it share something.
static volatile bool busy, handled;

static bool is_blocked(void)
{
    uint64_t now = 0;
    return syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &now, sizeof now) == 0 &&
           now >> (SIGPROF - 1) & 1;
}

// As unwinders do.
static void block_all_and_restore(void)
{
    sigset_t all, had;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &had);
    if (!is_blocked())
        fail("what was blocked is not any more");
    sigprocmask(SIG_SETMASK, &had, NULL);
    if (!is_blocked())
        fail("a mask that was put back is another one");
}

static void on_shared(int signal)
{
    if (busy)
        fail("SIGPROF while it was blocked");
    block_all_and_restore();
    handled = true;
}

static void masks(void)
{
    struct sigaction action = {.sa_handler = on_shared, .sa_flags = SA_RESTART};
    sigset_t set, had;
    start(1000);
    // In a handler that has SIGPROF blocked although the program knows nothing of SIGPROF: its
    // stack has room for one handler only.
    static char memory[16384];
    stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
    struct sigaction other = {.sa_handler = on_shared, .sa_flags = SA_ONSTACK};
    if (sigaltstack(&stack, NULL) || sigaction(SIGUSR1, &other, NULL))
        fail("sigaction");
    raise(SIGUSR1);
    if (sigaction(SIGPROF, &action, NULL))
        fail("sigaction");
    handled = false;
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    sigprocmask(SIG_BLOCK, &set, &had);
    busy = true;
    raise(SIGPROF);
    burn(0.05);
    busy = false;
    sigprocmask(SIG_SETMASK, &had, NULL);
    if (!handled)
        fail("a SIGPROF that was blocked got lost");
}

// _exit in a handler that has interrupted malloc, with a profile still to be written. Run with
// the library preloaded.
static void on_end(int signal)
{
    _exit(0);
}

static void exit_in_handler(void)
{
    struct sigaction action = {.sa_handler = on_end};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct itimerspec soon = {.it_value.tv_nsec = 300000000};
    timer_t timer;
    if (sigaction(SIGUSR1, &action, NULL) || timer_create(CLOCK_MONOTONIC, &event, &timer) ||
        timer_settime(timer, 0, &soon, NULL))
        fail("timer");
    for (;;) {
        void *blocks[64];
        for (unsigned i = 0; i < 64; i++)
            blocks[i] = malloc(2000 + i * 100);
        for (unsigned i = 0; i < 64; i++)
            free(blocks[i]);
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"cancelled", cancelled},
    {"cancelled_inside", cancelled_inside},
    {"calls_while_loading", calls_while_loading},
    {"closed", closed},
    {"small_stack", small_stack},
#if defined(__x86_64__)
    {"wild_pointer", wild_pointer},
#endif
    {"no_timers", no_timers},
    {"restarts", restarts},
    {"uninterrupted", uninterrupted},
    {"large_handler", large_handler},
    {"masks", masks},
    {"exit_in_handler", exit_in_handler},
};

int main(int argc, char **argv)
{
    if (argc < 4) {
        for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
            printf("%s\n", cases[i].name);
        return 0;
    }
    libkiln = argv[2];
    slow_plugin = argv[3];
    alarm(120);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(cases[i].name, argv[1]) == 0) {
            cases[i].run();
            printf("ok\n");
            return 0;
        }
    return 2;
}
