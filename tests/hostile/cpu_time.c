// Threads that use CPU time and end, one after the other or all at once. The profile's sum must be
// what the process used: with libkiln.a a thread that ended was counted a second time. Beside a
// thread that has confined itself, what threads used in the last moments was not counted.
#include "confine.h"

#include <fcntl.h>
#include <pthread.h>

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

static void use_cpu(int n, bool overlapping)
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

int main(int argc, char **argv)
{
    require(argc == 4, "arguments");
    int n = (int)strtol(argv[2], NULL, 10);
    each = strtod(argv[3], NULL);
    bool confined = is(argv[1], "confined");
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
    use_cpu(n, is(argv[1], "overlapping"));
    double used = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - began;
#ifdef KILN_LINKED
    // The collector notices the end of threads a little later.
    if (!confined)
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
