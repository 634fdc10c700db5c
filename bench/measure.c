// Runs a command and says what it took. A program of its own, since a child's peak memory
// counts what its parent held when it forked: here, next to nothing.
//
// usage: measure COMMAND [ARG...]
// Standard output of the command is discarded. The last line on standard error is
// `SECONDS KILOBYTES`; the exit code is the command's, 128 and more after a signal.
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
