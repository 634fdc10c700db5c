// A plugin whose constructor takes a while: the loader's lock is held for as long.
#include <time.h>

__attribute__((constructor)) static void begin(void)
{
    struct timespec left = {0, 350000000};
    while (nanosleep(&left, &left))
        ;
}
