// Starts with a relative KILN_OUTPUT, loads a library by a relative path, changes its directory and
// computes in the library. The profile belongs where the process started, with the library's names.
#include "hostile.h"

#include <dlfcn.h>
#include <sys/stat.h>

int main(int argc, char **argv)
{
    hostile_begin();
    require(argc == 2, "an argument");
    void *library = dlopen(argv[1], RTLD_NOW);
    require(library != NULL, "dlopen");
    void (*work)(void) = (void (*)(void))dlsym(library, "work_in_library");
    mkdir("elsewhere", 0755);
    require(chdir("elsewhere") == 0, "chdir");
    for (int i = 0; i < 120; i++)
        work();
    say("done\n");
    return 0;
}
