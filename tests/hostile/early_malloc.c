// A library that is relocated before libkiln_malloc allocates in the resolver of an IFUNC.
// usage: early_malloc PLUGIN
#include "hostile.h"

#include <dlfcn.h>

int main(int argc, char **argv)
{
    int (*plugin_answer)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "plugin_answer");
    char preload[8192];
    if (!plugin_answer && argc == 2) {
        const char *others = getenv("LD_PRELOAD");
        snprintf(preload, sizeof preload, "%s:%s", others ? others : "", argv[1]);
        setenv("LD_PRELOAD", preload, 1);
        execl("/proc/self/exe", argv[0], argv[1], "again", NULL);
    }
    hostile_begin();
    burn(0.05);
    fact("allocated", plugin_answer && plugin_answer());
    return 0;
}
