// The main thread allocates deep in its stack, far below the part that was mapped when the profiler
// started. A hook that asks the kernel for every word there takes a hundred times as long.
#include "hostile.h"

enum { ALLOCATIONS = 3000, FRAME = 2000 };

static double allocate(void)
{
    double began = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < ALLOCATIONS; i++) {
        void *volatile object = malloc(4096);
        free(object);
    }
    return seconds_of(CLOCK_THREAD_CPUTIME_ID) - began;
}

static __attribute__((noinline)) double descend(int depth)
{
    volatile char frame[FRAME];
    frame[0] = 1;
    double seconds = depth ? descend(depth - 1) : allocate();
    frame[1] = 1;
    return seconds;
}

int main(void)
{
    hostile_begin();
    double above = descend(1), below = descend(400);
    fact("allocations take about as long everywhere", below < above + ALLOCATIONS * 15e-6);
    return 0;
}
