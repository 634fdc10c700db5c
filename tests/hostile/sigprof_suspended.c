// Blocks SIGPROF and waits for it with another mask, as POSIX describes it. The handler runs, once
// for each signal, and only then does the call return.
#include "hostile.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>

enum { ROUNDS = 5 };

static volatile sig_atomic_t calls;
static const char *how;
static int epoll;
static pthread_t first;

static void on_prof(int signal)
{
    calls++;
}

static int wait_with(const sigset_t *mask)
{
    struct timespec patience = {5, 0};
    struct epoll_event event;
    if (is(how, "sigsuspend"))
        return sigsuspend(mask);
    if (is(how, "pselect"))
        return pselect(0, NULL, NULL, NULL, &patience, mask);
    if (is(how, "ppoll"))
        return ppoll(NULL, 0, &patience, mask);
    return epoll_pwait(epoll, &event, 1, 5000, mask);
}

static void *send(void *context)
{
    for (int i = 0; i < ROUNDS; i++) {
        while (calls < i)
            pause_ms(1);
        pause_ms(20);
        if (is(context, "process"))
            kill(getpid(), SIGPROF);
        else
            pthread_kill(first, SIGPROF);
    }
    return context;
}

int main(int argc, char **argv)
{
    require(argc == 4, "arguments");
    how = argv[1];
    bool late = is(argv[2], "late");
    pthread_t sender;
    sigset_t set, none, now;
    struct sigaction action = {.sa_handler = on_prof, .sa_flags = SA_RESTART};
    hostile_begin();
    epoll = epoll_create1(EPOLL_CLOEXEC);
    sigemptyset(&none);
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    if (!late)
        sigaction(SIGPROF, &action, NULL);
    sigprocmask(SIG_BLOCK, &set, NULL);
    if (late)
        sigaction(SIGPROF, &action, NULL);
    first = pthread_self();
    require(pthread_create(&sender, NULL, send, argv[3]) == 0, "pthread_create");
    int early = 0, wrong = 0;
    for (int i = 0; i < ROUNDS; i++) {
        burn(0.005);
        require(calls <= i, "a handler that waits");
        while (calls == i && early < 1000) {
            wrong += wait_with(&none) != -1 || errno != EINTR;
            early += calls == i;
        }
    }
    fact("the handler ran", calls == ROUNDS);
    fact("each call was interrupted", wrong == 0);
    fact("by the signal that was sent", early == 0);
    sigprocmask(SIG_BLOCK, NULL, &now);
    fact("SIGPROF is blocked as before", sigismember(&now, SIGPROF));
    pthread_join(sender, NULL);
    return 0;
}
