// After thousands of threads have ended, a fork costs about what it cost before.
#include "hostile.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { FORKS = 60, THREADS = 3000 };

static double seconds_used(int who)
{
    struct rusage used;
    getrusage(who, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

static void *return_at_once(void *context)
{
    return context;
}

// CPU time of the children.
static double fork_often(void)
{
    double begin = seconds_used(RUSAGE_CHILDREN);
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        waitpid(child, NULL, 0);
    }
    return seconds_used(RUSAGE_CHILDREN) - begin;
}

int main(void)
{
    hostile_begin();
    burn(0.02);
    double before = fork_often();
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        require(pthread_create(&thread, NULL, return_at_once, NULL) == 0, "pthread_create");
        pthread_join(thread, NULL);
    }
    double after = fork_often();
    fprintf(stderr, "%.0f us, then %.0f us\n", before / FORKS * 1e6, after / FORKS * 1e6);
    fact("children cost about the same", after < 5 * before);
    return 0;
}
