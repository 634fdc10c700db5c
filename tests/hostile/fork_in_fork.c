// Fork handlers that fork. They were registered before any library could register its own.
#include "hostile.h"

#include <pthread.h>
#include <sys/wait.h>

static const char *when = "";
static bool inside;
static int wrong;

static bool ends_with(pid_t child, int expected)
{
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == expected;
}

static void *return_at_once(void *context)
{
    return context;
}

static void fork_here(const char *place)
{
    if (inside || !is(when, place))
        return;
    inside = true;
    pid_t child = fork();
    if (child == 0) {
        spin(100000);
        _exit(3);
    }
    wrong += !ends_with(child, 3);
    inside = false;
}

static void before(void)
{
    fork_here("before");
}

static void in_parent(void)
{
    fork_here("parent");
}

static void in_child(void)
{
    fork_here("child");
}

static void register_first(int argc, char **argv, char **envp)
{
    pthread_atfork(before, in_parent, in_child);
}
__attribute__((section(".preinit_array"), used)) static void (*first)(int, char **,
                                                                      char **) = register_first;

int main(int argc, char **argv)
{
    hostile_begin();
    require(argc == 2, "an argument");
    burn(0.02);
    when = argv[1];
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        if (child == 0) {
            pthread_t thread;
            wrong +=
                pthread_create(&thread, NULL, return_at_once, NULL) || pthread_join(thread, NULL);
            _exit(wrong ? 9 : 5);
        }
        wrong += !ends_with(child, 5);
        burn(0.003);
    }
    fact("every child ran", wrong == 0);
    return 0;
}
