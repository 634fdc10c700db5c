// A thread by a bare clone, with a thread pointer of its own or none: libc's thread-local storage
// is not there, and none of its code runs. "alike": it points to what looks like libc's descriptor,
// with nothing below it.
#include "hostile.h"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { STACK = 1 << 20, PAGE = 4096 };
static atomic_int ended;

static int run(void *context)
{
    spin(200000000);
    ended = 1;
    __asm__ volatile("syscall" : : "a"(SYS_exit), "D"(0L) : "rcx", "r11", "memory");
    return 0;
}

int main(int argc, char **argv)
{
    require(argc == 2, "an argument");
    hostile_begin();
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *place = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(place + PAGE, PAGE, PROT_READ | PROT_WRITE);
    void *pointer = is(argv[1], "none")         ? NULL
                    : is(argv[1], "first_page") ? place + PAGE
                    : is(argv[1], "alike")      ? place + PAGE
                                                : place + 2 * PAGE - 64;
    memset(place + PAGE, 0x5a, PAGE);
    void **words = (void **)(place + PAGE);
    if (is(argv[1], "alike"))
        words[0] = words[2] = pointer;
    require(clone(run, stack + STACK,
                  CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                      CLONE_SETTLS,
                  NULL, NULL, pointer, NULL) > 0,
            "clone");
    while (!ended)
        pause_ms(10);
    bool same = true;
    for (int i = 3 * sizeof *words; i < PAGE; i++)
        same = same && place[PAGE + i] == 0x5a;
    fact("its memory is unchanged", same);
    return 0;
}
