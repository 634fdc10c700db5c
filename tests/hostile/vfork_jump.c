// A signal that the child of vfork sends to its parent arrives as vfork returns there; the handler
// leaves by siglongjmp. The process is the one that it was: its handler of SIGPROF gets no tick.
#include "hostile.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>

static sigjmp_buf back;
static volatile int ticks;

static void on_user(int signal)
{
    siglongjmp(back, 1);
}

static void on_prof(int signal)
{
    ticks++;
}

static void start_child(pid_t parent)
{
    if (sigsetjmp(back, 1) == 0 && vfork() == 0) {
        kill(parent, SIGUSR1);
        _exit(0);
    }
}

static void start_children(void)
{
    for (int i = 0; i < 20; i++)
        start_child(getpid());
}

int main(int argc, char **argv)
{
    require(argc == 2, "an argument");
    hostile_begin();
    signal(SIGUSR1, on_user);
    if (is(argv[1], "nested")) {
        if (vfork() == 0) {
            start_children();
            _exit(0);
        }
    }
    start_children();
    while (wait(NULL) > 0)
        ;
    signal(SIGPROF, on_prof);
    burn(0.2);
    fact("nobody sent SIGPROF", ticks == 0);
    return 0;
}
