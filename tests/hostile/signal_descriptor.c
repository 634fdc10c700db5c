// Reads SIGPROF and others from a signalfd; gets those that were sent, and no other.
#include "hostile.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>

static void on_prof(int signal)
{
}

int main(int argc, char **argv)
{
    sigset_t all;
    if (argc > 1 && is(argv[1], "handler"))
        signal(SIGPROF, on_prof);
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    hostile_begin();
    int fd = signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC), prof = 0, user = 0, other = 0;
    for (int i = 0; i < 30; i++) {
        kill(getpid(), i % 2 ? SIGPROF : SIGUSR1);
        burn(0.005);
        struct signalfd_siginfo info;
        struct pollfd ready = {fd, POLLIN, 0};
        poll(&ready, 1, 100);
        while (read(fd, &info, sizeof info) == sizeof info)
            if (info.ssi_signo == SIGPROF && info.ssi_code == SI_USER)
                prof++;
            else if (info.ssi_signo == SIGUSR1)
                user++;
            else
                other++;
    }
    fact("all were read", prof == 15 && user == 15);
    fact("no other", other == 0);
    return 0;
}
