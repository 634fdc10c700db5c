// Syscall User Dispatch, as Wine uses it: while the selector says so, each system call of the
// thread raises SIGSYS, also that by which a signal handler returns. The program makes none
// meanwhile.
#include "hostile.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { SET_DISPATCH = 59, DISPATCH_ON = 1, ALLOW = 0, BLOCK = 1 };

static volatile char selector = ALLOW;
static volatile int calls;

static void on_call(int signal)
{
    selector = ALLOW;
    calls++;
}

int main(void)
{
    hostile_begin();
    signal(SIGSYS, on_call);
    burn(0.02);
    require(prctl(SET_DISPATCH, DISPATCH_ON, 0, 0, &selector) == 0, "prctl");
    for (int i = 0; i < 3; i++) {
        selector = BLOCK;
        spin(60000000);
        syscall(SYS_gettid);
        selector = ALLOW;
    }
    fact("each call was seen", calls == 3);
    return 0;
}
