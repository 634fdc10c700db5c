// Replaces itself by the program of the second argument, opened before.
#include "hostile.h"

#include <fcntl.h>

int main(int argc, char **argv)
{
    require(argc == 3, "arguments");
    int program = open(argv[2], O_RDONLY | O_CLOEXEC);
    if (is(argv[1], "fexecve"))
        fexecve(program, argv + 2, environ);
    else
        execveat(program, "", argv + 2, environ, AT_EMPTY_PATH);
    return 9;
}
