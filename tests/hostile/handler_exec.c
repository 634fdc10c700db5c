// A signal handler executes the program anew, or calls _exit, which are both async-signal-safe. The
// signal meets a thread as it starts or ends, when the profiler may be arming it with a lock held:
// exec took the same lock and hung, _exit was ten seconds late.
#include "hostile.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

enum { EXECS = 60, EXITS = 15 };

static char left[24], mode[8], *arguments[4];
static const char self[] = "/proc/self/exe";

static void on_signal(int signal)
{
    if (is(mode, "exit"))
        _exit(0);
    execve(self, arguments, environ);
    _exit(9);
}

static void *nothing(void *context)
{
    return context;
}

static void meet_a_thread(void)
{
    pthread_t thread;
    require(pthread_create(&thread, NULL, nothing, NULL) == 0, "pthread_create");
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    spin(now.tv_nsec / 7 % 60000);
    pthread_kill(thread, SIGUSR1);
    pthread_join(thread, NULL);
}

static void exit_often(void)
{
    int good = 0;
    for (int i = 0; i < EXITS; i++) {
        char *child_arguments[] = {arguments[0], "1", "exit", NULL};
        pid_t child = vfork();
        if (child == 0) {
            execve(self, child_arguments, environ);
            _exit(9);
        }
        int status = -1;
        waitpid(child, &status, 0);
        good += status == 0;
    }
    fact("every child ended", good == EXITS);
}

int main(int argc, char **argv)
{
    // A handler needs the new program's signals unblocked: exec keeps the mask.
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_NODEFER};
    sigset_t none;
    sigemptyset(&none);
    require(argc >= 2, "arguments");
    arguments[0] = argv[0];
    if (argc == 2 && is(argv[1], "exit")) {
        exit_often();
        return 0;
    }
    long n = argc == 2 ? EXECS : strtol(argv[1], NULL, 10);
    snprintf(mode, sizeof mode, "%s", argc == 2 ? argv[1] : argv[2]);
    if (n <= 0) {
        say("all execs are done\n");
        return 0;
    }
    hostile_begin();
    snprintf(left, sizeof left, "%ld", n - 1);
    arguments[1] = left;
    arguments[2] = mode;
    sigaction(SIGUSR1, &action, NULL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    meet_a_thread();
    if (is(mode, "exit"))
        return 0;
    execve(self, arguments, environ);
    return 1;
}
