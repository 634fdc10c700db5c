// A plugin whose constructor and destructor wait for threads that do nothing but end, after they
// used some heap. Nothing of what the profiler does at a thread's end may ask the loader.
#include <pthread.h>
#include <stdlib.h>

static void *work(void *context)
{
    void *volatile object = malloc(100000);
    free(object);
    return context;
}

static void start_and_join(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL) == 0)
        pthread_join(thread, NULL);
}

__attribute__((constructor)) static void begin(void)
{
    start_and_join();
}

__attribute__((destructor)) static void end(void)
{
    start_and_join();
}
