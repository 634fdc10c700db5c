// A signal handler calls exit while the thread is in malloc, as many handlers of SIGTERM do. Not
// allowed by POSIX, but the program itself needs no memory at exit.
#include "hostile.h"

#include <signal.h>
#include <sys/time.h>

static void on_alarm(int signal)
{
    exit(7);
}

int main(void)
{
    hostile_begin();
    struct itimerval after = {.it_value.tv_usec = 30000};
    signal(SIGALRM, on_alarm);
    setitimer(ITIMER_REAL, &after, NULL);
    void *volatile objects[64] = {NULL};
    for (unsigned i = 0;; i++) {
        free(objects[i % 64]);
        objects[i % 64] = malloc(2000 + i * 7919 % 60000);
    }
}
