#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "cli/help.h"
#include "symbol/mapped_file.h"

static void end_for_want_of_memory(const char *why)
{
    fprintf(stderr, "kiln: %s\n", why);
    exit(2);
}

// Standard input, output and error may be closed: a file of ours must not get their numbers. A
// program that we execute finds them closed, as we did.
static void take_standard_descriptors(void)
{
    int fd;
    while ((fd = open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0 && fd <= STDERR_FILENO)
        ;
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv)
{
    take_standard_descriptors();
    arena_on_exhaustion(end_for_want_of_memory);
    setlocale(LC_CTYPE, "");
    mapped_file_guard();
    if (argc < 2) {
        help_overview(stderr);
        return 2;
    }
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        puts("kiln " KILN_VERSION);
        return 0;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        help_overview(stdout);
        return 0;
    }
    const struct command *command = command_find(name);
    return command ? command_main(command, argc - 1, argv + 1) : help_unknown(name);
}
