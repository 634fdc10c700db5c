// Everything that the C interface offers, from many threads at once, with threads and processes
// that come and go. Meant for sanitizers, and for what they do not see: a hang, a crash, a window
// that stays open. usage: hammer [SECONDS [SEED]]
#include <kiln/kiln.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../long.h"

enum { THREADS = 8, ACTIONS = 12 };

// The sanitizers' own state does not survive a fork of a process with threads.
#ifdef SANITIZED
enum { CHILD_MAY_WORK = 0 };
#else
enum { CHILD_MAY_WORK = 1 };
#endif

static _Atomic bool over;
static _Atomic unsigned long did[ACTIONS], worked, refused, written, children, bad_children;
static uint64_t seed = 1;

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static uint32_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static void work(uint64_t *state, uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds; i++)
        next(state);
}

static void count_result(int result)
{
    atomic_fetch_add(result < 0 ? &refused : &worked, 1);
}

static int somewhere(void)
{
    return memfd_create("hammer", MFD_CLOEXEC);
}

static void start_or_stop(uint64_t *state)
{
    uint32_t what = next(state) % 8;
    struct kiln_options options = {.size = sizeof options,
                                   .frequency = 50 + next(state) % 1000,
                                   .depth = 16 << next(state) % 5,
                                   .memory = (size_t)1 << (20 + next(state) % 6),
                                   .threads = next(state) % 4 ? NULL : "!hammer-7"};
    if (what == 0)
        kiln_stop();
    else
        count_result(kiln_start(&options, NULL));
}

static struct kiln_output random_output(uint64_t *state)
{
    return (struct kiln_output){.size = sizeof(struct kiln_output),
                                .format = next(state) % 6,
                                .flags = next(state) % 8 ? KILN_ADDRESSES : 0};
}

static void take_window(uint64_t *state)
{
    struct kiln_window_options options = {.size = sizeof options,
                                          .frequency =
                                              next(state) % 3 ? 0 : 100 + next(state) % 900,
                                          .flags = next(state) % 2 ? KILN_FORCE : 0};
    struct kiln_error error;
    int window = kiln_window_begin_with(&options, &error);
    count_result(window);
    if (window < 0)
        return;
    work(state, next(state) % 1000000);
    if (next(state) % 4 == 0) {
        kiln_window_cancel(window);
        return;
    }
    int fd = somewhere();
    struct kiln_output output = random_output(state);
    if (kiln_window_write_as(window, fd, &output, &error) == 0)
        atomic_fetch_add(&written, 1);
    close(fd);
}

static void take_last(uint64_t *state)
{
    int fd = somewhere();
    struct kiln_output output = random_output(state);
    count_result(kiln_last_write(1 + next(state) % 120, fd, &output, NULL));
    close(fd);
}

static void use_labels(uint64_t *state)
{
    char value[32];
    snprintf(value, sizeof value, "%u", next(state) % 100000);
    kiln_labels outer = kiln_labels_push("request", value);
    kiln_labels inner = kiln_labels_push("kind", next(state) % 2 ? "a" : "b");
    struct kiln_context context;
    kiln_context_get(&context);
    kiln_labels_hold(context.labels);
    work(state, 20000);
    kiln_labels_pop(inner);
    kiln_labels_pop(outer);
    kiln_context_enter(&context, &context);
    work(state, 20000);
    kiln_labels_release(kiln_labels_enter(context.labels));
    unsigned char id[16];
    for (size_t i = 0; i < sizeof id; i++)
        id[i] = (unsigned char)next(state);
    kiln_set_trace(id, id);
    work(state, 20000);
    kiln_set_trace(NULL, NULL);
}

static int hook(void *context, const struct kiln_frame *frame, char *renamed, size_t n)
{
    if (frame->name[0] == 'w')
        return KILN_DROP;
    snprintf(renamed, n, "%s", frame->name);
    return KILN_RENAME;
}

static void *short_life(void *context)
{
    uint64_t state = (uint64_t)(uintptr_t)context;
    if (next(&state) % 2)
        prctl(PR_SET_NAME, "short");
    work(&state, next(&state) % 300000);
    return NULL;
}

static void make_threads(uint64_t *state)
{
    pthread_t threads[4];
    int n = 0;
    for (int i = 0; i < 4; i++)
        n += pthread_create(&threads[n], NULL, short_life, (void *)(uintptr_t)(next(state) | 1u)) ==
             0;
    while (n)
        pthread_join(threads[--n], NULL);
}

// The child may do anything, too.
static int in_child(uint64_t *state)
{
    struct kiln_error error;
    alarm(60);
    int window = kiln_start(NULL, &error) ? -1 : kiln_window_begin(&error);
    if (window < 0) {
        fprintf(stderr, "# a child cannot begin: %s\n", error.message);
        return 1;
    }
    work(state, 3000000);
    make_threads(state);
    int fd = somewhere();
    if (kiln_window_write_as(window, fd, NULL, &error) || lseek(fd, 0, SEEK_CUR) < 20)
        return 2;
    kiln_stop();
    return 0;
}

// Not two at once: TSan knows nothing of the loader's locks.
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

// Libraries are loaded during forks, too. glibc 2.36 does not give the child a fresh lock of the
// loader's, and starting a thread may need it: children that work are made in between.
static void make_child(uint64_t *state)
{
    bool works = CHILD_MAY_WORK && next(state) % 2;
    if (works)
        pthread_mutex_lock(&loading);
    pid_t pid = fork();
    if (pid == 0)
        _exit(works ? in_child(state) : 0);
    if (works)
        pthread_mutex_unlock(&loading);
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return;
    atomic_fetch_add(&children, 1);
    if (status) {
        fprintf(stderr, "# a child ended with status %#x\n", status);
        atomic_fetch_add(&bad_children, 1);
    }
}

static void load_library(void)
{
    pthread_mutex_lock(&loading);
    void *library = dlopen("libresolv.so.2", RTLD_NOW);
    if (library)
        dlclose(library);
    pthread_mutex_unlock(&loading);
}

static void *hammer(void *context)
{
    uintptr_t number = (uintptr_t)context;
    uint64_t state = seed * 1000 + number;
    char name[16];
    snprintf(name, sizeof name, "hammer-%u", (unsigned)number);
    prctl(PR_SET_NAME, name);
    while (!atomic_load(&over)) {
        uint32_t action = next(&state) % ACTIONS;
        struct kiln_statistics statistics = {.size = sizeof statistics};
        switch (action) {
        case 0:
            start_or_stop(&state);
            break;
        case 1:
            take_last(&state);
            break;
        case 2:
            make_threads(&state);
            break;
        case 3:
            if (next(&state) % 8 == 0)
                make_child(&state);
            break;
        case 4:
            kiln_get_statistics(&statistics);
            break;
        case 5:
            kiln_set_frame_hook(next(&state) % 2 ? hook : NULL, NULL);
            break;
        case 6:
            load_library();
            break;
        case 7:
        case 8:
            use_labels(&state);
            break;
        default:
            take_window(&state);
        }
        atomic_fetch_add(&did[action], 1);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? strtod(argv[1], NULL) : repetitions(8, 4, 4);
    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)getpid();
    printf("# seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    // What hangs is killed.
    alarm((unsigned)seconds * 4 + 120);
    pthread_t threads[THREADS];
    double begin = now();
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, hammer, (void *)i);
    while (now() - begin < seconds)
        usleep(50000);
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    kiln_stop();
    struct kiln_statistics s = {.size = sizeof s};
    kiln_get_statistics(&s);
    printf("# %lu calls worked, %lu were refused, %lu windows written, %lu children\n", worked,
           refused, written, children);
    printf("# %llu ticks, %llu samples, %llu stacks, %llu bytes, %llu label sets\n",
           (unsigned long long)s.ticks, (unsigned long long)s.samples, (unsigned long long)s.stacks,
           (unsigned long long)s.memory, (unsigned long long)s.label_sets);
    int failed = 0;
    failed += s.windows != 0 || printf("ok - no window is left open\n") < 0;
    failed += s.threads != 0 || printf("ok - no thread is left armed\n") < 0;
    failed += written == 0 || printf("ok - windows were written\n") < 0;
    failed += bad_children != 0 || printf("ok - all children ended well\n") < 0;
    printf("%d passed, %d failed\n", 4 - failed, failed);
    return failed != 0;
}
