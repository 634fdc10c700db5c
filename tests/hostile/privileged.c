// Linked with libkiln and installed setuid root or with file capabilities. Whoever runs it controls
// the environment: KILN_OUTPUT let user nobody overwrite root's files. Under AT_SECURE libkiln must
// do nothing at all.
#include "hostile.h"

#ifdef KILN_LINKED
static void use_library(void)
{
    struct kiln_statistics statistics = {.size = sizeof statistics};
    kiln_get_statistics(&statistics);
}
#endif

#include <sys/auxv.h>

int main(void)
{
#ifdef KILN_LINKED
    use_library();
#endif
    burn(0.05);
    fact("the program runs with rights of its own", getauxval(AT_SECURE) != 0);
    return 0;
}
