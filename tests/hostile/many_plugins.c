// Loads thousands of plugins. A profiler that looks at all of them after each one takes a time that
// grows with the square of their number, and holds the loader's lock meanwhile.
#include "hostile.h"

#include <dlfcn.h>
#include <fcntl.h>

enum { PLUGINS = 2500, MOST_BYTES = 1 << 20 };

static char bytes[MOST_BYTES];

static void copy_plugin(const char *path, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    require(fd >= 0 && write(fd, bytes, n) == (ssize_t)n && close(fd) == 0, "a copy");
}

int main(int argc, char **argv)
{
    char directory[] = "/tmp/kiln-plugins-XXXXXX", path[64];
    require(argc == 2 && mkdtemp(directory), "a directory");
    int fd = open(argv[1], O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, bytes, sizeof bytes);
    require(n > 0 && n < MOST_BYTES, "the plugin");
    close(fd);
    hostile_begin();
    burn(0.05);
    double began = seconds_of(CLOCK_MONOTONIC);
    int loaded = 0;
    for (int i = 0; i < PLUGINS; i++) {
        snprintf(path, sizeof path, "%s/%d.so", directory, i);
        copy_plugin(path, (size_t)n);
        loaded += dlopen(path, RTLD_NOW) != NULL;
        unlink(path);
    }
    double others = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - seconds_of(CLOCK_THREAD_CPUTIME_ID);
    double wall = seconds_of(CLOCK_MONOTONIC) - began;
    rmdir(directory);
    fact("all are loaded", loaded == PLUGINS);
    // Of the wall clock: on a busy machine the loading takes longer, and is looked at more often.
    fact("nobody else uses much CPU time meanwhile", others <= wall * 0.15);
    return 0;
}
