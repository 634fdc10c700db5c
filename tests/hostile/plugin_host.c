// Loads and unloads a plugin, several times. With plugins that start and join threads in their
// constructors and destructors this hung in dlsym and prctl, which need the loader's lock.
#include "hostile.h"

#include <dlfcn.h>

int main(int argc, char **argv)
{
    hostile_begin();
    burn(0.02);
    for (long round = strtol(argv[1], NULL, 10); round > 0; round--) {
        for (int i = 2; i < argc; i++) {
            void *plugin = dlopen(argv[i], RTLD_NOW);
            require(plugin != NULL, argv[i]);
            fact("closed", dlclose(plugin) == 0);
        }
    }
    return 0;
}
