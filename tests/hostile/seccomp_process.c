// The main thread confines itself, without TSYNC: other threads, the profiler's too, stay free. It
// works and ends the process with the only call it may use for that.
#include "confine.h"

int main(int argc, char **argv)
{
    hostile_begin();
    require(argc == 2, "an argument");
    burn(0.05);
    confine(BY_PRCTL, SECCOMP_RET_KILL_PROCESS, true);
    work_confined(argv[1]);
    say("survived\n");
    syscall(SYS_exit_group, 4);
}
