// A program with one thread may rely on open returning the lowest free number: close(0) and open
// replace standard input, as shells and daemons do. A thread of the profiler that opens a file in
// between gets that number instead, and the program's file has another.
#include "hostile.h"

#include <fcntl.h>

int main(void)
{
    hostile_begin();
    int wrong = 0;
    double end = seconds_of(CLOCK_MONOTONIC) + 0.3;
    while (seconds_of(CLOCK_MONOTONIC) < end) {
        for (int i = 0; i < 200; i++) {
            close(STDIN_FILENO);
            int fd = open("/dev/null", O_RDONLY);
            wrong += fd != STDIN_FILENO;
            if (fd > STDERR_FILENO)
                close(fd);
        }
    }
    fact("open always returned the lowest free descriptor", wrong == 0);
    return 0;
}
