// Becomes a daemon: forks twice, leaves its session, closes its standard descriptors and works on.
// The first process waits for the daemon's last word through a pipe, so the test has an end.
#include "hostile.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void be_daemon(int report)
{
    chdir("/");
    umask(0);
    for (int i = 0; i < 3; i++)
        close(i);
    open("/dev/null", O_RDWR);
    dup(0);
    dup(0);
    burn(0.15);
    if (write(report, "done", 4) != 4)
        _exit(1);
    exit(0);
}

int main(void)
{
    int report[2];
    hostile_begin();
    burn(0.05);
    require(pipe(report) == 0, "pipe");
    pid_t child = fork();
    if (child == 0) {
        setsid();
        if (fork())
            _exit(0);
        close(report[0]);
        be_daemon(report[1]);
    }
    close(report[1]);
    int status = -1;
    waitpid(child, &status, 0);
    fact("the first child ended", status == 0);
    char text[8] = "";
    fact("the daemon reported", read(report[0], text, sizeof text - 1) == 4 && is(text, "done"));
    fact("the daemon ended", read(report[0], text, 1) == 0);
    return 0;
}
