// Stacks in pieces (-fsplit-stack): each function gets just the stack it needs.
#include "hostile.h"

#include <pthread.h>

static __attribute__((noinline)) int deep(int n)
{
    volatile char room[700];
    room[0] = (char)n;
    for (volatile int i = 0; i < 20000; i++)
        ;
    return n ? deep(n - 1) + room[0] - (char)n + 1 : 0;
}

static void *work(void *context)
{
    for (int i = 0; i < 20; i++)
        if (deep(500) != 500)
            say("wrong\n");
    return context;
}

int main(void)
{
    hostile_begin();
    pthread_t thread;
    require(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
    work(NULL);
    pthread_join(thread, NULL);
    say("done\n");
    return 0;
}
