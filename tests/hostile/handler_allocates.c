// Handlers on alternate stacks that allocate.
#include "hostile.h"

#include <pthread.h>
#include <signal.h>

enum { THREADS = 3, ROUNDS = 4000, STACK = 64 << 10 };

static __thread int intact;

static void allocate(int signal)
{
    volatile unsigned char pattern[1024];
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof pattern; i++)
        pattern[i] = (unsigned char)i;
    for (size_t i = 1; i < 4; i++)
        free(malloc(5000 * i));
    for (size_t i = 0; i < sizeof pattern; i++)
        sum += pattern[i] == (unsigned char)i;
    intact += sum == sizeof pattern;
    (void)signal;
}

static void *raise_often(void *unused)
{
    stack_t stack = {.ss_sp = malloc(STACK), .ss_size = STACK};
    require(sigaltstack(&stack, NULL) == 0, "sigaltstack");
    for (int i = 0; i < ROUNDS; i++)
        raise(SIGUSR1);
    return intact == ROUNDS ? unused : NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    struct sigaction action = {.sa_handler = allocate, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    hostile_begin();
    bool all = true;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, raise_often, threads);
    for (int i = 0; i < THREADS; i++) {
        void *good;
        pthread_join(threads[i], &good);
        all &= good != NULL;
    }
    fact("all handlers were intact", all);
    return 0;
}
