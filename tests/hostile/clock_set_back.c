// A shim that is preloaded before libkiln: between 0.3 and 0.6 seconds after the first call
// CLOCK_REALTIME is 30 seconds ahead, so the clock is set back by 30 seconds after that. Waits that
// were computed from it end late.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct timespec first;

int clock_gettime(clockid_t clock, struct timespec *time)
{
    struct timespec now;
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (result || clock != CLOCK_REALTIME)
        return result;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    if (!first.tv_sec)
        first = now;
    double since =
        (double)(now.tv_sec - first.tv_sec) + (double)(now.tv_nsec - first.tv_nsec) * 1e-9;
    if (since > 0.3 && since < 0.6)
        time->tv_sec += 30;
    return 0;
}
