// What allocators meet in real programs, one part at a time: prints what is true of the sites that
// can be known (see sites.cc), fails where something behaves otherwise than without the hook.
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SITE __attribute__((noinline))
#define KEPT(p)                                          \
    ({                                                   \
        void *kept_ = (p);                               \
        __asm__ volatile("" : "+r"(kept_) : : "memory"); \
        kept_;                                           \
    })

static int wrong;
#define CHECK(good)                                                          \
    do {                                                                     \
        if (!(good)) {                                                       \
            fprintf(stderr, "line %d: %s does not hold\n", __LINE__, #good); \
            wrong = 1;                                                       \
        }                                                                    \
    } while (0)

// --- before main, and before the constructors of libraries ---

static void *early[64], *constructed[64];

static void before_all(int argc, char **argv, char **environment)
{
    for (int i = 0; i < 64; i++)
        early[i] = i % 2 ? malloc(100000) : calloc(100, 1000);
}
__attribute__((section(".preinit_array"), used)) static void (*preinit)(int, char **,
                                                                        char **) = before_all;

__attribute__((constructor(102))) static void first(void)
{
    for (int i = 0; i < 64; i++)
        constructed[i] = realloc(i % 2 ? malloc(1000) : NULL, 100000);
}

__attribute__((destructor)) static void last(void)
{
    for (int i = 0; i < 64; i++)
        free(constructed[i]);
}

static void part_early(void)
{
    for (int i = 0; i < 64; i++) {
        CHECK(early[i] && constructed[i]);
        early[i] = realloc(early[i], 200000);
        CHECK(early[i]);
        if (i % 2)
            free(early[i]);
    }
}

// --- fork ---

SITE void *site_parent(size_t n)
{
    return KEPT(malloc(n));
}
SITE void *site_child(size_t n)
{
    return KEPT(malloc(n));
}

static void *busy(void *stop)
{
    while (!*(volatile int *)stop)
        free(malloc(3000));
    return NULL;
}

static void part_fork(void)
{
    enum { N = 20000, SIZE = 2000 };
    static void *objects[N];
    pthread_t threads[3];
    int stop = 0;
    for (int i = 0; i < N; i++)
        objects[i] = site_parent(SIZE);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, busy, &stop);
    for (int round = 0; round < 20; round++) {
        pid_t child = fork();
        if (child == 0) {
            for (int i = 0; i < N; i += 2)
                free(objects[i]);
            for (int i = 0; i < 1000; i++)
                objects[i] = site_child(10000);
            round % 2 ? exit(wrong) : _exit(wrong);
        }
        int status = -1;
        waitpid(child, &status, 0);
        CHECK(status == 0);
    }
    stop = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    printf("site_parent %d %d %d\n", SIZE, N, N);
}

// --- signal handlers, on an alternate stack ---

SITE void *site_handler(size_t n)
{
    return KEPT(malloc(n));
}
static void *taken[20000];
static int n_taken;

static void on_signal(int number)
{
    taken[n_taken++] = site_handler(3000);
}

static void part_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    stack_t stack = {.ss_sp = malloc(16384), .ss_size = 16384};
    sigaltstack(&stack, NULL);
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 20000; i++) {
        raise(SIGUSR1);
        if (i % 2)
            free(taken[i]);
    }
    printf("site_handler %d %d %d\n", 3000, 20000, 10000);
}

// --- what is refused ---

SITE void *site_kept(size_t n)
{
    return KEPT(malloc(n));
}

static void part_refused(void)
{
    enum { N = 2000, SIZE = 20000 };
    volatile size_t most = PTRDIFF_MAX, wraps = SIZE_MAX / 2 + 2;
    errno = 0;
    CHECK(!malloc(most) && errno == ENOMEM);
    CHECK(!malloc(most + most) && errno == ENOMEM);
    CHECK(!malloc(most + most + 1) && errno == ENOMEM);
    errno = 0;
    CHECK(!calloc(wraps, 2) && errno == ENOMEM);
    errno = 0;
    CHECK(!reallocarray(NULL, wraps, 2) && errno == ENOMEM);
    void *p = NULL;
    CHECK(posix_memalign(&p, 3, 100) == EINVAL && !p);
    CHECK(posix_memalign(&p, 64, most) == ENOMEM && !p);
    for (int i = 0; i < N; i++) {
        p = site_kept(SIZE);
        memset(p, i, SIZE);
        CHECK(!realloc(p, most)); // it stays as it is
        CHECK(*(char *)p == (char)i);
        CHECK(malloc_usable_size(p) >= SIZE);
        errno = 77;
        free(malloc(100000));
        CHECK(errno == 77);
    }
    free(NULL);
    p = malloc(0);
    CHECK(p && p != malloc(0));
    CHECK(!realloc(malloc(100000), 0));
    p = realloc(NULL, 70000);
    CHECK(((uintptr_t)memalign(4096, 9000) & 4095) == 0);
    char *zero = calloc(1000, 1000);
    for (int i = 0; i < 1000000; i++)
        CHECK(zero[i] == 0);
    printf("site_kept %d %d %d\n", SIZE, N, N);
}

// --- a process that is over before anybody has looked ---

static void part_short(void)
{
    site_kept(5000000);
    printf("site_kept 5000000 1 1\n");
    fflush(stdout);
    _exit(0);
}

// --- other programs ---

static void part_exec(void)
{
    FILE *f = popen("echo hello", "r");
    char line[16] = "";
    CHECK(f && fgets(line, sizeof line, f) && strcmp(line, "hello\n") == 0);
    CHECK(f && pclose(f) == 0);
    char *arguments[] = {"sh", "-c", "exit 3", NULL};
    pid_t child;
    int status = -1;
    CHECK(posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ) == 0);
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
}

int main(int argc, char **argv)
{
    const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"early", part_early},     {"fork", part_fork},   {"signals", part_signals},
                 {"refused", part_refused}, {"short", part_short}, {"exec", part_exec}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (argc > 1 && strcmp(argv[1], parts[i].name) == 0)
            parts[i].run();
    return wrong;
}
