// A library that the program loads while it runs.
#include "burn.h"

double plugin_work(double seconds)
{
    BURN(seconds);
    return seconds;
}
