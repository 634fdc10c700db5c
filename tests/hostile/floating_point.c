// Floating-point exceptions are the program's: malloc raises no flags, and if the program has
// enabled traps, neither its allocations nor threads that are started meanwhile nor calls of
// libkiln may trap.
#include "hostile.h"

#include <fcntl.h>
#include <fenv.h>
#include <pthread.h>

static void allocate(void)
{
    for (size_t i = 0; i < 20000; i++) {
        void *volatile object = malloc(1000 + i % 5000);
        free(object);
    }
}

static void *work(void *context)
{
    spin(20000000);
    allocate();
    return context;
}

int main(int argc, char **argv)
{
    require(argc == 2, "an argument");
    if (is(argv[1], "flags")) {
        hostile_begin();
        feclearexcept(FE_ALL_EXCEPT);
        allocate();
        fact("no exception was raised", fetestexcept(FE_ALL_EXCEPT) == 0);
        return 0;
    }
    feenableexcept(FE_ALL_EXCEPT);
    hostile_begin();
    allocate();
    spin(400000000);
    pthread_t thread;
    require(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
    pthread_join(thread, NULL);
#ifdef KILN_LINKED
    struct kiln_error error;
    struct kiln_output output = {.size = sizeof output, .format = KILN_SVG};
    int window = kiln_window_begin(&error);
    spin(100000000);
    if (window < 0 || kiln_window_write_as(window, open("/dev/null", O_WRONLY), &output, &error))
        fprintf(stderr, "kiln: %s\n", error.message);
#endif
    say("done\n");
    return 0;
}
