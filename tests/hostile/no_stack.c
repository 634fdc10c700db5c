// While all signals are blocked, a program may do without a stack.
#include "hostile.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static char data[1 << 16];

__attribute__((noinline)) static void without_stack(long rounds, char *elsewhere)
{
    __asm__ volatile("mov %%rsp, %%r15\n"
                     "mov %1, %%rsp\n"
                     "1: dec %0\n"
                     "jnz 1b\n"
                     "mov %%r15, %%rsp\n"
                     : "+r"(rounds)
                     : "r"(elsewhere)
                     : "r15", "memory");
}

int main(int argc, char **argv)
{
    require(argc == 2, "an argument");
    hostile_begin();
    sigset_t all, had;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &had);
    memset(data, 0x5a, sizeof data);
    without_stack(150000000, is(argv[1], "null") ? NULL : data + sizeof data - 64);
    sigprocmask(SIG_SETMASK, &had, NULL);
    bool same = true;
    for (size_t i = 0; i < sizeof data; i++)
        same = same && data[i] == 0x5a;
    fact("the data are unchanged", same);
    return 0;
}
