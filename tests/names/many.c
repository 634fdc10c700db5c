// Calls ever new functions of a library with much DWARF for N seconds or until SIGTERM, then says
// so.
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef uint64_t function(uint64_t, void *);
extern function *table[];
extern const int n_table;

__attribute__((noinline)) static uint64_t own_function(uint64_t x)
{
    for (int i = 0; i < 20000; i++)
        __asm__ volatile("" : "+r"(x));
    return x;
}

static volatile sig_atomic_t over;

static void end(int signal)
{
    over = 1;
}

int main(int argc, char **argv)
{
    struct timespec begun, now;
    signal(SIGTERM, end);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (double passed = 0; !over && passed < strtod(argv[1], NULL);) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        passed = (double)(now.tv_sec - begun.tv_sec) + (double)(now.tv_nsec - begun.tv_nsec) * 1e-9;
        int base = (int)(passed * 10) * 20 % n_table;
        for (int i = 0; i < 20; i++)
            table[(base + i) % n_table]((uint64_t)i, NULL);
        own_function(7);
    }
    puts("survived");
    return 0;
}
