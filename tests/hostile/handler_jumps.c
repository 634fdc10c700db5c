// Signal handlers that do what handlers may: fork, leave by siglongjmp, end the thread. The signals
// meet threads as they start, work, allocate and end.
#include "hostile.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { ROUNDS = 60 };

static const char *how;
static __thread sigjmp_buf back;
static __thread volatile sig_atomic_t may_jump;
static atomic_int wrong, ended;

static void on_signal(int signal)
{
    if (is(how, "fork")) {
        pid_t child = fork();
        if (child == 0)
            _exit(3);
        int status = 0;
        waitpid(child, &status, 0);
        wrong += !WIFEXITED(status) || WEXITSTATUS(status) != 3;
    } else if (may_jump && is(how, "jump")) {
        siglongjmp(back, 1);
    } else if (may_jump) {
        pthread_exit(NULL);
    }
}

// Jumping out of malloc is not allowed, so it is computing that is interrupted.
static void *work(void *context)
{
    if (sigsetjmp(back, 1) == 0) {
        may_jump = 1;
        spin(3000000);
    }
    may_jump = 0;
    return context;
}

static void on_end(void *context)
{
    ended++;
}

static void *start(void *context)
{
    pthread_cleanup_push(on_end, NULL);
    work(context);
    pthread_cleanup_pop(1);
    return context;
}

int main(int argc, char **argv)
{
    hostile_begin();
    require(argc >= 2, "an argument");
    how = argv[1];
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    if (argc == 3)
        action.sa_flags |= SA_ONSTACK;
    sigaction(SIGUSR1, &action, NULL);
    unsigned seed = 1;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t thread;
        require(pthread_create(&thread, NULL, start, NULL) == 0, "pthread_create");
        spin(rand_r(&seed) % 100000);
        pthread_kill(thread, SIGUSR1);
        spin(rand_r(&seed) % 1000000);
        pthread_kill(thread, SIGUSR1);
        pthread_join(thread, NULL);
    }
    fact("children ended as they should", wrong == 0);
    fact("every thread ended", ended == ROUNDS);
    return 0;
}
