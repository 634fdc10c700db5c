// Two threads with 24 KiB stacks, one right below the other with only a guard page between them.
// The upper one executes a program that does not exist, or starts one through vfork. The interposed
// execl had a frame of 32 KiB: it stepped over the guard page into the lower thread's stack. Not
// one byte of that may change.
#include "hostile.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { STACK = 24576, PAGE = 4096, PATTERN = 0x5a };

static pthread_barrier_t ready, done;
static const char *how;
static int changed;

static void execute(void)
{
    char *arguments[] = {"one", "two", NULL}, *environment[] = {NULL};
    const char *missing = "/no/such/program";
    if (is(how, "execl")) {
        execl(missing, "one", "two", "three", (char *)NULL);
    } else if (is(how, "execlp")) {
        execlp("no-such-program", "one", "two", "three", (char *)NULL);
    } else if (is(how, "execle")) {
        execle(missing, "one", "two", "three", (char *)NULL, environment);
    } else if (is(how, "execv")) {
        execv(missing, arguments);
    } else {
        pid_t child = vfork();
        if (child == 0) {
            execl("/bin/true", "true", (char *)NULL);
            _exit(9);
        }
        int status = -1;
        waitpid(child, &status, 0);
        fact("the child ran", status == 0);
    }
}

static void *upper(void *context)
{
    pthread_barrier_wait(&ready);
    execute();
    pthread_barrier_wait(&done);
    return context;
}

static void *lower(void *context)
{
    volatile unsigned char bytes[8000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = PATTERN;
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&done);
    for (size_t i = 0; i < sizeof bytes; i++)
        changed += bytes[i] != PATTERN;
    return context;
}

static pthread_t start(void *(*routine)(void *), char *stack)
{
    pthread_attr_t attributes;
    pthread_t thread;
    require(mprotect(stack, STACK, PROT_READ | PROT_WRITE) == 0, "mprotect");
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, STACK);
    require(pthread_create(&thread, &attributes, routine, NULL) == 0, "pthread_create");
    pthread_attr_destroy(&attributes);
    return thread;
}

int main(int argc, char **argv)
{
    hostile_begin();
    require(argc == 2, "an argument");
    how = argv[1];
    pthread_barrier_init(&ready, NULL, 2);
    pthread_barrier_init(&done, NULL, 2);
    char *memory = mmap(NULL, 2 * STACK + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(memory != MAP_FAILED, "mmap");
    pthread_t high = start(upper, memory + STACK + 2 * PAGE), low = start(lower, memory + PAGE);
    pthread_join(high, NULL);
    pthread_join(low, NULL);
    fact("the other thread's stack is unchanged", changed == 0);
    return 0;
}
