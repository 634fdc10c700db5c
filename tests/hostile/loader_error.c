// What the loader remembers of the profiler's own attempts is not the program's to see.
#include "hostile.h"

#include <dlfcn.h>

int main(void)
{
    fact("no error of the loader at the start", dlerror() == NULL);
    hostile_begin();
    fact("nor after it", dlerror() == NULL);
    burn(0.02);
    return 0;
}
