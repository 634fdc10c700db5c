// Processes: every way to make one, and what becomes of a child of many threads.
#include "soak.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

// Waits without ever seeing EINTR: the profiler's signal must not make it.
static void expect(pid_t child, int wanted)
{
    int status;
    CHECK(child > 0);
    pid_t got = waitpid(child, &status, 0);
    // The program's own signals may interrupt; they are handled with SA_RESTART everywhere.
    CHECK(got == child);
    if (status != wanted)
        soak_fail("a child ended with status %#x instead of %#x", status, wanted);
}

static void fork_and_exec(struct load *self)
{
    static char *const arguments[] = {"true", NULL};
    pid_t child = fork();
    if (child == 0) {
        execv("/bin/true", arguments);
        _exit(9);
    }
    expect(child, 0);
    child = fork();
    if (child == 0) {
        // A child of its own right: it computes, allocates, and fails to execute first.
        soak_work();
        free(malloc(100000));
        execl("/nowhere/at/all", "x", (char *)NULL);
        execlp("sh", "sh", "-c", "exit 5", (char *)NULL);
        _exit(9);
    }
    expect(child, 5 << 8);
    child = fork();
    if (child == 0)
        _exit((soak_work(), 6));
    expect(child, 6 << 8);
    atomic_fetch_add(&self->events, 3);
}

static void vfork_and_exec(struct load *self)
{
    static char *const arguments[] = {"false", NULL};
    pid_t child = vfork();
    if (child == 0) {
        execve("/bin/false", arguments, environ);
        _exit(9);
    }
    expect(child, 1 << 8);
    child = vfork();
    if (child == 0)
        _exit(4);
    expect(child, 4 << 8);
    atomic_fetch_add(&self->events, 2);
}

// As CPython's subprocess does: all signals blocked, then the child sets every handler to the
// default, restores the mask and executes. It shares the memory of its parent until then.
static void vfork_and_reset(struct load *self)
{
    static char *const arguments[] = {"true", NULL};
    sigset_t all, old;
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, &old) == 0);
    pid_t child = vfork();
    if (child == 0) {
        const struct sigaction plain = {.sa_handler = SIG_DFL};
        for (int signal = 1; signal < NSIG; signal++)
            sigaction(signal, &plain, NULL); // some cannot be changed
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        execve("/bin/true", arguments, environ);
        _exit(9);
    }
    CHECK(pthread_sigmask(SIG_SETMASK, &old, NULL) == 0);
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    if (status != 0)
        soak_fail("a child that resets signals ended with status %#x", status);
    atomic_fetch_add(&self->events, 1);
}

static void spawn(struct load *self)
{
    static char *const arguments[] = {"sh", "-c", "exit 7", NULL};
    int (*shell)(const char *) = system; // what it does with signals is worth a test
    pid_t child;
    CHECK(posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ) == 0);
    expect(child, 7 << 8);
    CHECK(shell("exit 3") == 3 << 8);
    FILE *pipe = popen("echo forty-two", "r");
    char line[100] = "";
    CHECK(pipe && fgets(line, sizeof line, pipe) && strcmp(line, "forty-two\n") == 0);
    CHECK(pclose(pipe) == 0);
    atomic_fetch_add(&self->events, 3);
}

// A program that takes the place of a child that was under way at full speed.
static void exec_while_busy(struct load *self)
{
    pid_t child = fork();
    if (child == 0) {
        soak_burn(5, 2000000);
        execlp("sh", "sh", "-c", ":", (char *)NULL);
        _exit(9);
    }
    expect(child, 0);
    atomic_fetch_add(&self->events, 1);
}

struct load process_loads[] = {
    {.name = "fork", .round = fork_and_exec, .event = "forks"},
    {.name = "vfork", .round = vfork_and_exec, .event = "forks"},
    {.name = "vfork_reset", .round = vfork_and_reset, .event = "forks"},
    {.name = "spawn", .round = spawn, .event = "forks"},
    {.name = "exec_while_busy", .round = exec_while_busy, .event = "forks"},
    {0},
};
