// Starts under a low limit for data, raises it, and forks children that sample with many threads.
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 6, THREADS = 24, ROUNDS = 500 };

static void *allocate(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) {
        char *volatile p = malloc(100000);
        free(p);
    }
    return unused;
}

static int run_child(void)
{
    pthread_t threads[THREADS];
    usleep(50000);
    allocate(NULL); // long enough that sampling starts again
    usleep(200000);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, allocate, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

int main(void)
{
    struct rlimit limit;
    int failed = 0, status;
    getrlimit(RLIMIT_DATA, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_DATA, &limit);
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        if (child == 0)
            exit(run_child());
        failed += waitpid(child, &status, 0) != child || status != 0;
    }
    return failed;
}
