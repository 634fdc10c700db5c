// A program with a sanitizer's runtime linked into it, which stands in for libc's functions.
#include "hostile.h"

#include <pthread.h>

static void *work(void *context)
{
    for (int i = 0; i < 2000; i++) {
        char *volatile p = malloc((size_t)i % 3000 + 1);
        *p = 1;
        free(p);
    }
    burn(0.03);
    return context;
}

int main(void)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        require(pthread_create(&threads[i], NULL, work, NULL) == 0, "pthread_create");
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    say("done\n");
    return 0;
}
