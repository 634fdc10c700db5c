// Signal sets and old masks at invalid addresses: the kernel reports EFAULT.
#include "hostile.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/signalfd.h>

static void is_fault(const char *what, int result)
{
    fact(what, result == -1 && errno == EFAULT);
    errno = 0;
}

static void on_prof(int signal)
{
}

static void pass_everywhere(sigset_t *bad)
{
    struct timespec now = {0, 0};
    struct pollfd nothing = {.fd = -1};
    struct epoll_event event;
    siginfo_t info;
    sigset_t set, mask;
    int number, epoll = epoll_create1(0);
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    fact("sigwait", sigwait(bad, &number) == EFAULT);
    is_fault("sigwaitinfo", sigwaitinfo(bad, &info));
    is_fault("sigtimedwait", sigtimedwait(bad, &info, &now));
    is_fault("signalfd", signalfd(-1, bad, 0));
    is_fault("sigsuspend", sigsuspend(bad));
    is_fault("pselect", pselect(0, NULL, NULL, NULL, &now, bad));
    is_fault("ppoll", ppoll(&nothing, 1, &now, bad));
    is_fault("epoll_pwait", epoll_pwait(epoll, &event, 1, 0, bad));
    is_fault("sigpending", sigpending(bad));
    is_fault("old mask", sigprocmask(SIG_BLOCK, NULL, bad));
    is_fault("old mask of a change", sigprocmask(SIG_BLOCK, &set, bad));
    burn(0.002);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    fact("SIGPROF is blocked", sigismember(&mask, SIGPROF));
    is_fault("old mask of a change back", sigprocmask(SIG_UNBLOCK, &set, bad));
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    close(epoll);
}

int main(void)
{
    sigset_t *bad = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    hostile_begin();
    burn(0.02);
    pass_everywhere(bad);
    signal(SIGPROF, on_prof);
    pass_everywhere(bad);
    return 0;
}
