// A filter lets prctl fail, so a thread cannot ask for its own name.
#include "confine.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

static void deny_prctl(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    require(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "prctl");
}

static void *work(void *unused)
{
    int fd = open("/proc/thread-self/comm", O_WRONLY);
    fact("name", write(fd, "renamed", 7) == 7);
    close(fd);
    burn(0.6); // longer than the pauses between two looks at the samples
    return unused;
}

int main(void)
{
    pthread_t thread;
    hostile_begin();
    deny_prctl();
    require(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
    pthread_join(thread, NULL);
    return 0;
}
