// A library that the program is linked with.
#include "burn.h"

__attribute__((noinline)) static double shared_inner(double seconds)
{
    BURN(seconds);
    return seconds;
}

double shared_work(double seconds)
{
    return 2 * shared_inner(seconds);
}
