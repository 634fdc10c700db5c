// Threads that confine themselves with seccomp filters that kill the process at any call they do
// not list. They come and go beside threads that are free.
//
// Only where the profiler sees the filter coming (libkiln.so, or the archive's weak prctl and
// syscall), and without signals to the whole process, which the kernel may deliver to a thread that
// must not return from a handler.
#include "soak.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BY_PRCTL, BY_SYSCALL, WAYS };

// What computing, allocating and ending take.
static const unsigned allowed[] = {SYS_futex,  SYS_exit,   SYS_exit_group, SYS_rt_sigprocmask,
                                   SYS_munmap, SYS_mmap,   SYS_mprotect,   SYS_madvise,
                                   SYS_brk,    SYS_gettid, SYS_write,      SYS_clock_gettime};
enum { ALLOWED = sizeof allowed / sizeof *allowed };

static void confine(int way, bool may_sigreturn)
{
    struct sock_filter code[ALLOWED + 4];
    unsigned n = 0, calls = ALLOWED + may_sigreturn;
    code[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < calls; i++)
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                 i < ALLOWED ? allowed[i] : SYS_rt_sigreturn,
                                                 (unsigned char)(calls - i), 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {(unsigned short)n, code};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (way == BY_PRCTL)
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    else
        CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
}

static void *work_confined(void *context)
{
    unsigned kind = (unsigned)(uintptr_t)context;
    if (soak_random() % 2)
        soak_work();
    // The first allocation of a thread, and of the process, takes more calls.
    free(malloc(1));
    confine((int)(kind % WAYS), kind / WAYS);
    for (unsigned i = 0; i < 20; i++) {
        soak_work();
        free(malloc(1000 + soak_random() % 50000));
    }
    return context;
}

static void confined(struct load *self)
{
    enum { KINDS = WAYS * 2 };
    pthread_t threads[KINDS];
    for (uintptr_t i = 0; i < KINDS; i++)
        CHECK(pthread_create(&threads[i], NULL, work_confined, (void *)i) == 0);
    for (uintptr_t i = 0; i < KINDS; i++) {
        void *result;
        CHECK(pthread_join(threads[i], &result) == 0 && result == (void *)i);
    }
    atomic_fetch_add(&self->events, KINDS);
}

struct load confined_loads[] = {
    {.name = "confined", .round = confined, .event = "confined_threads", .only_if_named = true},
    {0},
};
