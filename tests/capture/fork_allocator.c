// An allocator whose locks are not usable yet while the handlers of pthread_atfork run in the
// child, as it is with allocators that register theirs after ours, or never: whoever allocates or
// frees there hangs, here it aborts.
#include <fcntl.h>
#include <kiln/kiln.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t in_handlers;

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void __libc_free(void *p);

static void check(const char *function)
{
    if (!in_handlers)
        return;
    in_handlers = 0;
    dprintf(1, "not ok - %s in a handler of pthread_atfork, in the child\n", function);
    abort();
}

void *malloc(size_t n)
{
    check("malloc");
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    check("calloc");
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    check("realloc");
    return __libc_realloc(p, n);
}

void free(void *p)
{
    if (p)
        check("free");
    __libc_free(p);
}

static void handlers_begin(void)
{
    in_handlers = 1;
}

static void handlers_end(void)
{
    in_handlers = 0;
}

static struct kiln_error error;

static int fail(const char *what)
{
    printf("not ok - %s: %s\n", what, error.message);
    return 1;
}

static void burn(unsigned ms)
{
    struct timespec from, now;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - from.tv_sec) * 1000 + (now.tv_nsec - from.tv_nsec) / 1000000 < ms);
}

// Everything that has something to lose in a fork.
static int use_all(int *window)
{
    static const char *const tags[] = {"tag", "value", NULL};
    struct kiln_options o = {.size = sizeof o, .frequency = 1000};
    struct kiln_push_options p = {
        .size = sizeof p, .url = "http://127.0.0.1:1", .tags = tags, .interval = 1};
    struct kiln_serve_options s = {.size = sizeof s, .address = "127.0.0.1:0"};
    if (kiln_start(&o, &error))
        return fail("start");
    if ((*window = kiln_window_begin(&error)) < 0)
        return fail("window");
    if (kiln_heap_start(NULL, &error) && !kiln_heap_active())
        return fail("heap");
    if (kiln_heap_window_begin(&error) < 0)
        return fail("heap window");
    if (kiln_push_start(&p, &error))
        return fail("push");
    if (kiln_serve(&s, &error))
        return fail("serve");
    kiln_labels_push("key", "value");
    struct kiln_push_statistics queued = {.size = sizeof queued};
    for (int i = 0; i < 100 && !queued.queued; i++) {
        burn(50);
        kiln_push_get_statistics(&queued);
    }
    return queued.queued ? 0 : fail("nothing waits to be pushed");
}

static int be_child(int inherited)
{
    int window, nowhere = open("/dev/null", O_WRONLY);
    struct kiln_statistics s = {.size = sizeof s};
    struct kiln_push_statistics p = {.size = sizeof p};
    alarm(60);
    kiln_get_statistics(&s);
    kiln_push_get_statistics(&p);
    if (s.windows || p.queued || p.queued_bytes)
        return fail("the child has windows or requests of the parent's");
    if (kiln_window_write(inherited, nowhere, &error) == 0)
        return fail("a window of the parent's is open");
    if (use_all(&window))
        return 1;
    return kiln_window_write(window, nowhere, &error) ? fail("write") : 0;
}

int main(void)
{
    int window, status;
    setvbuf(stdout, NULL, _IONBF, 0);
    // In the child they are called in this order.
    pthread_atfork(NULL, NULL, handlers_begin);
    if (use_all(&window))
        return 1;
    pthread_atfork(NULL, NULL, handlers_end);
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(be_child(window));
        waitpid(child, &status, 0);
        if (status)
            return printf("not ok - the child: %#x\n", (unsigned)status);
    }
    puts("1 passed, 0 failed");
    return 0;
}
