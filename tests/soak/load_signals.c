// Signals: nested, on alternate stacks, left by longjmp, sent from outside; and system calls
// that a signal may interrupt.
#include "soak.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static void handle(int signal, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    CHECK(sigaction(signal, &action, NULL) == 0);
}

static void send_self(int signal)
{
    CHECK(syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signal) == 0);
}

// --- nested handlers on an alternate stack ---

static __thread volatile sig_atomic_t nested;

static void on_inner(int signal)
{
    int saved = errno;
    soak_work();
    nested++;
    errno = saved;
}

static void on_outer(int signal)
{
    int saved = errno;
    soak_work();
    send_self(SIGUSR2);
    soak_work();
    nested++;
    errno = saved;
}

static void *nest(void *context)
{
    // Room for two of the kernel's frames and what the handlers need, not for much more.
    size_t size = (size_t)sysconf(_SC_MINSIGSTKSZ) * 2 + 4096;
    stack_t stack = {.ss_sp = malloc(size), .ss_size = size}, none = {.ss_flags = SS_DISABLE};
    CHECK(stack.ss_sp && sigaltstack(&stack, NULL) == 0);
    nested = 0;
    for (int i = 1; i <= 10; i++) {
        errno = 77;
        send_self(SIGUSR1);
        CHECK(errno == 77 && nested == 2 * i);
    }
    CHECK(sigaltstack(&none, NULL) == 0);
    free(stack.ss_sp);
    return NULL;
}

static void nested_signals(struct load *self)
{
    pthread_t thread;
    handle(SIGUSR1, on_outer, SA_ONSTACK | SA_RESTART);
    handle(SIGUSR2, on_inner, SA_ONSTACK | SA_RESTART);
    CHECK(pthread_create(&thread, NULL, nest, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    atomic_fetch_add(&self->events, 20);
}

// --- the smallest alternate stack that the kernel takes, with a canary below ---

static void on_small(int signal)
{
    nested += (int)(soak_burn(1, 6000000) & 1) + 1;
}

static void *small_stack(void *context)
{
    size_t size = getauxval(AT_MINSIGSTKSZ);
    if (size < (size_t)MINSIGSTKSZ)
        size = MINSIGSTKSZ;
    size = (size + 1024 + 15) & ~(size_t)15; // for on_small itself
    size_t below = 16384;
    unsigned char *memory = malloc(below + size);
    CHECK(memory);
    memset(memory, 0xa5, below);
    stack_t stack = {.ss_sp = memory + below, .ss_size = size}, none = {.ss_flags = SS_DISABLE};
    CHECK(sigaltstack(&stack, NULL) == 0);
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 10; k++)
            soak_work(); // ticks that come here run on that stack
        send_self(SIGRTMIN + 3);
    }
    CHECK(sigaltstack(&none, NULL) == 0);
    for (size_t i = 0; i < below; i++)
        CHECK(memory[i] == 0xa5);
    free(memory);
    return NULL;
}

static void small_alternate_stack(struct load *self)
{
    pthread_t thread;
    handle(SIGRTMIN + 3, on_small, SA_ONSTACK | SA_RESTART);
    struct sigaction had;
    CHECK(sigaction(SIGRTMIN + 3, NULL, &had) == 0 && !sigismember(&had.sa_mask, SIGPROF));
    CHECK(pthread_create(&thread, NULL, small_stack, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    atomic_fetch_add(&self->events, 4);
}

// --- jumps ---

static __thread sigjmp_buf out_of_handler;
static __thread jmp_buf out_of_depth;

static void on_jump(int signal)
{
    soak_burn(3, 20000);
    siglongjmp(out_of_handler, 7);
}

__attribute__((noinline)) static void dive(int depth)
{
    volatile char room[64];
    room[0] = (char)depth;
    if (depth > 0)
        dive(depth - 1);
    soak_burn(5, 20000);
    if (room[0] == 0)
        longjmp(out_of_depth, 9);
}

static void jumps(struct load *self)
{
    handle(SIGRTMIN + 4, on_jump, SA_ONSTACK | SA_NODEFER);
    for (unsigned i = 0; i < 50; i++) {
        int how = sigsetjmp(out_of_handler, 1);
        if (how == 0) {
            send_self(SIGRTMIN + 4);
            soak_fail("a handler that jumps came back");
        }
        CHECK(how == 7);
        how = setjmp(out_of_depth);
        if (how == 0)
            dive((int)(soak_random() % 120));
        CHECK(how == 9);
    }
    atomic_fetch_add(&self->events, 100);
}

// A timer whose handler jumps out of whatever it meets, the profiler's handler included.
static void on_timed_jump(int signal)
{
    siglongjmp(out_of_handler, 8);
}

static void timed_jumps(struct load *self)
{
    handle(SIGRTMIN + 5, on_timed_jump, SA_RESTART);
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 5};
    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    struct itimerspec when = {.it_value.tv_nsec = 300000}, never = {{0, 0}, {0, 0}};
    for (volatile unsigned i = 0; i < 50; i++) {
        if (sigsetjmp(out_of_handler, 1) == 0) {
            CHECK(timer_settime(timer, 0, &when, NULL) == 0);
            for (;;)
                soak_burn(11, 100);
        }
    }
    CHECK(timer_settime(timer, 0, &never, NULL) == 0);
    CHECK(timer_delete(timer) == 0);
    atomic_fetch_add(&self->events, 50);
}

// --- SIGPROF of the program's own ---

static _Atomic unsigned foreign;

static void on_foreign(int signal)
{
    foreign++;
    soak_burn(3, 1000);
}

static void foreign_sigprof(struct load *self)
{
    struct sigaction had;
    // On the alternate stack, or nobody else could be at the end of a stack.
    handle(SIGPROF, on_foreign, SA_RESTART | SA_ONSTACK);
    CHECK(sigaction(SIGPROF, NULL, &had) == 0 && had.sa_handler == on_foreign);
    for (unsigned i = 0; i < 20; i++) {
        unsigned before = foreign;
        send_self(SIGPROF);
        CHECK(foreign > before);
        CHECK(kill(getpid(), SIGPROF) == 0); // whichever thread gets it
        soak_work();
    }
    struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_PROF, &often, NULL) == 0);
    for (unsigned i = 0; i < 20; i++)
        soak_work();
    CHECK(setitimer(ITIMER_PROF, &never, NULL) == 0);
    atomic_fetch_add(&self->events, 40);
}

struct load signal_loads[] = {
    {.name = "nested_signals", .round = nested_signals, .event = "signals"},
    {.name = "small_alternate_stack", .round = small_alternate_stack, .event = "signals"},
    {.name = "jumps", .round = jumps, .event = "jumps"},
    {.name = "timed_jumps", .round = timed_jumps, .event = "jumps"},
    {.name = "foreign_sigprof", .round = foreign_sigprof, .event = "signals"},
    {0},
};
