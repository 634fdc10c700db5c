// The program's own SIGPROF handler, installed without SA_RESTART, is to end a call that waits.
#include "hostile.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

static volatile sig_atomic_t got;
static volatile bool done;
static pthread_t reader;

static void on_signal(int signal)
{
    got++;
}

static void *send(void *context)
{
    while (!done) {
        pause_ms(50);
        pthread_kill(reader, SIGPROF);
    }
    return context;
}

int main(int argc, char **argv)
{
    int ends[2];
    char byte;
    pthread_t sender;
    struct sigaction action = {.sa_handler = on_signal};
    bool early = argc == 2 && is(argv[1], "before");
    if (early)
        sigaction(SIGPROF, &action, NULL);
    hostile_begin();
    if (!early)
        sigaction(SIGPROF, &action, NULL);
    require(pipe(ends) == 0, "pipe");
    reader = pthread_self();
    require(pthread_create(&sender, NULL, send, NULL) == 0, "pthread_create");
    ssize_t n = read(ends[0], &byte, 1);
    fact("read was interrupted", n == -1 && errno == EINTR);
    done = true;
    pthread_join(sender, NULL);
    fact("the handler ran", got > 0);
    return 0;
}
