// The user may have no more than a few processes and threads, and the program uses them all.
#include "hostile.h"

#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>

static pthread_barrier_t done;

static void *wait_here(void *context)
{
    pthread_barrier_wait(&done);
    return context;
}

int main(void)
{
    hostile_begin();
    burn(0.05);
    struct rlimit limit = {1, 1};
    require(setrlimit(RLIMIT_NPROC, &limit) == 0, "setrlimit");
    pthread_t thread;
    pthread_barrier_init(&done, NULL, 2);
    fact("a thread is refused", pthread_create(&thread, NULL, wait_here, NULL) == EAGAIN);
    fact("a child is refused", fork() == -1 && errno == EAGAIN);
    burn(0.05);
    return 0;
}
