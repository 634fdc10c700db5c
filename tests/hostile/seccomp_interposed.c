// A thread that may make the system calls of one libc function and no others calls that function.
// libkiln stands in for all of them, and must make no call of its own there, whether it profiles or
// not.
#include "confine.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

static void on_signal(int number)
{
}

static char *const arguments[] = {"nothing", NULL}, *const no_variables[] = {NULL};
static const char *const nowhere = "/nonexistent/program";
static char stack[1 << 16];

static bool set_stack(void)
{
    stack_t wanted = {.ss_sp = stack, .ss_size = sizeof stack};
    stack_t none = {.ss_flags = SS_DISABLE};
    return sigaltstack(&wanted, NULL) == 0 && sigaltstack(&none, NULL) == 0;
}

static bool set_action(int number)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK}, had;
    return sigaction(number, &action, NULL) == 0 && sigaction(number, NULL, &had) == 0;
}

static bool set_actions(void)
{
    return set_action(SIGUSR1) && set_action(SIGPROF) && signal(SIGUSR1, on_signal) != SIG_ERR &&
           signal(SIGPROF, on_signal) != SIG_ERR && signal(SIGPROF, SIG_DFL) == on_signal;
}

static bool set_masks(void)
{
    sigset_t all, had;
    sigfillset(&all);
    return pthread_sigmask(SIG_SETMASK, &all, &had) == 0 &&
           sigprocmask(SIG_SETMASK, &had, NULL) == 0;
}

static bool wait_for(pid_t child)
{
    int status;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 5;
}

static bool fork_once(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(5);
    return wait_for(child);
}

static bool vfork_once(void)
{
    pid_t child = vfork();
    if (child == 0)
        _exit(5);
    return wait_for(child);
}

static bool fail_to_execute(void)
{
    return execve(nowhere, arguments, no_variables) == -1 && errno == ENOENT &&
           execv(nowhere, arguments) == -1 && execl(nowhere, "nothing", (char *)NULL) == -1 &&
           execvp(nowhere, arguments) == -1;
}

static bool fail_to_execute_at(void)
{
    return execveat(AT_FDCWD, nowhere, arguments, no_variables, 0) == -1 && errno == ENOENT;
}

static bool fail_to_spawn(void)
{
    pid_t child;
    return posix_spawn(&child, nowhere, NULL, NULL, arguments, no_variables) == ENOENT;
}

static void *do_nothing(void *context)
{
    return context;
}

static bool start_thread(void)
{
    pthread_t thread;
    return pthread_create(&thread, NULL, do_nothing, NULL) == 0 && pthread_join(thread, NULL) == 0;
}

static bool name_self(void)
{
    char name[16];
    return prctl(PR_GET_NAME, name, 0, 0, 0) == 0 && syscall(SYS_getppid) > 0;
}

static bool open_self(void)
{
    return dlopen(NULL, RTLD_NOW) != NULL;
}

#define ONLY(...) CALLS(__VA_ARGS__, SYS_write, SYS_exit_group, SYS_rt_sigreturn)

static const struct {
    const char *name;
    bool (*call)(void);
    const int *calls;
} functions[] = {
    {"sigaltstack", set_stack, ONLY(SYS_sigaltstack)},
    {"sigaction", set_actions, ONLY(SYS_rt_sigaction)},
    {"sigmask", set_masks, ONLY(SYS_rt_sigprocmask)},
    // A profiler with threads has locks that a fork waits for.
    {"fork", fork_once, ONLY(SYS_clone, SYS_set_robust_list, SYS_wait4, SYS_futex)},
#ifdef SYS_vfork
    {"vfork", vfork_once, ONLY(SYS_vfork, SYS_wait4)},
#else
    {"vfork", vfork_once, ONLY(SYS_clone, SYS_wait4)},
#endif
    {"exec", fail_to_execute, ONLY(SYS_execve)},
    {"execveat", fail_to_execute_at, ONLY(SYS_execveat)},
    {"spawn", fail_to_spawn,
     ONLY(SYS_clone, SYS_clone3, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_rt_sigprocmask,
          SYS_rt_sigaction, SYS_execve, SYS_wait4)},
    {"thread", start_thread,
     ONLY(SYS_clone, SYS_clone3, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_rt_sigprocmask,
          SYS_madvise, SYS_futex, SYS_set_robust_list, SYS_rseq, SYS_exit, SYS_brk)},
    {"prctl", name_self, ONLY(SYS_prctl, SYS_getppid)},
    {"dlopen", open_self, ONLY(SYS_exit)},
};

int main(int argc, char **argv)
{
    require(argc == 2, "an argument");
    hostile_begin();
    burn(0.02);
    // libc draws a random number for its first allocation, and starts a thread with more calls the
    // first time.
    void *volatile first = malloc(1);
    free(first);
    start_thread();
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (is(argv[1], functions[i].name)) {
            confine_to(BY_PRCTL, SECCOMP_RET_KILL_PROCESS, functions[i].calls);
            spin(3000000);
            bool good = functions[i].call();
            spin(30000000);
            say(good ? "called\n" : "failed\n");
            _exit(4);
        }
    require(false, "a function's name");
}
