// Tens of thousands of mappings, as databases and garbage collectors have them: /proc/self/maps is
// megabytes long. They come and go while the program is sampled.
#include "hostile.h"

#include <sys/mman.h>

enum { PAGES = 30000, PAGE = 4096 };

int main(void)
{
    hostile_begin();
    char *memory = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(memory != MAP_FAILED, "mmap");
    // Neighbors with different rights cannot be one mapping.
    bool good = true;
    for (long i = 0; i < PAGES; i += 2)
        good = mprotect(memory + i * PAGE, PAGE, PROT_READ | PROT_WRITE) == 0 && good;
    fact("there are many mappings", good);
    burn(0.1);
    for (long i = 0; i < PAGES; i++)
        good = munmap(memory + i * PAGE, PAGE) == 0 && good;
    fact("they are gone", good);
    burn(0.05);
    return 0;
}
