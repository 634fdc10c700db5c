// Threads that are cancelled at any moment of their lives, at once or at the next cancellation
// point. Their cleanup handlers run, and joining them says that they were cancelled.
#include "hostile.h"

#include <pthread.h>
#include <stdatomic.h>

enum { ROUNDS = 150 };

static bool at_once;
static atomic_int cleaned;

static void clean_up(void *context)
{
    cleaned++;
}

static void *work(void *context)
{
    pthread_cleanup_push(clean_up, NULL);
    if (at_once)
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (;;) {
        spin(100000);
        if (!at_once)
            pthread_testcancel();
    }
    pthread_cleanup_pop(1);
    return context;
}

int main(int argc, char **argv)
{
    hostile_begin();
    require(argc == 2, "an argument");
    at_once = is(argv[1], "asynchronous");
    int cancelled = 0;
    unsigned seed = 1;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t thread;
        void *result = NULL;
        require(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
        spin(rand_r(&seed) % 600000);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        cancelled += result == PTHREAD_CANCELED;
    }
    fact("every thread was cancelled", cancelled == ROUNDS);
    // A thread that is cancelled before it begins has no handler yet.
    fact("cleanup handlers ran", cleaned > 0 && cleaned <= ROUNDS);
    return 0;
}
