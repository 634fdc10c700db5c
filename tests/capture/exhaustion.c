// Whatever runs out inside of a host, the host goes on: every call of the library fails or
// succeeds, nothing ends the process or hangs, and once there is enough again the same call
// succeeds.
//
// Each trial is a child of its own. What fails: the Nth allocation alone; all allocations from the
// Nth on; threads; address space (RLIMIT_AS); descriptors (RLIMIT_NOFILE).
//
// usage: exhaustion [OPERATION [WAY N]]
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <kiln/kiln.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../long.h"
#include "base/arena.h"

// --- what fails ---

enum way { ONE, ALL, THREADS, SPACE, DESCRIPTORS, WAYS };
static const char *const ways[] = {"one allocation", "all allocations", "threads", "address space",
                                   "descriptors"};

static _Atomic int failing; // enum way + 1
static _Atomic long count, nth;

static bool fails(void)
{
    int way = atomic_load(&failing);
    if (way != ONE + 1 && way != ALL + 1)
        return false;
    long n = atomic_fetch_add(&count, 1) + 1;
    bool fail = way == ONE + 1 ? n == atomic_load(&nth) : n >= atomic_load(&nth);
    if (fail)
        errno = ENOMEM;
    return fail;
}

// Sanitizers have an allocator of their own: there only our own calls fail, by --wrap.
#ifdef SANITIZED
#define NAME(function) __wrap_##function
#define REAL(function) __real_##function
#else
#define NAME(function) function
#define REAL(function) __libc_##function
#endif
void *REAL(malloc)(size_t n);
void *REAL(calloc)(size_t n, size_t size);
void *REAL(realloc)(void *p, size_t n);
void *NAME(malloc)(size_t n);
void *NAME(calloc)(size_t n, size_t size);
void *NAME(realloc)(void *p, size_t n);

void *NAME(malloc)(size_t n)
{
    return fails() ? NULL : REAL(malloc)(n);
}

void *NAME(calloc)(size_t n, size_t size)
{
    return fails() ? NULL : REAL(calloc)(n, size);
}

void *NAME(realloc)(void *p, size_t n)
{
    return fails() ? NULL : REAL(realloc)(p, n);
}

void *__wrap_mmap(void *address, size_t n, int protection, int flags, int fd, off_t offset);
void *__wrap_mremap(void *old, size_t n, size_t new_n, int flags, ...);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*routine)(void *), void *context);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*routine)(void *), void *context);

void *__wrap_mmap(void *address, size_t n, int protection, int flags, int fd, off_t offset)
{
    return fails() ? MAP_FAILED
                   : (void *)syscall(SYS_mmap, address, n, protection, flags, fd, offset);
}

void *__wrap_mremap(void *old, size_t n, size_t new_n, int flags, ...)
{
    return fails() ? MAP_FAILED : (void *)syscall(SYS_mremap, old, n, new_n, flags, 0);
}

// An arena asks the kernel now and then only; here any of its allocations may be the one that
// fails.
#define FAIL_IN_ARENA(arena) \
    if (fails())             \
    arena_fail(arena, "out of memory: this is a test")
void *__real_arena_alloc(struct arena *arena, size_t size);
void *__real_arena_array(struct arena *arena, size_t count, size_t size);
void *__real_arena_grow(struct arena *arena, void *old, size_t old_size, size_t new_size);
void *__real_arena_raw(struct arena *arena, size_t count, size_t size);
void *__real_arena_push_more(struct arena *arena, void *items, size_t *cap, size_t element);
char *__real_arena_copy(struct arena *arena, const char *text, size_t n);
void *__wrap_arena_alloc(struct arena *arena, size_t size);
void *__wrap_arena_array(struct arena *arena, size_t n, size_t size);
void *__wrap_arena_grow(struct arena *arena, void *old, size_t old_size, size_t new_size);
void *__wrap_arena_raw(struct arena *arena, size_t n, size_t size);
void *__wrap_arena_push_more(struct arena *arena, void *items, size_t *cap, size_t element);
char *__wrap_arena_copy(struct arena *arena, const char *text, size_t n);

void *__wrap_arena_alloc(struct arena *arena, size_t size)
{
    FAIL_IN_ARENA(arena);
    return __real_arena_alloc(arena, size);
}

void *__wrap_arena_array(struct arena *arena, size_t n, size_t size)
{
    FAIL_IN_ARENA(arena);
    return __real_arena_array(arena, n, size);
}

void *__wrap_arena_grow(struct arena *arena, void *old, size_t old_size, size_t new_size)
{
    FAIL_IN_ARENA(arena);
    return __real_arena_grow(arena, old, old_size, new_size);
}

void *__wrap_arena_raw(struct arena *arena, size_t n, size_t size)
{
    FAIL_IN_ARENA(arena);
    return __real_arena_raw(arena, n, size);
}

void *__wrap_arena_push_more(struct arena *arena, void *items, size_t *cap, size_t element)
{
    FAIL_IN_ARENA(arena);
    return __real_arena_push_more(arena, items, cap, element);
}

char *__wrap_arena_copy(struct arena *arena, const char *text, size_t n)
{
    FAIL_IN_ARENA(arena);
    return __real_arena_copy(arena, text, n);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*routine)(void *), void *context)
{
    if (atomic_load(&failing) == THREADS + 1 && atomic_fetch_add(&count, 1) + 1 == nth)
        return EAGAIN;
    return __real_pthread_create(thread, attributes, routine, context);
}

static size_t address_space(void)
{
    unsigned long pages = 0;
    char text[64] = "";
    int fd = open("/proc/self/statm", O_RDONLY);
    if (read(fd, text, sizeof text - 1) > 0)
        pages = strtoul(text, NULL, 10);
    close(fd);
    return pages * 4096;
}

static rlim_t had_limit;

static void set_limit(int resource, rlim_t limit)
{
    struct rlimit r;
    getrlimit(resource, &r);
    had_limit = r.rlim_cur;
    r.rlim_cur = limit;
    setrlimit(resource, &r);
}

static void begin_failing(enum way way, long n)
{
    nth = n;
    count = 0;
    if (way == SPACE) {
        set_limit(RLIMIT_AS, address_space() + (rlim_t)(n - 1) * (64 << 10));
    } else if (way == DESCRIPTORS) {
        int lowest = dup(0);
        close(lowest);
        set_limit(RLIMIT_NOFILE, (rlim_t)(lowest + n - 1));
    }
    failing = (int)way + 1;
}

static void end_failing(enum way way)
{
    failing = 0;
    if (way == SPACE)
        set_limit(RLIMIT_AS, had_limit);
    else if (way == DESCRIPTORS)
        set_limit(RLIMIT_NOFILE, had_limit);
}

// --- operations: 0, or -1 ---

static struct kiln_error error;
static int nowhere;
static bool is_enough; // the same once more, when nothing fails
static char *profile;
static size_t profile_size;

static __attribute__((noinline)) void burn(unsigned ms)
{
    struct timespec from, now;
    volatile unsigned x = 0;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do {
        for (int i = 0; i < 10000; i++)
            x += (unsigned)i;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - from.tv_sec) * 1000 + (now.tv_nsec - from.tv_nsec) / 1000000 < ms);
}

static int start(void)
{
    struct kiln_options o = {.size = sizeof o, .frequency = 1000, .threads = "*"};
    return kiln_start(&o, &error);
}

static int start_and_stop(void)
{
    int result = start();
    kiln_stop();
    return result;
}

static int write_window(uint32_t format, uint32_t flags)
{
    struct kiln_output o = {.size = sizeof o, .format = format, .flags = flags};
    int window = kiln_window_begin(&error);
    if (window < 0)
        return -1;
    burn(is_enough ? 1 : 5);
    return kiln_window_write_as(window, nowhere, &o, &error);
}

static int window_addresses(void)
{
    return write_window(KILN_PPROF, KILN_ADDRESSES);
}

static int window_pprof(void)
{
    return write_window(KILN_PPROF_PLAIN, 0);
}

static int window_folded(void)
{
    return write_window(KILN_FOLDED, 0);
}

static int window_svg(void)
{
    return write_window(KILN_SVG, 0);
}

static int window_html(void)
{
    return write_window(KILN_HTML, KILN_NO_LABELS);
}

static int window_json(void)
{
    return write_window(KILN_JSON, KILN_STAY);
}

static int last_seconds(void)
{
    return kiln_last_write(5, nowhere, NULL, &error);
}

static int rename_frame(void *context, const struct kiln_frame *frame, char *renamed, size_t n)
{
    snprintf(renamed, n, "renamed %s", frame->name);
    return KILN_RENAME;
}

static int hooks(void)
{
    kiln_set_frame_hook(rename_frame, NULL);
    int result = write_window(KILN_FOLDED, 0);
    kiln_set_frame_hook(NULL, NULL);
    return result;
}

static int labels(void)
{
    static int round;
    struct kiln_statistics before = {.size = sizeof before}, after = before;
    kiln_get_statistics(&before);
    kiln_labels had = kiln_labels_current();
    round++;
    for (int i = 0; i < 100; i++) {
        char value[32];
        snprintf(value, sizeof value, "%d %d", round, i);
        kiln_labels set = kiln_labels_with(0, "key", value);
        kiln_labels_hold(set);
        kiln_labels_enter(kiln_labels_with(set, "other", value));
        kiln_labels_release(set);
    }
    kiln_labels_enter(had);
    kiln_get_statistics(&after);
    return after.labels_dropped > before.labels_dropped ? -1 : 0;
}

static int heap(void)
{
    static char objects[64];
    int result = kiln_heap_active() ? 0 : kiln_heap_start(NULL, &error);
    if (result)
        return result;
    for (int i = 0; i < 64; i++)
        kiln_heap_allocated(objects + i, 1 << 20);
    result = kiln_heap_write(nowhere, NULL, &error);
    int window = kiln_heap_window_begin(&error);
    for (int i = 0; i < 64; i++)
        kiln_heap_freed(objects + i);
    if (window < 0 || kiln_heap_window_write(window, nowhere, NULL, &error))
        result = -1;
    kiln_heap_stop();
    return result;
}

static int convert(void)
{
    int result = 0;
    for (uint32_t format = KILN_PPROF; format <= KILN_JSON; format++) {
        struct kiln_output o = {.size = sizeof o, .format = format};
        result |= kiln_convert(profile, profile_size, nowhere, &o, &error);
    }
    return result;
}

static int exchange(void)
{
    uint64_t delay;
    static const char *const targets[] = {"/metrics", "/debug/pprof/",
                                          "/debug/pprof/profile?last=1", "/debug/pprof/symbol?0x1"};
    int result = 0;
    for (int i = 0; i < 4; i++) {
        struct kiln_request q = {.size = sizeof q, .method = "GET", .target = targets[i]};
        struct kiln_answer a = {.size = sizeof a};
        struct kiln_exchange *x = kiln_exchange_begin(&q, &delay);
        while (x && delay) {
            kiln_exchange_due(x);
            delay = kiln_exchange_finish(x);
        }
        if (x)
            kiln_exchange_answer(x, &a);
        if (a.status != 200)
            result = -1;
        kiln_exchange_free(x);
    }
    return result;
}

// The client's socket is there before anything fails.
static int client = -1;

static int serve(void)
{
    static const char request[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
                                  "GET /debug/pprof/profile?last=1 HTTP/1.1\r\nHost: localhost\r\n"
                                  "Connection: close\r\n\r\n";
    struct kiln_serve_options o = {.size = sizeof o, .address = "127.0.0.1:0"};
    char text[512];
    if (kiln_serve(&o, &error))
        return -1;
    kiln_serve_address(text, sizeof text);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    to.sin_port = htons((uint16_t)strtol(strrchr(text, ':') + 1, NULL, 10));
    int ok = 0;
    // Without descriptors nobody accepts: the client gives up.
    struct timeval patience = {.tv_usec = 300000};
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(client, (struct sockaddr *)&to, sizeof to) == 0 &&
        send(client, request, sizeof request - 1, MSG_NOSIGNAL) > 0)
        for (ssize_t n; (n = recv(client, text, sizeof text, 0)) > 0;)
            ok |= n > 12 && memcmp(text, "HTTP/1.1 200", 12) == 0;
    close(client);
    kiln_serve_stop();
    client = socket(AF_INET, SOCK_STREAM, 0);
    return ok ? 0 : -1;
}

static int push(void)
{
    static const char *const tags[] = {"a", "b", NULL};
    struct kiln_push_options o = {
        .size = sizeof o, .url = "http://127.0.0.1:1", .application = "x", .tags = tags};
    int result = kiln_push_start(&o, &error);
    kiln_push_stop();
    return result;
}

static const struct operation {
    const char *name;
    int (*run)(void);
    bool running; // needs the profiler
} operations[] = {
    {"start", start_and_stop, false},
    {"addresses", window_addresses, true},
    {"pprof", window_pprof, true},
    {"folded", window_folded, true},
    {"svg", window_svg, true},
    {"html", window_html, true},
    {"json", window_json, true},
    {"last", last_seconds, true},
    {"hooks", hooks, true},
    {"labels", labels, true},
    {"heap", heap, false},
    {"convert", convert, false},
    {"exchange", exchange, true},
    {"serve", serve, true},
    {"push", push, false},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

// --- trials ---

enum { WENT_WELL, REACHED, BROKEN };

// In a child: BROKEN with a sentence, REACHED if there may be more to fail further on.
static int try(const struct operation *o, enum way way, long n)
{
    alarm(20);
    client = socket(AF_INET, SOCK_STREAM, 0);
    if (o->running && start()) {
        printf("%s: not started: %s\n", o->name, error.message);
        return BROKEN;
    }
    burn(o->running ? 5 : 0);
    error.message[0] = '\0';
    begin_failing(way, n);
    int result = o->run();
    // Our threads go on while there is nothing, with ticks to work on.
    if (o->running && (way == ALL || way == SPACE)) {
        burn(5);
        usleep(10000);
    }
    end_failing(way);
    is_enough = true;
    long had = count;
    if (result == -1 && !error.message[0] && o->run != labels && o->run != serve &&
        o->run != exchange) {
        printf("%s: failed without a word\n", o->name);
        return BROKEN;
    }
    if (o->run()) {
        printf("%s: fails although there is enough again: %s\n", o->name, error.message);
        return BROKEN;
    }
    kiln_stop();
    return way <= THREADS ? (had >= n ? REACHED : WENT_WELL) : result ? REACHED : WENT_WELL;
}

static int trial(const struct operation *o, enum way way, long n)
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int result = try(o, way, n);
        fflush(stdout);
        _exit(result);
    }
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) < BROKEN)
        return WEXITSTATUS(status);
    printf("not ok - %s, %s, %ld: %s %d\n", o->name, ways[way], n,
           WIFSIGNALED(status) ? "signal" : "exit",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return BROKEN;
}

// By a child as well: what the library keeps from one time to the next must fail, too.
static int make_profile(void)
{
    char path[] = "/tmp/kiln_exhaustion_XXXXXX";
    int fd = mkstemp(path), status;
    unlink(path);
    pid_t child = fork();
    if (child == 0) {
        int window = start() ? -1 : kiln_window_begin(&error);
        burn(30);
        _exit(window < 0 || kiln_window_write(window, fd, &error));
    }
    waitpid(child, &status, 0);
    profile_size = (size_t)lseek(fd, 0, SEEK_END);
    profile = malloc(profile_size + 1);
    ssize_t n = pread(fd, profile, profile_size, 0);
    close(fd);
    return status || n <= 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
    long passed = 0, failed = 0;
    // With sanitizers, where all of this takes several times as long, in larger steps.
    const int fraction = repetitions(4, 2, 1);
    nowhere = open("/dev/null", O_WRONLY);
    if (make_profile()) {
        printf("no profile: %s\n", error.message);
        return 1;
    }
    if (argc > 3)
        for (int i = 0; i < OPERATIONS; i++)
            if (strcmp(argv[1], operations[i].name) == 0)
                return try(&operations[i], (enum way)strtol(argv[2], NULL, 10),
                           strtol(argv[3], NULL, 10));
    for (int i = 0; i < OPERATIONS; i++) {
        if (argc > 1 && strcmp(argv[1], operations[i].name) != 0)
            continue;
        for (enum way way = ONE; way < WAYS; way++) {
#ifdef SANITIZED
            if (way == SPACE) // takes terabytes
                continue;
#endif
            int result = REACHED;
            long n = 1, most = way == SPACE ? 400 : way == DESCRIPTORS ? 12 : 1000000;
            for (; result == REACHED && n < most; n += 1 + n / fraction) {
                result = trial(&operations[i], way, n);
                passed += result != BROKEN;
                failed += result == BROKEN;
                if (result == BROKEN && way != ONE)
                    break;
                if (result == BROKEN)
                    result = REACHED;
            }
            if (argc > 1)
                printf("%s, %s: up to %ld\n", operations[i].name, ways[way], n);
        }
    }
    printf("%ld passed, %ld failed\n", passed, failed);
    return failed > 0;
}
