// Thousands of sleeping threads while others start and end. A scan of all threads under the lock
// that every start and exit takes grows with the square of their number; above 8192 the profiler
// has no slots left. The time it takes is a matter for bench/threads; here all must work and end.
#include "hostile.h"

#include <pthread.h>
#include <stdatomic.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static bool awake;
static atomic_int ended;

static void *sleeper(void *context)
{
    pthread_mutex_lock(&lock);
    while (!awake)
        pthread_cond_wait(&wake, &lock);
    pthread_mutex_unlock(&lock);
    ended++;
    return context;
}

static void *nothing(void *context)
{
    return context;
}

int main(int argc, char **argv)
{
    hostile_begin();
    int n = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1000;
    pthread_t *threads = calloc((size_t)n, sizeof *threads);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 32768);
    for (int i = 0; i < n; i++)
        require(pthread_create(&threads[i], &small, sleeper, NULL) == 0, "pthread_create");
    for (int i = 0; i < 300; i++) {
        pthread_t thread;
        require(pthread_create(&thread, &small, nothing, NULL) == 0, "pthread_create");
        pthread_join(thread, NULL);
    }
    pthread_mutex_lock(&lock);
    awake = true;
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    fact("all sleepers ended", ended == n);
    return 0;
}
