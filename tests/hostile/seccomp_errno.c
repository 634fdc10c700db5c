// A filter without futex that answers with an error, as libseccomp's SCMP_ACT_ERRNO does.
#include "confine.h"

#include <errno.h>
#include <fcntl.h>

int main(int argc, char **argv)
{
    require(argc == 2, "an argument");
    hostile_begin();
    burn(0.05);
    confine_to(is(argv[1], "prctl") ? BY_PRCTL : BY_TSYNC, SECCOMP_RET_ERRNO | EPERM,
               CALLS(SYS_write, SYS_read, SYS_brk, SYS_mmap, SYS_munmap, SYS_rt_sigreturn,
                     SYS_exit_group, SYS_exit));
    spin(200000000);
    fact("open is refused", open("/dev/null", 0) < 0);
    return 4;
}
