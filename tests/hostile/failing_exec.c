// Tries to execute programs that do not exist, many times, from several threads, then works on. The
// profiler stops before exec and must be back when exec failed.
#include "hostile.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

static atomic_int wrong;

static void *try_often(void *context)
{
    char *arguments[] = {"no", NULL};
    for (int i = 0; i < 150; i++) {
        errno = 0;
        wrong += execv("/no/such/program", arguments) != -1 || errno != ENOENT;
        errno = 0;
        wrong += execvp("no-such-program", arguments) != -1 || errno != ENOENT;
        errno = 0;
        wrong += execve("/", arguments, environ) != -1 || errno != EACCES;
    }
    return context;
}

int main(void)
{
    hostile_begin();
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        require(pthread_create(&threads[i], NULL, try_often, NULL) == 0, "pthread_create");
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    fact("every exec failed as it should", wrong == 0);
    burn(0.1);
    return 0;
}
