// An allocator of the program's own with one lock, which it takes before every fork, as its fork
// handlers do that main registers.
#include "hostile.h"

#include <pthread.h>
#include <stdint.h>
#include <sys/wait.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char memory[256 << 20];
static size_t used;

void *malloc(size_t n)
{
    pthread_mutex_lock(&lock);
    size_t at = (used + 31) & ~(size_t)15;
    used = at + n;
    require(used < sizeof memory, "memory");
    *(size_t *)(memory + at - 16) = n;
    pthread_mutex_unlock(&lock);
    return memory + at;
}

void free(void *p)
{
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
}

void *calloc(size_t n, size_t size)
{
    void *p = malloc(n * size);
    return memset(p, 0, n * size);
}

void *realloc(void *p, size_t n)
{
    void *q = malloc(n);
    if (p)
        memcpy(q, p, ((size_t *)p)[-2] < n ? ((size_t *)p)[-2] : n);
    return q;
}

static void before(void)
{
    pthread_mutex_lock(&lock);
}
static void after(void)
{
    pthread_mutex_unlock(&lock);
}

static volatile int stop;

static void *recurse(int depth)
{
    if (depth)
        return recurse(depth - 1) ? (void *)1 : NULL;
    spin(300000);
    return (void *)1;
}

static void *work(void *context)
{
    while (!stop)
        recurse(rand() % 100);
    return NULL;
}

int main(void)
{
    hostile_begin();
    pthread_atfork(before, after, after);
    pthread_t thread;
    require(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
    int good = 0;
    for (int i = 0; i < 300; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(3);
        int status;
        good += waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3;
        spin(500000);
    }
    stop = 1;
    pthread_join(thread, NULL);
    fact("all children ran", good == 300);
    return 0;
}
