#include "process/write_signals.h"

#include <signal.h>
#include <time.h>

#include "process/call.h"

struct process_write_signals process_hold_write_signals(void)
{
    uint64_t both = UINT64_C(1) << (SIGPIPE - 1) | UINT64_C(1) << (SIGXFSZ - 1), pending = 0;
    struct process_write_signals held = {0};
    process_call(SYS_rt_sigpending, (long)&pending, sizeof pending, 0, 0, 0, 0);
    process_call(SYS_rt_sigprocmask, SIG_BLOCK, (long)&both, (long)&held.mask, sizeof both, 0, 0);
    held.raised = both & ~pending;
    return held;
}

void process_release_write_signals(struct process_write_signals held)
{
    struct timespec none = {0, 0};
    process_call(SYS_rt_sigtimedwait, (long)&held.raised, 0, (long)&none, sizeof held.raised, 0, 0);
    process_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&held.mask, 0, sizeof held.mask, 0, 0);
}
