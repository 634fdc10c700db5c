// A SIGPROF that the program blocks is blocked in its new threads and in the programs that it
// starts, and no other is: not after a jump out of a handler, either.
#include "hostile.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <threads.h>

static const char *self;
static jmp_buf back;

static bool is_blocked(void)
{
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    return sigismember(&now, SIGPROF);
}

static int report(const char *what)
{
    say(what);
    say(is_blocked() ? ": blocked\n" : ": not blocked\n");
    return 0;
}

static void *in_thread(void *context)
{
    report("thread");
    return context;
}

static int in_c11_thread(void *context)
{
    return report("C11 thread");
}

static void await(pid_t child)
{
    int status = -1;
    waitpid(child, &status, 0);
    fact("it ended well", status == 0);
}

static void start_others(void)
{
    pthread_t thread;
    thrd_t c11;
    char command[600];
    char *arguments[] = {(char *)self, (char *)"posix_spawn", NULL};
    extern char **environ;
    report("itself");
    pthread_create(&thread, NULL, in_thread, NULL);
    pthread_join(thread, NULL);
    thrd_create(&c11, in_c11_thread, NULL);
    thrd_join(c11, NULL);
    pid_t child = fork();
    if (child == 0) {
        report("child");
        execl(self, self, "exec", (char *)NULL);
        _exit(9);
    }
    await(child);
    child = vfork();
    if (child == 0) {
        execl(self, self, "exec after vfork", (char *)NULL);
        _exit(9);
    }
    await(child);
    require(posix_spawn(&child, self, NULL, NULL, arguments, environ) == 0, "posix_spawn");
    await(child);
    snprintf(command, sizeof command, "%s system", self);
    fact("system", (system)(command) == 0);
    snprintf(command, sizeof command, "%s popen", self);
    FILE *pipe = popen(command, "r");
    char line[100];
    while (pipe && fgets(line, sizeof line, pipe))
        say(line);
    fact("popen", pipe && pclose(pipe) == 0);
    report("itself afterwards");
}

static void on_user(int signal)
{
    longjmp(back, 1);
}

// The mask stays as it was in the handler, which is the program's own.
static void jump_out(void)
{
    static char memory[65536];
    stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
    struct sigaction action = {.sa_handler = on_user, .sa_flags = SA_ONSTACK | SA_NODEFER};
    sigaltstack(&stack, NULL);
    sigaction(SIGUSR1, &action, NULL);
    for (volatile int i = 0; i < 20; i++)
        if (setjmp(back) == 0) {
            raise(SIGUSR1);
            say("no jump\n");
        }
}

static void on_prof(int signal)
{
}

int main(int argc, char **argv)
{
    require(argc == 2, "an argument");
    self = argv[0];
    if (!is(argv[1], "plain") && !is(argv[1], "handler") && !is(argv[1], "jump"))
        return report(argv[1]);
    hostile_begin();
    burn(0.02);
    if (is(argv[1], "handler"))
        signal(SIGPROF, on_prof);
    if (is(argv[1], "jump"))
        jump_out();
    start_others();
    sigset_t set, had;
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    sigprocmask(SIG_BLOCK, &set, &had);
    start_others();
    sigprocmask(SIG_SETMASK, &had, NULL);
    start_others();
    return 0;
}
