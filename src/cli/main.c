#include <stdio.h>
#include <string.h>

#include "cli/commands.h"

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "pprof") == 0)
        return command_pprof(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        puts("kiln " KILN_VERSION);
        return 0;
    }
    return 2;
}
