// Uses CPU time of the calling thread, inlined into its caller.
#pragma once

#include <time.h>

static inline double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// A macro, so that the loop has the line, and is part, of the function that it stands in.
#define BURN(seconds)                                 \
    do {                                              \
        volatile unsigned sink_ = 0;                  \
        double until_ = thread_seconds() + (seconds); \
        do                                            \
            for (unsigned i_ = 0; i_ < 20000; i_++)   \
                sink_ += i_ * i_;                     \
        while (thread_seconds() < until_);            \
    } while (0)
