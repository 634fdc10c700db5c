// The program takes all thread-specific keys, before the profiler starts or right after. An
// unchecked pthread_key_create left the profiler with key 0, which is the program's: its destructor
// was called with a pointer of the profiler's, and free aborted.
#include "hostile.h"

#include <limits.h>
#include <pthread.h>

static int n_keys;
static pthread_key_t keys[PTHREAD_KEYS_MAX];
static volatile int strangers;

static void on_exit_of_thread(void *value)
{
    strangers++;
    free(value);
}

static void *look(void *context)
{
    int *set = context;
    for (int i = 0; i < n_keys; i++)
        *set += pthread_getspecific(keys[i]) != NULL;
    burn(0.02);
    return NULL;
}

static void take_all(void)
{
    while (n_keys < PTHREAD_KEYS_MAX && pthread_key_create(&keys[n_keys], on_exit_of_thread) == 0)
        n_keys++;
}

int main(int argc, char **argv)
{
    require(argc == 2, "an argument");
    if (is(argv[1], "before"))
        take_all();
    hostile_begin();
    take_all();
    int set = 0;
    for (int i = 0; i < 5; i++) {
        pthread_t thread;
        require(pthread_create(&thread, NULL, look, &set) == 0, "pthread_create");
        pthread_join(thread, NULL);
    }
    fact("new threads see no values", set == 0);
    fact("no destructor was called", strangers == 0);
    pthread_setspecific(keys[0], NULL);
    fact("there are keys", n_keys > 100);
    return 0;
}
