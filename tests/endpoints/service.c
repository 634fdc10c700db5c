// A service with kiln inside, told what to do on standard input:
//   serve ADDRESS [TOKEN]   prints where it listens, or why not
//   stop                    serving
//   threads                 prints how many there are
//   sockets                 prints how many sockets a program that it executes inherits
//   fork                    a child that sleeps; prints its process id
//   serve-in-child ADDRESS  a child that serves on its own; prints where
//   slow SECONDS            the next profile that is written takes so long
//   heap                    from now on a thread tells of objects that come and go
//   signals                 prints in how many of its threads named kiln SIGTERM is not blocked
#include <kiln/kiln.h>

#include <dirent.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile unsigned long sink;

static inline __attribute__((always_inline)) void inlined(int n)
{
    for (int i = 0; i < n; i++)
        sink += (unsigned long)i * sink;
}

__attribute__((noinline)) void heavy(void)
{
    inlined(400000);
    sink++;
}

__attribute__((noinline)) void light(void)
{
    inlined(80000);
    sink++;
}

static void *work(void *context)
{
    kiln_labels_enter(kiln_labels_with(0, "job", "burn"));
    // Not in step with the kernel's tick, which sees the timers.
    for (unsigned random = 1;; random = random * 1103515245 + 12345) {
        heavy();
        light();
        usleep(300 + (random >> 16) % 400);
    }
    return context;
}

// Nothing is allocated: an allocator of its own would tell of what it gives out.
static void *tell_of_objects(void *context)
{
    static char objects[1000];
    for (unsigned i = 0;; i++) {
        kiln_heap_freed(&objects[i % sizeof objects]);
        kiln_heap_allocated(&objects[i % sizeof objects], 1000);
        usleep(100);
    }
    return context;
}

static void start_heap(void)
{
    struct kiln_heap_options options = {.size = sizeof options, .interval = 4096};
    struct kiln_error error = {""};
    pthread_t thread;
    kiln_heap_start(&options, &error);
    pthread_create(&thread, NULL, tell_of_objects, NULL);
    printf("%s\n", *error.message ? error.message : "started");
}

static void serve(char *address, char *token)
{
    struct kiln_serve_options options = {sizeof options, address, token};
    struct kiln_error error;
    char where[300];
    if (kiln_serve(&options, &error))
        printf("error %s\n", error.message);
    else if (kiln_serve_address(where, sizeof where))
        printf("error no address\n");
    else
        printf("%s\n", where);
    fflush(stdout);
}

static void start(void)
{
    struct kiln_error error;
    if (kiln_start(NULL, &error)) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
}

static int count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;
    while (tasks && readdir(tasks))
        n++;
    closedir(tasks);
    return n - 2;
}

static volatile int delay;

static int slow(void *context, const struct kiln_frame *frame, char *renamed, size_t n)
{
    int seconds = delay;
    delay = 0;
    sleep((unsigned)seconds);
    return KILN_KEEP;
}

// SigBlk's bit of SIGTERM, by /proc/self/task/TID/status.
static int count_unblocked(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
        char path[300], line[256];
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        FILE *status = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
        int ours = 0;
        while (status && fgets(line, sizeof line, status)) {
            if (strcmp(line, "Name:\tkiln\n") == 0)
                ours = 1;
            if (ours && strncmp(line, "SigBlk:", 7) == 0)
                n += !(strtoull(line + 7, NULL, 16) & 1 << (15 - 1));
        }
        if (status)
            fclose(status);
    }
    closedir(tasks);
    return n;
}

// Not by fork, whose child closes sockets by itself.
static void execute(char *line)
{
    char *argv[] = {"sh", "-c", line, NULL};
    pid_t child;
    fflush(stdout);
    if (posix_spawn(&child, "/bin/sh", NULL, NULL, argv, environ) == 0)
        waitpid(child, NULL, 0);
}

static void fork_child(char *address)
{
    pid_t child = fork();
    if (child == 0) {
        if (address) {
            start();
            serve(address, NULL);
        }
        sleep(30);
        _exit(0);
    }
    if (!address)
        printf("%d\n", (int)child);
    fflush(stdout);
}

int main(void)
{
    pthread_t thread;
    char line[1024];
    start();
    pthread_create(&thread, NULL, work, NULL);
    while (fgets(line, sizeof line, stdin)) {
        char *rest = line;
        char *word = strsep(&rest, " \n"), *first = strsep(&rest, " \n");
        char *second = rest ? strsep(&rest, " \n") : NULL;
        if (strcmp(word, "serve") == 0)
            serve(first, second && *second ? second : NULL);
        else if (strcmp(word, "stop") == 0)
            kiln_serve_stop(), printf("stopped\n");
        else if (strcmp(word, "threads") == 0)
            printf("%d\n", count_threads());
        else if (strcmp(word, "slow") == 0)
            delay = (int)strtol(first, NULL, 10), kiln_set_frame_hook(slow, NULL), printf("slow\n");
        else if (strcmp(word, "signals") == 0)
            printf("%d\n", count_unblocked());
        else if (strcmp(word, "heap") == 0)
            start_heap();
        else if (strcmp(word, "sockets") == 0)
            execute("ls -l /proc/self/fd | grep -c -e socket: -e eventfd");
        else if (strcmp(word, "fork") == 0)
            fork_child(NULL);
        else if (strcmp(word, "serve-in-child") == 0)
            fork_child(first);
        fflush(stdout);
    }
    kiln_serve_stop();
    kiln_stop();
    return 0;
}
