// Loads plugins and calls each at once.
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        void *plugin = dlopen(argv[i], RTLD_NOW);
        void (*fill)(void) = plugin ? (void (*)(void))dlsym(plugin, "fill") : NULL;
        if (!fill) {
            puts(dlerror());
            return 1;
        }
        fill();
    }
    return 0;
}
