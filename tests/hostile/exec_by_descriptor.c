// Replaces itself by a program that a descriptor names: fexecve, and execveat with an empty path,
// with a path below a directory, and with a path alone. The new program is still profiled, ignores
// SIGPROF as the old one did, and finds none pending.
#include "hostile.h"

#include <fcntl.h>
#include <signal.h>

static int report(void)
{
    struct sigaction now;
    sigset_t pending;
    sigaction(SIGPROF, NULL, &now);
    sigpending(&pending);
    fact("SIGPROF is ignored", now.sa_handler == SIG_IGN);
    fact("none is pending", !sigismember(&pending, SIGPROF));
    fact("no variable of the profiler's is left", !getenv("KILN_OUTPUT") && !getenv("KILN_RUN"));
    burn(0.1);
    return 4;
}

int main(int argc, char **argv)
{
    require(argc == 2, "an argument");
    if (is(argv[1], "report"))
        return report();
    char *const arguments[] = {argv[0], "report", NULL};
    char *name = strrchr(argv[0], '/');
    require(name, "a path");
    hostile_begin();
    signal(SIGPROF, SIG_IGN);
    burn(0.05);
    int program = open(argv[0], O_RDONLY | O_CLOEXEC);
    *name = '\0';
    int directory = open(argv[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *name = '/';
    if (is(argv[1], "fexecve"))
        fexecve(program, arguments, environ);
    else if (is(argv[1], "empty"))
        execveat(program, "", arguments, environ, AT_EMPTY_PATH);
    else if (is(argv[1], "below"))
        execveat(directory, name + 1, arguments, environ, 0);
    else
        execveat(AT_FDCWD, argv[0], arguments, environ, 0);
    return 9;
}
