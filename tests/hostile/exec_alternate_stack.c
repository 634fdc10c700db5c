// A handler on a small alternate stack executes a program, as crash handlers do. The interposed
// execl had a frame of 32 KiB and overflowed the stack.
#include "hostile.h"

#include <signal.h>
#include <sys/mman.h>

enum { GUARD = 65536 };

static void on_signal(int signal)
{
    execl("/bin/echo", "echo", "executed", "from", "the", "handler", (char *)NULL);
    _exit(3);
}

int main(int argc, char **argv)
{
    hostile_begin();
    size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 8192;
    char *memory = mmap(NULL, n + GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(memory != MAP_FAILED, "mmap");
    require(mprotect(memory + GUARD, n, PROT_READ | PROT_WRITE) == 0, "mprotect");
    stack_t stack = {.ss_sp = memory + GUARD, .ss_size = n};
    require(sigaltstack(&stack, NULL) == 0, "sigaltstack");
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    burn(0.05);
    raise(SIGUSR1);
    return 1;
}
