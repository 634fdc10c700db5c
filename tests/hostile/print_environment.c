// Prints the variables that libkiln and the loader read.
#include "hostile.h"

int main(void)
{
    for (char **p = environ; *p; p++)
        if (strncmp(*p, "KILN_", 5) == 0 || strncmp(*p, "LD_", 3) == 0)
            puts(*p);
    puts("no more");
    return 0;
}
