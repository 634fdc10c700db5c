// Calls ever new functions of a library with much debug information, until SIGTERM. Prints its
// process id first. The library's file shrinks meanwhile, as a careless deployment makes it: a
// profiler that reads it through mmap gets SIGBUS.
#include "hostile.h"

#include <signal.h>
#include <stdint.h>

enum { FUNCTIONS = 1500 };

typedef uint64_t (*library_function)(uint64_t, void *);
extern library_function table[];

static volatile sig_atomic_t over;

static void end(int number)
{
    over = 1;
}

int main(void)
{
    char line[32];
    signal(SIGTERM, end);
    snprintf(line, sizeof line, "%d\n", (int)getpid());
    say(line);
    for (unsigned at = 0; !over; at++)
        table[at / 50 % FUNCTIONS](at, NULL);
    say("survived\n");
    return 0;
}
