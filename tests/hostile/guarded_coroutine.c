// A coroutine that code switches to without unwind information for it, so a walk goes on beyond the
// end of its stack. The page there cannot be read. "own": stack and guard page are part of the
// thread's stack. "toggled": another thread makes the page readable and unreadable all the time.
#include "hostile.h"

#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>

enum { PAGE = 4096, STACK = 64 << 10 };

static void work(void)
{
    for (int i = 0; i < 600; i++)
        spin(1000000);
}

// The call leaves a return address at the end of the stack, and the words that follow are not the
// frame of this function.
__attribute__((noinline)) static void switch_to(char *top, void (*routine)(void))
{
#ifdef __x86_64__
    __asm__ volatile("mov %%rsp, %%rbx\n\t"
                     "mov %0, %%rsp\n\t"
                     "call *%1\n\t"
                     "mov %%rbx, %%rsp"
                     :
                     : "r"(top), "r"(routine)
                     : "rbx", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11",
                       "memory");
#endif
}

static void *run_on_own_stack(void *context)
{
    char area[STACK + 3 * PAGE];
    char *top = (char *)(((uintptr_t)area + STACK + PAGE) & ~(uintptr_t)(PAGE - 1));
    memset(area, 1, sizeof area);
    require(mprotect(top, PAGE, PROT_NONE) == 0, "mprotect");
    switch_to(top, work);
    mprotect(top, PAGE, PROT_READ | PROT_WRITE);
    __asm__ volatile("" : : "r"(area) : "memory");
    return context;
}

static volatile bool ended;

static void *toggle(void *page)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    while (!ended) {
        mmap(page, PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
        *(volatile char *)page = 1;
        mmap(page, PAGE, PROT_NONE, flags, -1, 0);
    }
    return NULL;
}

static void run_beside_toggled_page(void)
{
    char *stack =
        mmap(NULL, STACK + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t thread;
    require(stack != MAP_FAILED, "mmap");
    require(pthread_create(&thread, NULL, toggle, stack + STACK) == 0, "pthread_create");
    for (int i = 0; i < 4; i++)
        switch_to(stack + STACK, work);
    ended = true;
    pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    require(argc == 2, "an argument");
    hostile_begin();
    burn(0.05);
    if (is(argv[1], "own")) {
        pthread_t thread;
        require(pthread_create(&thread, NULL, run_on_own_stack, NULL) == 0, "pthread_create");
        pthread_join(thread, NULL);
    } else {
        run_beside_toggled_page();
    }
    say("done\n");
    return 0;
}
