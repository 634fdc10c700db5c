// Loads ./libburn.so, leaves the directory and burns CPU time in it.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    void *library = dlopen("./libburn.so", RTLD_NOW);
    void (*burn)(double) = library ? (void (*)(double))dlsym(library, "burn_relative") : NULL;
    if (!burn || chdir("/")) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    burn(argc > 1 ? strtod(argv[1], NULL) : 1);
    return 0;
}
