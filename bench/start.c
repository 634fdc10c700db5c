// Measures kiln_start and the first window in a process that has loaded the given libraries.
//
// usage: start [LIBRARY...]
// Prints the milliseconds of CPU time of kiln_start and of kiln_window_begin.
#include <kiln/kiln.h>

#include <dlfcn.h>
#include <stdio.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
    struct kiln_error error;
    for (int i = 1; i < argc; i++)
        if (!dlopen(argv[i], RTLD_LAZY)) {
            fprintf(stderr, "%s\n", dlerror());
            return 77;
        }
    double begin = now();
    if (kiln_start(NULL, &error)) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    double started = now();
    int window = kiln_window_begin(&error);
    double open = now();
    kiln_window_cancel(window);
    kiln_stop();
    printf("%.3f %.3f\n", started - begin, open - started);
    return 0;
}
