// Every way to end a process, while other threads run. The exit status, and what exit handlers
// print, must be the same.
#include "hostile.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>

static void *compute(void *context)
{
    for (;;)
        burn(0.01);
    return context;
}

static void *call_exit(void *context)
{
    burn(0.02);
    exit(13);
}

static void on_exit_of_process(void)
{
    say("exit handler\n");
}

static void exit_again(void)
{
    say("exit handler that ends the process\n");
    _exit(14);
}

static void *start_and_exit(void *context)
{
    return context;
}

static void start_thread_at_exit(void)
{
    pthread_t thread;
    require(pthread_create(&thread, NULL, start_and_exit, NULL) == 0, "pthread_create");
    pthread_join(thread, NULL);
    say("a thread ran in an exit handler\n");
}

static int end(const char *how)
{
    pthread_t thread;
    if (is(how, "exit_in_thread")) {
        require(pthread_create(&thread, NULL, call_exit, NULL) == 0, "pthread_create");
        pthread_join(thread, NULL);
    }
    if (is(how, "_exit_in_handler"))
        atexit(exit_again);
    if (is(how, "thread_at_exit"))
        atexit(start_thread_at_exit);
    if (is(how, "_exit"))
        _exit(12);
    if (is(how, "_Exit"))
        _Exit(12);
    if (is(how, "exit_group"))
        syscall(SYS_exit_group, 12);
    if (is(how, "abort"))
        abort();
    if (is(how, "kill"))
        raise(SIGKILL);
    if (is(how, "term"))
        raise(SIGTERM);
    if (is(how, "prof"))
        raise(SIGPROF);
    volatile int *volatile nowhere = NULL;
    if (is(how, "segv"))
        *nowhere = 1;
    return 11;
}

int main(int argc, char **argv)
{
    hostile_begin();
    require(argc == 2, "an argument");
    atexit(on_exit_of_process);
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        require(pthread_create(&thread, NULL, compute, NULL) == 0, "pthread_create");
    }
    burn(0.05);
    return end(argv[1]);
}
