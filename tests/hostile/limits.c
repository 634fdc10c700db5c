// Runs out of something: descriptors, memory, threads, stack, CPU time. The program's own calls
// must fail where they fail without the profiler, and succeed where they succeed.
#include "hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

static volatile sig_atomic_t warned;

static void on_cpu_limit(int signal)
{
    warned = 1;
}

static void *work(void *context)
{
    burn(0.02);
    return context;
}

static bool start_thread(void)
{
    pthread_t thread;
    return pthread_create(&thread, NULL, work, NULL) == 0 && pthread_join(thread, NULL) == 0;
}

static void set_limit(int kind, rlim_t soft)
{
    struct rlimit limit;
    getrlimit(kind, &limit);
    limit.rlim_cur = soft;
    require(setrlimit(kind, &limit) == 0, "setrlimit");
}

static void without_descriptors(void)
{
    set_limit(RLIMIT_NOFILE, 64);
    int n = 0;
    while (open("/dev/null", O_RDONLY) >= 0)
        n++;
    fact("all descriptors are taken", n > 0 && errno == EMFILE);
    for (int i = 0; i < 5; i++)
        fact("a thread starts without descriptors", start_thread());
    close(10);
    pause_ms(20);
    fact("one that is closed can be opened again", open("/dev/null", O_RDONLY) >= 0);
    burn(0.05);
}

static void without_any_descriptor(void)
{
    set_limit(RLIMIT_NOFILE, 3);
    fact("open fails", open("/dev/null", O_RDONLY) == -1 && errno == EMFILE);
    fact("a thread starts", start_thread());
    burn(0.05);
}

static void without_memory(void)
{
    void *volatile object = malloc(100);
    free(object);
    set_limit(RLIMIT_AS, 1 << 20); // less than what is mapped already
    fact("a large block is refused", (object = malloc(64 << 20)) == NULL);
    fact("a thread is refused", !start_thread());
    burn(0.1);
    set_limit(RLIMIT_AS, RLIM_INFINITY);
    fact("a thread starts again", start_thread());
}

static void with_small_stack(void)
{
    set_limit(RLIMIT_STACK, 256 << 10);
    fact("a thread starts", start_thread());
    burn(0.1);
}

static void without_cpu(void)
{
    struct sigaction action = {.sa_handler = on_cpu_limit};
    sigaction(SIGXCPU, &action, NULL);
    set_limit(RLIMIT_CPU, 1);
    double end = seconds_of(CLOCK_PROCESS_CPUTIME_ID) + 5;
    while (!warned && seconds_of(CLOCK_PROCESS_CPUTIME_ID) < end)
        burn(0.02);
    fact("SIGXCPU arrived", warned);
}

int main(int argc, char **argv)
{
    hostile_begin();
    require(argc == 2, "an argument");
    burn(0.05);
    if (is(argv[1], "descriptors"))
        without_descriptors();
    else if (is(argv[1], "any_descriptor"))
        without_any_descriptor();
    else if (is(argv[1], "memory"))
        without_memory();
    else if (is(argv[1], "stack"))
        with_small_stack();
    else
        without_cpu();
    return 0;
}
