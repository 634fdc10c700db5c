// Threads start, allocate and end, while one opens files and relies on the lowest free number. A
// malloc hook that opens a file in the program's thread takes that number.
#include "hostile.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

static _Atomic bool stop;

static void *allocate(void *context)
{
    for (int i = 0; i < 20; i++) {
        void *volatile object = malloc(20000);
        free(object);
    }
    return context;
}

static void *start_threads(void *context)
{
    while (!stop) {
        pthread_t thread;
        require(pthread_create(&thread, NULL, allocate, NULL) == 0, "pthread_create");
        pthread_join(thread, NULL);
    }
    return context;
}

int main(void)
{
    hostile_begin();
    pthread_t thread;
    require(pthread_create(&thread, NULL, start_threads, NULL) == 0, "pthread_create");
    int lowest = open("/dev/null", O_RDONLY), wrong = 0;
    close(lowest);
    double end = seconds_of(CLOCK_MONOTONIC) + 0.5;
    while (seconds_of(CLOCK_MONOTONIC) < end) {
        int fd = open("/dev/null", O_RDONLY);
        wrong += fd != lowest;
        close(fd);
    }
    stop = true;
    pthread_join(thread, NULL);
    fact("open always returned the lowest free descriptor", wrong == 0);
    return 0;
}
