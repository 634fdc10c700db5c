// A plugin whose constructor never returns: the loader's lock is held for good.
#include <unistd.h>

__attribute__((constructor)) static void begin(void)
{
    for (;;)
        pause();
}
