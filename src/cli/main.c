#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/arena.h"
#include "cli/help.h"
#include "symbol/mapped_file.h"

static void exit_out_of_memory(const char *why)
{
    fprintf(stderr, "kiln: %s\n", why);
    exit(2);
}

// Standard input, output or error may be closed. Occupies their descriptors, so that no other file
// gets them. O_CLOEXEC: a program that we execute finds them closed, as we did.
static void occupy_standard_descriptors(void)
{
    int fd;
    while ((fd = open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0 && fd <= STDERR_FILENO)
        ;
    if (fd >= 0)
        close(fd);
}

static int run_kiln_command(int argc, char **argv)
{
    if (argc < 2) {
        help_overview(stderr);
        return 2;
    }
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        puts("kiln " KILN_VERSION);
        return 0;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        help_overview(stdout);
        return 0;
    }
    const struct command *command = command_find(name);
    return command ? command_main(command, argc - 1, argv + 1) : help_unknown(name);
}

static struct {
    int argc, status;
    char **argv;
    ucontext_t back, context;
} large_stack;

static void run_on_large_stack(void)
{
    large_stack.status = run_kiln_command(large_stack.argc, large_stack.argv);
}

// A program that `kiln run` starts may need a small stack limit, which kiln inherits too.
static bool has_small_stack(void)
{
    enum { ENOUGH = 1 << 20 };
    struct rlimit limit;
    return getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < ENOUGH;
}

static int run_by_context(int argc, char **argv)
{
    enum { STACK = 8 << 20 };
    void *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    pthread_attr_t attributes;
    if (stack == MAP_FAILED || getcontext(&large_stack.context))
        return run_kiln_command(argc, argv);
    // New threads would get the limit as their stack size.
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
    large_stack.argc = argc;
    large_stack.argv = argv;
    large_stack.context.uc_stack.ss_sp = stack;
    large_stack.context.uc_stack.ss_size = STACK;
    large_stack.context.uc_link = &large_stack.back;
    makecontext(&large_stack.context, run_on_large_stack, 0);
    swapcontext(&large_stack.back, &large_stack.context);
    return large_stack.status;
}

int main(int argc, char **argv)
{
    occupy_standard_descriptors();
    arena_on_exhaustion(exit_out_of_memory);
    setlocale(LC_CTYPE, "");
    mapped_file_guard();
    return has_small_stack() ? run_by_context(argc, argv) : run_kiln_command(argc, argv);
}
