// Threads set labels, although nobody has started the profiler, while the process forks. Children
// set labels, too.
#include "hostile.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { THREADS = 4, FORKS = 100 };

static atomic_bool over;

static void set_label(long number)
{
#ifdef KILN_LINKED
    char value[32];
    snprintf(value, sizeof value, "%ld", number);
    kiln_labels_pop(kiln_labels_push("request", value));
#endif
}

static void *work(void *context)
{
    for (long number = (long)context; !atomic_load(&over); number += THREADS)
        set_label(number);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    bool good = true;
    for (long i = 0; i < THREADS; i++)
        require(pthread_create(&threads[i], NULL, work, (void *)i) == 0, "pthread_create");
    for (int i = 0; i < FORKS && good; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(5);
            set_label(-1 - i);
            _exit(0);
        }
        int status = -1;
        good = waitpid(child, &status, 0) == child && status == 0;
    }
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    fact("children ended as they should", good);
    return 0;
}
