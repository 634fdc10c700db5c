// Calls ever new functions of a library with much debug information, for some seconds. Prints its
// process id first. The library's file shrinks meanwhile, as a careless deployment makes it: a
// profiler that reads it through mmap gets SIGBUS.
#include "hostile.h"

#include <stdint.h>

enum { FUNCTIONS = 1500 };

typedef uint64_t (*library_function)(uint64_t, void *);
extern library_function table[];

int main(int argc, char **argv)
{
    double end = seconds_of(CLOCK_MONOTONIC) + strtod(argv[1], NULL);
    char line[32];
    snprintf(line, sizeof line, "%d\n", (int)getpid());
    say(line);
    for (unsigned at = 0; seconds_of(CLOCK_MONOTONIC) < end; at++)
        table[at / 50 % FUNCTIONS](at, NULL);
    say("survived\n");
    return 0;
}
