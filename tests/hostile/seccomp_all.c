// After a few milliseconds the program confines all threads of the process (TSYNC), the profiler's
// among them, works for a moment and ends. The collector, the listener and the pusher went on to
// make system calls and the process was killed. A program without signal handlers may leave
// rt_sigreturn out of its filter: then no tick may arrive any more.
#include "confine.h"

int main(int argc, char **argv)
{
    hostile_begin();
    require(argc == 4, "arguments");
    long ms = strtol(argv[1], NULL, 10);
    unsigned action = is(argv[2], "kill")     ? SECCOMP_RET_KILL_PROCESS
                      : is(argv[2], "thread") ? SECCOMP_RET_KILL_THREAD
                      : is(argv[2], "trap")   ? SECCOMP_RET_TRAP
                                              : SECCOMP_RET_ERRNO | 1;
    if (ms)
        pause_ms(ms);
    confine(BY_TSYNC, action, is(argv[3], "sigreturn"));
    pause_ms(60);
    work_confined("cfi");
    work_confined("heap");
    say("survived\n");
    syscall(SYS_exit_group, 4);
}
