// Computes for as many seconds as it is told, in a function with a name of its own.
#include "hostile.h"

static __attribute__((noinline)) void compute_visibly(double seconds)
{
    burn(seconds);
    __asm__ volatile("");
}

int main(int argc, char **argv)
{
    hostile_begin();
    compute_visibly(argc > 1 ? strtod(argv[1], NULL) : 0.2);
    say("done\n");
    return 0;
}
