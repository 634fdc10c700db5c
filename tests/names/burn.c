// A function that burns CPU time, for libraries that are loaded in odd ways.
#include <time.h>

static double seconds(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

void burn_relative(double cpu);
void burn_relative(double cpu)
{
    double end = seconds(CLOCK_THREAD_CPUTIME_ID) + cpu;
    volatile unsigned long x = 0;
    while (seconds(CLOCK_THREAD_CPUTIME_ID) < end)
        for (int i = 0; i < 100000; i++)
            x += (unsigned long)i;
}
