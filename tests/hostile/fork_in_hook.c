// A signal handler forks while the thread is in libkiln: in its malloc hook, or in what it does
// when the process exits. The child returns from the handler and goes on. Only there: glibc's
// malloc forbids it.
#include "hostile.h"

#include <link.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>

enum { FORKS = 100, SLOTS = 64, IN_CHILD = 1000 };

static uintptr_t start, end; // libkiln's code
static volatile sig_atomic_t forks, is_child;

static int find_library(struct dl_phdr_info *info, size_t size, void *context)
{
    if (!strstr(info->dlpi_name, "libkiln.so"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && p->p_flags & PF_X) {
            start = info->dlpi_addr + p->p_vaddr;
            end = start + p->p_memsz;
        }
    }
    return 1;
}

static uintptr_t interrupted_at(const ucontext_t *context)
{
#ifdef __x86_64__
    return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#else
    return (uintptr_t)context->uc_mcontext.pc;
#endif
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    uintptr_t pc = interrupted_at(context);
    if (is_child || forks >= FORKS || pc < start || pc >= end)
        return;
    pid_t child = fork();
    if (child == 0) {
        is_child = 1;
        return;
    }
    int status = -1;
    while (waitpid(child, &status, 0) < 0)
        ;
    forks++;
    if (status)
        say("a child did not end as it should\n");
}

static void begin_signals(long period_us)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_RESTART | SA_SIGINFO};
    struct itimerval often = {{0, period_us}, {0, period_us}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
}

static void allocate(void)
{
    void *objects[SLOTS] = {NULL};
    unsigned seed = 1;
    double last = seconds_of(CLOCK_MONOTONIC) + 1.5;
    for (int after = 0; forks < FORKS && after < IN_CHILD && seconds_of(CLOCK_MONOTONIC) < last;) {
        unsigned at = (unsigned)rand_r(&seed) % SLOTS;
        free(objects[at]);
        objects[at] = malloc(20000 + (unsigned)rand_r(&seed) % 20000);
        after += is_child;
    }
}

int main(int argc, char **argv)
{
    hostile_begin();
    require(argc == 2, "an argument");
    dl_iterate_phdr(find_library, NULL);
    if (is(argv[1], "malloc")) {
        begin_signals(1000);
        allocate();
    } else {
        burn(0.02);
        begin_signals(150);
    }
    if (!is_child)
        say("done\n");
    return 0;
}
