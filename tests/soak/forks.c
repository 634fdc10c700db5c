// usage: forks SECONDS [own|follow]
//
// Forks all the time while other threads allocate, load objects, throw labels about and write
// windows. Each child uses the library as its parent does, and ends normally. In mode follow the
// library is preloaded and starts by itself in the children.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <kiln/kiln.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static _Atomic bool over, loading = true;
static bool own;
static volatile unsigned sink;

static void *allocate(void *context)
{
    while (!over) {
        void *blocks[64];
        for (unsigned i = 0; i < 64; i++)
            blocks[i] = malloc(64u << (i % 12));
        for (unsigned i = 0; i < 64; i++)
            free(blocks[i]);
    }
    return NULL;
}

static void *load(void *context)
{
    while (loading) {
        void *object = dlopen("libz.so.1", RTLD_NOW), *other = dlopen("libbz2.so.1.0", RTLD_NOW);
        if (other)
            dlclose(other);
        if (object)
            dlclose(object);
    }
    return NULL;
}

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
    sink += info->dlpi_phnum;
    return 0;
}

// As unwinders do.
static void *iterate(void *context)
{
    while (!over) {
        for (unsigned i = 0; i < 200; i++)
            dl_iterate_phdr(visit, NULL);
        usleep(100);
    }
    return NULL;
}

static void *write_windows(void *context)
{
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    while (!over) {
        int window = kiln_window_begin(NULL);
        kiln_labels_enter(kiln_labels_with(0, "k", sink % 2 ? "odd" : "even"));
        kiln_window_write(window, fd, NULL);
    }
    close(fd);
    return NULL;
}

static void burn(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        sink += i * sink;
}

static int use_library(void)
{
    struct kiln_options options = {.size = sizeof options, .frequency = 4000};
    struct kiln_error error = {""};
    // A preloaded one that follows has started already.
    if (own && kiln_start(&options, &error)) {
        fprintf(stderr, "child: %s\n", error.message);
        return 1;
    }
    int window = kiln_window_begin(&error), fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    kiln_labels_enter(kiln_labels_with(0, "child", "yes"));
    burn(100000);
    if (window < 0 || kiln_window_write(window, fd, &error)) {
        fprintf(stderr, "child: %s\n", error.message);
        return 1;
    }
    if (own)
        kiln_stop();
    return 0;
}

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

// Waits for a while only: a child that hangs is reported, and tests/soak/run prints its stacks.
static bool wait_for(pid_t child, int *status)
{
    enum { HANG_SECONDS = 20, STAY_SECONDS = 120 };
    for (double end = now() + HANG_SECONDS; now() < end; usleep(200)) {
        pid_t got = waitpid(child, status, WNOHANG);
        if (got)
            return got == child;
    }
    fprintf(stderr, "child %d hangs after %d s\n", (int)child, HANG_SECONDS);
    sleep(STAY_SECONDS);
    kill(child, SIGKILL);
    return waitpid(child, status, 0) == child;
}

int main(int argc, char **argv)
{
    double length = argc > 1 ? strtod(argv[1], NULL) : 2, end = now() + length;
    own = argc < 3 || strcmp(argv[2], "own") == 0;
    struct kiln_options options = {.size = sizeof options, .frequency = 1000};
    struct kiln_error error = {""};
    if (own && kiln_start(&options, &error)) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    void *(*const routines[])(void *) = {allocate, load, iterate, write_windows};
    pthread_t threads[4];
    for (unsigned i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, routines[i], NULL))
            return 1;
    unsigned long forks = 0, failed = 0;
    while (now() < end) {
        if (loading && now() > end - length / 2) {
            loading = false;
            pthread_join(threads[1], NULL);
        }
        bool normally = !loading;
        pid_t child = fork();
        if (child == 0) {
            // In a child exit waits for a lock of libc that a thread of its parent had in dlclose,
            // with or without a profiler.
            int status = use_library();
            if (normally)
                exit(status);
            _exit(status);
        }
        int status = -1;
        if (child < 0 || !wait_for(child, &status) || status != 0) {
            fprintf(stderr, "child %lu ended with status %#x\n", forks, (unsigned)status);
            if (++failed > 3)
                break;
        }
        forks++;
    }
    over = true;
    loading = false;
    for (unsigned i = 0; i < 4; i++)
        if (i != 1)
            pthread_join(threads[i], NULL);
    printf("forks=%lu failed=%lu\n", forks, failed);
    return failed != 0;
}
