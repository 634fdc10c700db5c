// Built with musl: glibc's libraries cannot be preloaded into it.
#include <stdio.h>

int main(void)
{
    for (volatile long i = 0; i < 30000000; i++)
        ;
    puts("musl ran");
    return 4;
}
