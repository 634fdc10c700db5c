// Two threads set the same signal's action at once. Whichever handler runs has the mask that was
// set with it, and what sigaction reports is one of the two, as a whole.
#include "hostile.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

static int number;
static atomic_int mixed, calls;
static atomic_bool over;

static bool blocks(int one)
{
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    return sigismember(&now, one);
}

static void check(bool first)
{
    mixed += blocks(SIGUSR2) != first || blocks(SIGWINCH) == first || blocks(number) != first;
    calls++;
}

static void on_first(int signal, siginfo_t *info, void *context)
{
    check(true);
}

static void on_second(int signal)
{
    check(false);
}

static struct sigaction make(bool first)
{
    struct sigaction action = {.sa_flags = SA_ONSTACK | (first ? SA_SIGINFO : SA_NODEFER)};
    if (first)
        action.sa_sigaction = on_first;
    else
        action.sa_handler = on_second;
    sigaddset(&action.sa_mask, first ? SIGUSR2 : SIGWINCH);
    return action;
}

static bool is_whole(const struct sigaction *had)
{
    bool first = had->sa_sigaction == on_first;
    return (first || had->sa_handler == on_second) &&
           sigismember(&had->sa_mask, SIGUSR2) == first &&
           sigismember(&had->sa_mask, SIGWINCH) != first && !(had->sa_flags & SA_SIGINFO) != first;
}

static void *set(void *first)
{
    struct sigaction action = make(first), had;
    while (!over) {
        sigaction(number, &action, &had);
        mixed += !is_whole(&had);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    require(argc == 2, "an argument");
    number = is(argv[1], "prof") ? SIGPROF : SIGUSR1;
    hostile_begin();
    struct sigaction action = make(true);
    sigaction(number, &action, NULL);
    pthread_t threads[2];
    require(pthread_create(&threads[0], NULL, set, NULL) == 0, "pthread_create");
    require(pthread_create(&threads[1], NULL, set, &over) == 0, "pthread_create");
    double end = seconds_of(CLOCK_MONOTONIC) + 0.7;
    while (seconds_of(CLOCK_MONOTONIC) < end)
        raise(number);
    over = true;
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    fact("handlers ran", calls > 100);
    fact("no action was mixed with another", mixed == 0);
    return 0;
}
