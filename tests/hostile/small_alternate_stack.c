// An alternate stack that is as large as MINSIGSTKSZ was for decades, for a handler that never
// runs. With AVX-512 the kernel's frame does not fit there.
#include "hostile.h"

#include <pthread.h>
#include <signal.h>

static char memory[2][2048];

static void set_stack(char *stack)
{
    stack_t wanted = {.ss_sp = stack, .ss_size = sizeof memory[0]};
    require(sigaltstack(&wanted, NULL) == 0, "sigaltstack");
}

static void *work(void *context)
{
    stack_t now;
    set_stack(memory[1]);
    burn(0.2);
    sigaltstack(NULL, &now);
    fact("the thread's stack is the one that was set", now.ss_sp == memory[1]);
    return context;
}

int main(int argc, char **argv)
{
    bool alone = argc == 2 && is(argv[1], "alone"), early = alone || is(argv[1], "before");
    if (early)
        set_stack(memory[0]);
    hostile_begin();
    if (!early)
        set_stack(memory[0]);
    burn(0.2);
    pthread_t thread;
    if (alone)
        return 0;
    require(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
    pthread_join(thread, NULL);
    return 0;
}
