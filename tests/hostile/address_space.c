// The limit of the address space leaves room for what the program needs and something besides.
// Threads of the profiler that allocate reserve 64 MiB each, in libc's malloc.
#include "hostile.h"

#include <pthread.h>

static void *work(void *context)
{
    void *volatile object = malloc(100);
    free(object);
    return context;
}

int main(void)
{
    hostile_begin();
    burn(0.3);
    char *block = malloc(60 << 20);
    fact("there is memory", block);
    if (block)
        memset(block, 1, 60 << 20);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 1 << 20);
    pthread_t thread;
    fact("a thread starts",
         pthread_create(&thread, &attributes, work, NULL) == 0 && pthread_join(thread, NULL) == 0);
    return 0;
}
