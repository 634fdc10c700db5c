// Asks whether the kernel has seccomp filters, as libseccomp does: the call fails with EFAULT and
// nothing is confined. libkiln took the attempt for the deed, and no profile was written.
#include "hostile.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

int main(int argc, char **argv)
{
    hostile_begin();
    require(argc == 2, "an argument");
    long result;
    if (is(argv[1], "prctl"))
        result = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0);
    else
        result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                         is(argv[1], "tsync") ? SECCOMP_FILTER_FLAG_TSYNC : 0, NULL);
    fact("the probe failed with EFAULT", result == -1 && errno == EFAULT);
    burn(0.1);
    return 0;
}
