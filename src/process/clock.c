#include "process/clock.h"

void process_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

void process_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t ns)
{
    uint64_t until = process_now_ns() + ns;
    struct timespec ts = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
    pthread_cond_timedwait(condition, lock, &ts);
}
