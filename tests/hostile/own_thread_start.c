// A program that defines pthread_create, to count its threads: only its own come by there.
#include "hostile.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

static atomic_int started;

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*routine)(void *),
                   void *argument)
{
    __typeof__(&pthread_create) next = dlsym(RTLD_NEXT, "pthread_create");
    started++;
    return next(thread, attributes, routine, argument);
}

static void *work(void *context)
{
    burn(0.01);
    return context;
}

int main(void)
{
    hostile_begin();
    fact("no thread at first", started == 0);
    for (int i = 0; i < 5; i++) {
        pthread_t thread;
        require(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
        pthread_join(thread, NULL);
    }
    burn(0.05);
    fact("five threads at last", started == 5);
    return 0;
}
