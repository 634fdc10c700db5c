// Thousands of threads that live for microseconds, ten at a time.
#include "hostile.h"

#include <pthread.h>

enum { BATCH = 10 };

static void *work(void *context)
{
    spin(1000);
    return context;
}

int main(int argc, char **argv)
{
    hostile_begin();
    long n = argc > 1 ? strtol(argv[1], NULL, 10) : 5000;
    bool good = true;
    for (long at = 0; at < n; at += BATCH) {
        pthread_t threads[BATCH];
        void *result;
        for (int i = 0; i < BATCH; i++)
            require(pthread_create(&threads[i], NULL, work, &good) == 0, "pthread_create");
        for (int i = 0; i < BATCH; i++)
            good = pthread_join(threads[i], &result) == 0 && result == &good && good;
    }
    fact("every thread returned what it was given", good);
    return 0;
}
