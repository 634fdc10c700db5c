// The alternate stack that the program sees is the one that it set, and handlers run there.
#include "hostile.h"

#include <pthread.h>
#include <signal.h>

static char memory[65536];
static volatile int there;

static void on_user(int signal)
{
    char here;
    there = &here >= memory && &here < memory + sizeof memory;
}

static stack_t stack_now(void)
{
    stack_t now;
    sigaltstack(NULL, &now);
    return now;
}

static void *look(void *context)
{
    burn(0.05);
    fact("no stack at first", stack_now().ss_flags == SS_DISABLE && stack_now().ss_size == 0);
    stack_t mine = {.ss_sp = memory, .ss_size = sizeof memory}, none = {.ss_flags = SS_DISABLE},
            had;
    fact("set", sigaltstack(&mine, &had) == 0 && had.ss_flags == SS_DISABLE);
    burn(0.02);
    fact("the one that was set", stack_now().ss_sp == memory && stack_now().ss_flags == 0);
    raise(SIGUSR1);
    fact("its handler ran there", there);
    fact("disabled", sigaltstack(&none, &had) == 0 && had.ss_sp == memory);
    burn(0.02);
    fact("no stack at last", stack_now().ss_flags == SS_DISABLE);
    return context;
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_user, .sa_flags = SA_ONSTACK};
    hostile_begin();
    sigaction(SIGUSR1, &action, NULL);
    pthread_t thread;
    require(pthread_create(&thread, NULL, look, NULL) == 0, "pthread_create");
    pthread_join(thread, NULL);
    look(NULL);
    return 0;
}
