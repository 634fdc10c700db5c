// An object that takes its time to load, with the loader's lock held.
#include <unistd.h>

__attribute__((constructor)) static void begin(void)
{
    sleep(1);
}
