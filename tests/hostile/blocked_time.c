// A program that blocks SIGPROF again and again, around short or long pieces of work, and one that
// looks at what is pending each time. The profile's sum must be what the process used.
#include "hostile.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>

static void on_prof(int signal)
{
}

static void use_cpu(const char *how, long rounds, double seconds)
{
    sigset_t set, had, pending;
    struct timespec zero = {0, 0};
    double end = seconds_of(CLOCK_THREAD_CPUTIME_ID) + seconds;
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    while (seconds_of(CLOCK_THREAD_CPUTIME_ID) < end) {
        sigprocmask(SIG_BLOCK, &set, &had);
        spin(rounds);
        if (is(how, "look")) {
            sigpending(&pending);
            sigtimedwait(&set, NULL, &zero);
        } else if (is(how, "wait")) {
            ppoll(NULL, 0, &zero, &had);
        }
        sigprocmask(SIG_SETMASK, &had, NULL);
        spin(rounds / 8);
    }
}

int main(int argc, char **argv)
{
    require(argc == 4, "arguments");
#ifdef KILN_LINKED
    struct kiln_options options = {.size = sizeof options, .frequency = 1000};
    require(kiln_start(&options, NULL) == 0, "kiln_start");
    int window = kiln_window_begin(NULL);
#endif
    double began = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    if (is(argv[1], "handler"))
        signal(SIGPROF, on_prof);
    use_cpu(argv[2], strtol(argv[3], NULL, 10), 0.5);
    double used = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - began;
#ifdef KILN_LINKED
    int fd = open("cpu.pb.gz", O_CREAT | O_TRUNC | O_WRONLY, 0644);
    require(fd >= 0 && kiln_window_write(window, fd, NULL) == 0, "kiln_window_write");
    close(fd);
#endif
    FILE *file = fopen("cpu.used", "w");
    require(file && fprintf(file, "%f\n", used) > 0 && fclose(file) == 0, "cpu.used");
    say("done\n");
    return 0;
}
