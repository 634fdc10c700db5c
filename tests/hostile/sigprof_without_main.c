// The first thread has ended; another one has a handler for SIGPROF, and the process is sent some.
#include "hostile.h"

#include <pthread.h>
#include <signal.h>

static volatile sig_atomic_t got, value;

static void on_signal(int signal, siginfo_t *info, void *context)
{
    got++;
    value = info->si_value.sival_int;
}

static void *work(void *context)
{
    int lost = 0, wrong = 0;
    pause_ms(50);
    for (int i = 1; i <= 30 && lost < 3; i++) {
        int had = got;
        sigqueue(getpid(), SIGPROF, (union sigval){.sival_int = i});
        for (int patience = 0; got == had && patience < 200; patience++)
            pause_ms(1);
        lost += got == had;
        wrong += got != had && value != i;
    }
    fact("every signal met the handler", lost == 0);
    fact("with the value that was sent", wrong == 0);
    exit(3);
    return context;
}

int main(void)
{
    pthread_t thread;
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    hostile_begin();
    sigaction(SIGPROF, &action, NULL);
    require(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
    pthread_exit(NULL);
}
