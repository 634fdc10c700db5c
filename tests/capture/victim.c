// A library that is replaced while it is loaded, and what it is replaced by: NAME differs.
#include <time.h>

__attribute__((visibility("default"))) void NAME(double seconds, double (*clock)(clockid_t));
void NAME(double seconds, double (*clock)(clockid_t))
{
    volatile unsigned long sink = 0;
    double until = clock(CLOCK_THREAD_CPUTIME_ID) + seconds;
    do
        for (int i = 0; i < 20000; i++)
            sink += (unsigned long)i;
    while (clock(CLOCK_THREAD_CPUTIME_ID) < until);
}
