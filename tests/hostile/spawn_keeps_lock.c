// A process that holds a POSIX lock on a file loses it when any descriptor of that file is closed.
// posix_spawn of the file must not open and close it in the process.
#include "hostile.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

static int look(void)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open("/proc/self/exe", O_RDONLY);
    require(fd >= 0 && fcntl(fd, F_GETLK, &lock) == 0, "F_GETLK");
    fact("the parent has its lock", lock.l_type == F_RDLCK && lock.l_pid == getppid());
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return look();
    hostile_begin();
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    int fd = open("/proc/self/exe", O_RDONLY);
    require(fd >= 0 && fcntl(fd, F_SETLK, &lock) == 0, "F_SETLK");
    char *const arguments[] = {argv[0], (char *)"look", NULL};
    pid_t child;
    require(posix_spawn(&child, argv[0], NULL, NULL, arguments, environ) == 0, "posix_spawn");
    int status = -1;
    waitpid(child, &status, 0);
    fact("the child ran", status == 0);
    return 0;
}
