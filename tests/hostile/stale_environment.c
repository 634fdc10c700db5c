// Starts a program with the environment that it was started with itself, as Go does: whatever
// libkiln put there since is missing. The child must not take itself for its parent.
#include "hostile.h"

#include <fcntl.h>
#include <sys/wait.h>

int main(int argc, char **argv)
{
    static char text[65536];
    char *environment[1000], *arguments[] = {"stale_environment", "child", NULL};
    int n = 0;
    hostile_begin();
    burn(0.05);
    if (argc > 1) {
        say("child\n");
        return 0;
    }
    int fd = open("/proc/self/environ", O_RDONLY);
    require(fd >= 0 && read(fd, text, sizeof text - 2) > 0, "/proc/self/environ");
    close(fd);
    for (char *p = text; *p && n < 999; p += strlen(p) + 1)
        environment[n++] = p;
    environment[n] = NULL;
    pid_t child = fork();
    if (child == 0) {
        execve("/proc/self/exe", arguments, environment);
        _exit(9);
    }
    int status = -1;
    waitpid(child, &status, 0);
    fact("the child ran", status == 0);
    burn(0.05);
    return 0;
}
