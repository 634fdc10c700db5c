// Executes itself with the largest environment that the kernel takes.
#include "hostile.h"

#include <sys/syscall.h>
#include <sys/wait.h>

enum { STRING = 100000, MOST = 1000 };

static char *environment[MOST + 1];

// The kernel knows how much fits; nobody adds to a bare system call.
static void fill(size_t bytes)
{
    static char full[STRING + 1], rest[STRING + 1];
    size_t n = 0;
    memset(full, 'x', STRING);
    memset(rest, 'y', STRING);
    full[1] = rest[1] = '=';
    for (; n < bytes / STRING; n++)
        environment[n] = full;
    rest[bytes % STRING] = '\0';
    environment[n++] = rest;
    environment[n] = NULL;
}

static bool fits(size_t bytes)
{
    char *arguments[] = {"itself", "probe", NULL};
    fill(bytes);
    pid_t child = fork();
    if (child == 0) {
        syscall(SYS_execve, "/proc/self/exe", arguments, environment);
        _exit(1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    return status == 0;
}

int main(int argc, char **argv)
{
    char *arguments[] = {"itself", "large", NULL};
    if (argc == 2 && is(argv[1], "probe"))
        return 0;
    if (argc == 2 && is(argv[1], "large")) {
        say("executed\n");
        return 0;
    }
    hostile_begin();
    size_t low = STRING, high = (size_t)STRING * MOST / 4;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (fits(middle))
            low = middle;
        else
            high = middle;
    }
    fill(low);
    execve("/proc/self/exe", arguments, environment);
    perror("execve");
    return 1;
}
