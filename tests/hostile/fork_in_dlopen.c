// Forks while another thread is inside dlopen, in a constructor that sleeps. The child calls prctl
// and ends. Children of _Fork and of a bare clone, which run no handlers of pthread_atfork, hung in
// the interposed prctl: it called dlsym, and the loader's lock belongs to a thread that the child
// does not have.
#include "hostile.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern pid_t _Fork(void);

static void *load(void *path)
{
    if (!dlopen(path, RTLD_NOW))
        say("dlopen failed\n");
    return NULL;
}

static pid_t make_child(const char *how)
{
    if (is(how, "fork"))
        return fork();
    if (is(how, "_Fork"))
        return _Fork();
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

int main(int argc, char **argv)
{
    hostile_begin();
    pthread_t thread;
    require(argc == 3 && pthread_create(&thread, NULL, load, argv[2]) == 0, "pthread_create");
    pause_ms(100);
    pid_t child = make_child(argv[1]);
    if (child == 0) {
        prctl(PR_SET_NAME, "child");
        burn(0.01);
        _exit(7);
    }
    int status = 0;
    require(waitpid(child, &status, 0) == child, "waitpid");
    fact("the child ended by itself", WIFEXITED(status) && WEXITSTATUS(status) == 7);
    pthread_join(thread, NULL);
    return 0;
}
