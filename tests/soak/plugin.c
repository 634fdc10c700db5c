// A plugin: NUMBER says which. Built several times with different flags.
#include <stdlib.h>

static __thread unsigned local;
static unsigned *made;

__attribute__((constructor)) static void begin(void)
{
    made = malloc(sizeof *made);
    *made = NUMBER;
}

__attribute__((destructor)) static void end(void)
{
    free(made);
}

unsigned plugin_work(unsigned n, unsigned depth);

unsigned plugin_work(unsigned n, unsigned depth)
{
    volatile unsigned sum = 0;
    local = depth;
    if (depth > 0)
        return plugin_work(n, depth - 1) + (local - local) + 1;
    for (unsigned i = 0; i < n; i++)
        sum += *made;
    return sum;
}
