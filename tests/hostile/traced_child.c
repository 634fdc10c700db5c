// A child that asks to be traced: it stops at every signal, and its parent sees each of them. There
// must be none but those that the program sends.
#include "hostile.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

static void be_child(void)
{
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGUSR1);
    burn(0.05);
    raise(SIGUSR2);
    _exit(8);
}

int main(void)
{
    hostile_begin();
    burn(0.05);
    pid_t child = fork();
    if (child == 0)
        be_child();
    int status = 0, stops = 0, strangers = 0;
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        stops++;
        strangers += WSTOPSIG(status) != SIGUSR1 && WSTOPSIG(status) != SIGUSR2;
        ptrace(PTRACE_CONT, child, NULL, NULL);
    }
    fact("it stopped twice", stops == 2);
    fact("only for signals that were sent", strangers == 0);
    fact("it ended as it should", WIFEXITED(status) && WEXITSTATUS(status) == 8);
    return 0;
}
