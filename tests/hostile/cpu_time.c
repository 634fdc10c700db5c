// Programs that use CPU time in ways that are hard to follow. The profile's sum must be what the
// process used.
//
// usage: cpu_time sequential|overlapping|confined THREADS SECONDS
//            Threads that use CPU time and end, one after the other or all at once: with libkiln.a
//            a thread that ended was counted a second time. Beside a thread that has confined
//            itself, the last moments of threads were not counted.
//        cpu_time blocked|handled work|look|wait ROUNDS
//            Blocks SIGPROF again and again, around short or long pieces of work, and looks at or
//            waits for what is pending; with a handler of the program's own, or without.
#include "confine.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>

static double each;

static void *work(void *context)
{
    burn(each);
    return context;
}

static void *be_confined(void *context)
{
    confine(BY_PRCTL, SECCOMP_RET_KILL_PROCESS, true);
    return context;
}

static void use_threads(int n, bool overlapping)
{
    pthread_t threads[64];
    for (int i = 0; i < n; i++) {
        require(pthread_create(&threads[i], NULL, work, NULL) == 0, "pthread_create");
        if (!overlapping)
            pthread_join(threads[i], NULL);
    }
    for (int i = 0; overlapping && i < n; i++)
        pthread_join(threads[i], NULL);
}

static void on_prof(int signal)
{
}

static void use_blocked(const char *how, long rounds, double seconds)
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
    bool confined = is(argv[1], "confined"), handled = is(argv[1], "handled");
    bool threads = !handled && !is(argv[1], "blocked");
#ifdef KILN_LINKED
    struct kiln_options options = {.size = sizeof options, .frequency = 1000};
    require(kiln_start(&options, NULL) == 0, "kiln_start");
    int window = kiln_window_begin(NULL);
#endif
    pthread_t thread;
    if (confined)
        require(pthread_create(&thread, NULL, be_confined, NULL) == 0 &&
                    pthread_join(thread, NULL) == 0,
                "pthread_create");
    double began = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    if (handled)
        signal(SIGPROF, on_prof);
    if (threads) {
        each = strtod(argv[3], NULL);
        use_threads((int)strtol(argv[2], NULL, 10), is(argv[1], "overlapping"));
    } else {
        use_blocked(argv[2], strtol(argv[3], NULL, 10), 0.5);
    }
    double used = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - began;
#ifdef KILN_LINKED
    // The collector notices the end of threads a little later.
    if (threads && !confined)
        pause_ms(300);
    int fd = open("cpu.pb.gz", O_CREAT | O_TRUNC | O_WRONLY, 0644);
    require(fd >= 0 && kiln_window_write(window, fd, NULL) == 0, "kiln_window_write");
    close(fd);
#endif
    FILE *file = fopen("cpu.used", "w");
    require(file && fprintf(file, "%f\n", used) > 0 && fclose(file) == 0, "cpu.used");
    say("done\n");
    return 0;
}
