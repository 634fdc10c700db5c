// Allocates as soon as it is loaded and called; its frames have no frame pointer.
#include <stdlib.h>
#include <string.h>

static __attribute__((noinline)) void *deep(int n)
{
    char pad[64];
    memset(pad, n, sizeof pad);
    void *p = n ? deep(n - 1) : malloc(1 << 20);
    __asm__ volatile("" : : "r"(pad) : "memory");
    return p;
}

void fill(void);
void fill(void)
{
    for (int i = 0; i < 64; i++)
        memset(deep(5), 1, 64);
}
