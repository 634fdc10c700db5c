// Loads thousands of plugins, or one again and again where there are thousands. A profiler that
// looks at all of them after each one takes a time that grows with the square of their number, and
// holds the loader's lock meanwhile.
#include "hostile.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>

enum { PLUGINS = 2500, MOST_BYTES = 1 << 20 };

static char bytes[MOST_BYTES];

static void copy_plugin(const char *path, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    require(fd >= 0 && write(fd, bytes, n) == (ssize_t)n && close(fd) == 0, "a copy");
}

static double used_by_others(void)
{
    return seconds_of(CLOCK_PROCESS_CPUTIME_ID) - seconds_of(CLOCK_THREAD_CPUTIME_ID);
}

static void *end_at_once(void *context)
{
    return context;
}

// One more comes and goes, and so do threads.
static void churn(const char *path)
{
    pthread_t thread;
    for (double end = seconds_of(CLOCK_MONOTONIC) + 2; seconds_of(CLOCK_MONOTONIC) < end;) {
        void *plugin = dlopen(path, RTLD_NOW);
        require(plugin && pthread_create(&thread, NULL, end_at_once, NULL) == 0, "churn");
        pthread_join(thread, NULL);
        dlclose(plugin);
        pause_ms(1);
    }
}

int main(int argc, char **argv)
{
    char directory[] = "/tmp/kiln-plugins-XXXXXX", path[64];
    require(argc == 3 && mkdtemp(directory), "a directory");
    int fd = open(argv[2], O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, bytes, sizeof bytes);
    require(n > 0 && n < MOST_BYTES, "the plugin");
    close(fd);
    hostile_begin();
    burn(0.05);
    double began = seconds_of(CLOCK_MONOTONIC), others = used_by_others();
    int loaded = 0;
    for (int i = 0; i < PLUGINS; i++) {
        snprintf(path, sizeof path, "%s/%d.so", directory, i);
        copy_plugin(path, (size_t)n);
        loaded += dlopen(path, RTLD_NOW) != NULL;
        unlink(path);
    }
    if (is(argv[1], "churn")) {
        began = seconds_of(CLOCK_MONOTONIC);
        others = used_by_others();
        churn(argv[2]);
    }
    others = used_by_others() - others;
    double wall = seconds_of(CLOCK_MONOTONIC) - began;
    rmdir(directory);
    fact("all are loaded", loaded == PLUGINS);
    // Of the wall clock: on a busy machine the loading takes longer, and is looked at more often.
    fact("nobody else uses much CPU time meanwhile", others <= wall * 0.15);
    return 0;
}
