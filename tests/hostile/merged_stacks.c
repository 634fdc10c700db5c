// A thread whose stack has no guard page, and below it a mapping that the kernel merges with the
// stack. The thread runs on the lower end of that mapping, as a coroutine, after a page in between
// was unmapped. A profiler that takes the whole mapping for the stack reads the missing page.
#include "hostile.h"

#include <pthread.h>
#include <sys/mman.h>

#if defined(__x86_64__)
enum { PAGE = 4096 };

static void *run_below_own_stack(void *context)
{
    pthread_attr_t attributes;
    void *lo;
    size_t n;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &lo, &n);
    pthread_attr_destroy(&attributes);
    char *below = mmap((char *)lo - 2 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (below != (char *)lo - 2 * PAGE)
        return context; // something else is there
    unsigned char *code =
        mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(code != MAP_FAILED, "mmap");
    memset(below, 0, 2 * PAGE);
    memcpy(code, "\x48\xff\xcf\x75\xfb\xff\xe6", 7); // dec %rdi; jnz; jmp *%rsi
    burn(0.4);                                       // the profiler learns where the stack is
    munmap((char *)lo - PAGE, PAGE);
    long *sp = (long *)((char *)lo - PAGE - 8);
    *sp = 0x1234560;
    __asm__ volatile("mov %%rsp, %%r12\n"
                     "mov %%rbp, %%r13\n"
                     "mov %%rdx, %%rsp\n"
                     "mov $0x1234560, %%rbp\n"
                     "mov %%rcx, %%rdi\n"
                     "lea 1f(%%rip), %%rsi\n"
                     "jmp *%%rax\n"
                     "1: mov %%r12, %%rsp\n"
                     "mov %%r13, %%rbp\n"
                     :
                     : "d"(sp), "c"(200000000L), "a"(code)
                     : "r12", "r13", "rdi", "rsi", "memory", "cc");
    return context;
}
#else
static void *run_below_own_stack(void *context)
{
    return context;
}
#endif

int main(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    hostile_begin();
    pthread_attr_init(&attributes);
    pthread_attr_setguardsize(&attributes, 0);
    require(pthread_create(&thread, &attributes, run_below_own_stack, NULL) == 0, "thread");
    pthread_join(thread, NULL);
    say("survived\n");
    return 0;
}
