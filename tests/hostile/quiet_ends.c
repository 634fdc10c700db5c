// Ends where writing a file or a message raises a signal: a limit of file sizes, standard error
// that nobody reads. The program itself writes nothing there. Or standard error has become a file
// of the program's.
#include "hostile.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

int main(int argc, char **argv)
{
    require(argc == 2, "an argument");
    hostile_begin();
    burn(0.05);
    if (is(argv[1], "file_size")) {
        struct rlimit limit = {100, 100};
        require(setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit");
    } else if (is(argv[1], "data")) {
        close(2);
        require(open("data", O_WRONLY | O_CREAT, 0600) == 2, "open");
        require(chroot("/proc/self/fdinfo") == 0, "chroot");
    } else {
        int ends[2];
        require(pipe(ends) == 0, "pipe");
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        require(chroot("/proc/self/fdinfo") == 0, "chroot");
    }
    return 6;
}
