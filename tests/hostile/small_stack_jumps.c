// Handlers that leave an alternate stack of 8 KiB by a jump, from deep inside. siglongjmp puts the
// mask back while it is still on that stack, where a second frame of the kernel does not fit; and
// after longjmp the program has the mask that it had in the handler.
#include "hostile.h"

#include <setjmp.h>
#include <signal.h>

enum { ROUNDS = 40, BYTES = 8192 };

static sigjmp_buf back;
static bool with_mask;

__attribute__((noinline)) static void leave(void)
{
    volatile char buffer[2048];
    memset((char *)buffer, 1, sizeof buffer);
    spin(5000000); // ticks are due
    siglongjmp(back, buffer[100]);
}

static void on_user(int signal)
{
    leave();
}

static bool blocks(int number)
{
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    return sigismember(&now, number);
}

int main(int argc, char **argv)
{
    static char stack[BYTES];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = on_user, .sa_flags = SA_ONSTACK};
    require(argc == 2, "an argument");
    with_mask = is(argv[1], "mask");
    if (!with_mask)
        action.sa_flags |= SA_NODEFER;
    hostile_begin();
    require(sigaltstack(&alternate, NULL) == 0, "sigaltstack");
    sigaction(SIGUSR1, &action, NULL);
    volatile int jumps = 0;
    for (volatile int i = 0; i < ROUNDS; i++) {
        if (sigsetjmp(back, with_mask) == 0)
            raise(SIGUSR1);
        else
            jumps++;
        spin(1000000);
    }
    fact("every handler has left", jumps == ROUNDS);
    fact("the signal is not blocked", !blocks(SIGUSR1));
    fact("SIGPROF is not blocked", !blocks(SIGPROF));
    action.sa_handler = SIG_IGN;
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    burn(0.1);
    return 0;
}
