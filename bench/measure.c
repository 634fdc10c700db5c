// Runs a command and prints its time and peak memory. A separate program, because a child's peak
// memory includes what its parent held at the fork; here that is almost nothing.
//
// usage: measure COMMAND [ARG...]
// Discards the standard output of the command. The last line on standard error is `SECONDS
// KILOBYTES`. The exit code is the command's, or 128 + signal.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: measure COMMAND [ARG...]\n");
        return 2;
    }
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    double start = now();
    pid_t child = fork();
    if (child == 0) {
        dup2(null, 0);
        dup2(null, 1);
        execvp(argv[1], argv + 1);
        fprintf(stderr, "measure: %s: %s\n", argv[1], strerror(errno));
        _exit(127);
    }
    int status;
    struct rusage usage;
    if (child < 0 || wait4(child, &status, 0, &usage) < 0) {
        fprintf(stderr, "measure: %s\n", strerror(errno));
        return 2;
    }
    fprintf(stderr, "%.6f %ld\n", now() - start, usage.ru_maxrss);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
