// Threads that do unusual things with their stacks: give pages back (madvise), make a part
// unreadable (mprotect), run on a stack that grows down by itself, switch with sigsetjmp and
// setcontext. What the unwinder reads may be gone at any time.
#include "hostile.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { STACK = 1 << 20, PAGE = 4096 };

static void give_pages_back(char *low)
{
    for (int i = 0; i < 200; i++) {
        madvise(low, STACK / 2, MADV_DONTNEED);
        spin(200000);
    }
}

static void make_unreadable(char *low)
{
    for (int i = 0; i < 200; i++) {
        mprotect(low, STACK / 2, PROT_NONE);
        spin(200000);
        mprotect(low, STACK / 2, PROT_READ | PROT_WRITE);
    }
}

static void jump_around(void)
{
    sigjmp_buf back;
    volatile int n = 0;
    while (sigsetjmp(back, 1) < 1000) {
        spin(20000);
        siglongjmp(back, ++n);
    }
    ucontext_t here;
    volatile int rounds = 0;
    getcontext(&here);
    if (rounds++ < 1000) {
        spin(20000);
        setcontext(&here);
    }
}

static const char *how;

static void *work(void *low)
{
    if (is(how, "madvise"))
        give_pages_back(low);
    else if (is(how, "mprotect"))
        make_unreadable(low);
    else if (is(how, "jumps"))
        jump_around();
    else
        burn(0.1);
    return NULL;
}

int main(int argc, char **argv)
{
    hostile_begin();
    require(argc == 2, "an argument");
    how = argv[1];
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (is(how, "growsdown") ? MAP_GROWSDOWN : 0);
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, flags, -1, 0);
    require(stack != MAP_FAILED, "mmap");
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, STACK);
    require(pthread_create(&thread, &attributes, work, stack) == 0, "pthread_create");
    pthread_join(thread, NULL);
    munmap(stack, STACK);
    burn(0.02);
    say("done\n");
    return 0;
}
