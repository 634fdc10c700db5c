// A program that locks all memory that it maps from now on, and may lock little, has all of that
// for itself.
#include "hostile.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { THREADS = 12, STACK = 64 << 10, LIMIT = 4 << 20, SLACK = 1 << 20, PIECE = 64 << 10 };

static void *work(void *context)
{
    burn(0.05);
    return context;
}

int main(int argc, char **argv)
{
    struct rlimit limit;
    hostile_begin();
    require(getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur == LIMIT, "the limit");
    require(mlockall(MCL_FUTURE) == 0, "mlockall");
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        require(pthread_create(&threads[i], &attributes, work, NULL) == 0, "pthread_create");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    burn(0.3);
    size_t mapped = THREADS * STACK;
    bool all = true;
    while (all && mapped < LIMIT - SLACK) {
        all = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
              MAP_FAILED;
        mapped += PIECE;
    }
    fact("the program has its memory", all);
    burn(0.05);
    return 0;
}
