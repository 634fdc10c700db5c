// A program with a clock of its own: simulated time that stands still. The profiler must not wait
// by it.
#include "hostile.h"

#include <sys/resource.h>

int clock_gettime(clockid_t clock, struct timespec *t)
{
    *t = (struct timespec){1000, 5};
    return 0;
}

int main(void)
{
    struct rusage used;
    hostile_begin();
    spin(100000000);
    getrusage(RUSAGE_SELF, &used);
    double before = (double)used.ru_utime.tv_sec + used.ru_utime.tv_usec * 1e-6 +
                    used.ru_stime.tv_sec + used.ru_stime.tv_usec * 1e-6;
    usleep(700000);
    getrusage(RUSAGE_SELF, &used);
    double after = (double)used.ru_utime.tv_sec + used.ru_utime.tv_usec * 1e-6 +
                   used.ru_stime.tv_sec + used.ru_stime.tv_usec * 1e-6;
    fact("sleeping takes no CPU time", after - before < 0.2);
    return 0;
}
