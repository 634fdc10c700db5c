// Strict mode: read, write, exit and rt_sigreturn, nothing else. Anything more is SIGKILL.
#include "hostile.h"

#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static const char *how;

static void confine_strictly(void)
{
    require((is(how, "syscall") ? syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_STRICT)
                                : prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0)) == 0,
            "prctl");
}

static void *work(void *context)
{
    confine_strictly();
    spin(30000000);
    say("the thread survived\n");
    // libc's way out makes other calls.
    syscall(SYS_exit, 0);
    return context;
}

int main(int argc, char **argv)
{
    hostile_begin();
    require(argc == 3, "arguments");
    how = argv[1];
    pause_ms(strtol(argv[2], NULL, 10));
    if (is(how, "thread")) {
        pthread_t thread;
        require(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
        // Its end is known by the kernel's word in its descriptor.
        pthread_join(thread, NULL);
        say("joined\n");
        return 4;
    }
    confine_strictly();
    spin(30000000);
    say("survived\n");
    syscall(SYS_exit, 4);
}
