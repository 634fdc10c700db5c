// main leaves through pthread_exit; the workers finish a little later, and the process must end
// with the last of them. With the profiler's own threads in the process it never did.
#include "hostile.h"

#include <pthread.h>

static void *work(void *context)
{
    burn(0.05);
    pause_ms(50);
    say("a worker is done\n");
    return context;
}

int main(int argc, char **argv)
{
    hostile_begin();
    burn(0.05);
    for (long n = argc > 1 ? strtol(argv[1], NULL, 10) : 2; n > 0; n--) {
        pthread_t thread;
        require(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
        pthread_detach(thread);
    }
    pthread_exit(NULL);
}
