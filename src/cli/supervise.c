#include "cli/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/exec_small.h"

_Static_assert(sizeof(sigset_t) <= sizeof((struct supervise *)0)->saved, "a mask has its place");

// Fills set with all signals that may be sent to us instead of to the program; not those that our
// own faults raise.
static void fill_watched_signals(sigset_t *set)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT, SIGXCPU};
    sigfillset(set);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(set, own[i]);
}

static void isolate_child(void)
{
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    setpgid(0, 0);
    if (nowhere >= 0) {
        dup2(nowhere, STDIN_FILENO);
        dup2(nowhere, STDOUT_FILENO);
    }
}

static int exec_with_path(char **argv)
{
    execvp(argv[0], argv);
    return errno;
}

static void exec_program(char **argv, enum supervise_how how, const sigset_t *mask,
                         const struct sigaction *on_child, int tell)
{
    if (how == SUPERVISE_APART)
        isolate_child();
    sigaction(SIGCHLD, on_child, NULL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    int error = how == SUPERVISE_APART ? exec_small(argv, environ) : exec_with_path(argv);
    if (write(tell, &error, sizeof error) < 0)
        _exit(126);
    _exit(127);
}

// Reads /proc/PID/stat. Returns the part from the end of the name on, as the name may contain
// anything; NULL: the process is gone.
static char *read_process_stat(pid_t pid, char *text, size_t size)
{
    snprintf(text, size, "/proc/%d/stat", (int)pid);
    int fd = open(text, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    return strrchr(text, ')');
}

// A field of read_process_stat's result, numbered as in proc(5), from 3 on; 0 if missing.
static uint64_t stat_number(const char *text, int field)
{
    for (int i = 2; text && i < field; i++) {
        text = strchr(text, ' ');
        text = text ? text + 1 : NULL;
    }
    return text ? strtoull(text, NULL, 10) : 0;
}

// Lists our children, at most `most`.
static size_t read_children(pid_t *children, size_t most)
{
    char text[4096];
    size_t n = 0;
    snprintf(text, sizeof text, "/proc/self/task/%d/children", (int)gettid());
    int fd = open(text, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[length > 0 ? length : 0] = '\0';
    for (char *at = text, *end; *at && n < most; at = *end ? end + 1 : end) {
        pid_t pid = (pid_t)strtol(at, &end, 10);
        if (pid > 0 && *end == ' ') // not truncated
            children[n++] = pid;
    }
    return n;
}

void supervise_adopt(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

int supervise_start(struct supervise *s, char **argv, enum supervise_how how,
                    void (*prepare)(void *), void *context, int *error, struct err *e)
{
    int pipe[2];
    sigset_t set, old;
    struct sigaction plain = {.sa_handler = SIG_DFL}, had;
    *error = 0;
    *s = (struct supervise){.how = how, .child = -1};
    if (pipe2(pipe, O_CLOEXEC))
        return err_set(e, "cannot create a pipe: %s", strerror(errno));
    s->n_older = read_children(s->older, SUPERVISE_OLDER);
    fill_watched_signals(&set);
    sigprocmask(SIG_BLOCK, &set, &old);
    memcpy(s->saved, &old, sizeof old);
    // If SIGCHLD is ignored, children cannot be waited for.
    sigaction(SIGCHLD, &plain, &had);
    s->child = fork();
    if (s->child == 0) {
        prepare(context);
        exec_program(argv, how, &old, &had, pipe[1]);
    }
    int failed = errno;
    close(pipe[1]);
    ssize_t n = 0;
    if (s->child > 0)
        while ((n = read(pipe[0], error, sizeof *error)) < 0 && errno == EINTR)
            ;
    close(pipe[0]);
    if (s->child > 0 && n == 0)
        return 0;
    if (s->child > 0) {
        waitpid(s->child, NULL, 0);
        err_set(e, "%s: %s", argv[0], strerror(*error));
    } else {
        err_set(e, "cannot start %s: %s", argv[0], strerror(failed));
    }
    supervise_end(s);
    return -1;
}

// Reads the CPU time of the program and, separately, of its children. Only the zombie's /proc entry
// has both: wait4 reports the sum.
static void read_cpu_times(struct supervise *s)
{
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(s->child, &clock) == 0 && clock_gettime(clock, &t) == 0)
        s->own_nanos = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    enum { USER = 14, SYSTEM = 15, CHILDREN_USER = 16, CHILDREN_SYSTEM = 17 };
    char text[1024], *at = read_process_stat(s->child, text, sizeof text);
    double ticks = (double)sysconf(_SC_CLK_TCK);
    s->own_cpu = (double)(stat_number(at, USER) + stat_number(at, SYSTEM)) / ticks;
    s->children_cpu =
        (double)(stat_number(at, CHILDREN_USER) + stat_number(at, CHILDREN_SYSTEM)) / ticks;
}

static int64_t timeval_nanoseconds(struct timeval t)
{
    return (int64_t)t.tv_sec * 1000000000 + t.tv_usec * 1000;
}

// Adds the usage of an ended process and of the children that it waited for.
static void add_usage(struct supervise *s, const struct rusage *usage)
{
    int64_t peak = (int64_t)usage->ru_maxrss * 1024;
    s->used += timeval_nanoseconds(usage->ru_utime) + timeval_nanoseconds(usage->ru_stime);
    if (s->how == SUPERVISE_APART && peak > s->peak && exec_small_works())
        s->peak = peak;
}

// Returns the pid and status of the next child that ended or stopped; 0: none; -1: there are no
// children.
static pid_t next_child(struct supervise *s, int *status)
{
    siginfo_t info = {.si_pid = 0};
    int result;
    do
        result = waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT);
    while (result && errno == EINTR);
    if (result || info.si_pid == 0)
        return result;
    if (info.si_pid == s->child && info.si_code != CLD_STOPPED)
        read_cpu_times(s);
    struct rusage usage = {0};
    pid_t got = wait4(info.si_pid, status, WNOHANG | WUNTRACED, &usage);
    if (got > 0 && !WIFSTOPPED(*status))
        add_usage(s, &usage);
    return got;
}

static bool is_stopped(pid_t pid)
{
    char text[1024];
    const char *at = read_process_stat(pid, text, sizeof text);
    return at && (at[2] == 'T' || at[2] == 't');
}

// Runs in a child of ours while we are stopped: continues us when something else than our shell has
// continued the program, or killed it.
static _Noreturn void continue_with_program(pid_t program, pid_t us)
{
    const struct timespec pause = {0, 20000000};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == us) {
        if (!is_stopped(program) && is_stopped(us))
            kill(us, SIGCONT);
        nanosleep(&pause, NULL);
    }
    _exit(0);
}

// Stops when the program stops, so that the shell that started us sees a stopped job. A
// SUPERVISE_APART program that stops by itself must not stop us, because the timeout would never
// expire.
static void stop_with_program(struct supervise *s)
{
    if (s->how == SUPERVISE_APART && !s->may_stop)
        return;
    s->may_stop = false;
    if (!is_stopped(s->child))
        return;
    pid_t us = getpid(), watcher = fork();
    if (watcher == 0)
        continue_with_program(s->child, us);
    raise(SIGSTOP);
    if (watcher > 0) {
        kill(watcher, SIGKILL);
        waitpid(watcher, NULL, 0);
    }
    // SIGCONT may have been sent to us only. If the program goes on already, it gets no second one.
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCONT);
    sigtimedwait(&set, NULL, &(struct timespec){0, 0});
    if (is_stopped(s->child))
        kill(s->child, SIGCONT);
}

static void record_child_status(struct supervise *s)
{
    int status;
    pid_t got;
    while ((got = next_child(s, &status)) > 0) {
        if (got != s->child)
            continue;
        if (WIFSTOPPED(status)) {
            stop_with_program(s);
        } else {
            s->status = status;
            s->ended = true;
        }
    }
    s->ended |= got < 0;
    s->orphans = s->ended && got == 0;
}

// Whether pid is the program or a descendant of it.
static bool is_of_program(const struct supervise *s, pid_t pid)
{
    enum { MOST_GENERATIONS = 64, PARENT = 4 };
    for (int i = 0; i < MOST_GENERATIONS && pid > 1 && pid != s->child; i++) {
        char text[1024];
        pid = (pid_t)stat_number(read_process_stat(pid, text, sizeof text), PARENT);
    }
    return pid == s->child;
}

// Forwards a signal. The terminal signals the program too unless it is apart, and the program
// itself may signal its process group; signals from others are meant for the program.
static void forward_signal(struct supervise *s, const siginfo_t *info)
{
    bool apart = s->how == SUPERVISE_APART;
    if (info->si_code == SI_KERNEL ? apart : !s->ended && !is_of_program(s, info->si_pid))
        kill(apart ? -s->child : s->child, info->si_signo);
}

bool supervise_wait(struct supervise *s, int milliseconds)
{
    sigset_t set;
    siginfo_t info;
    struct timespec timeout = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    fill_watched_signals(&set);
    int signal = sigtimedwait(&set, &info, &timeout);
    bool wants_end = signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
    if (signal > 0 && signal != SIGCHLD && signal != SIGPIPE)
        forward_signal(s, &info);
    s->interrupted |= wants_end;
    s->may_stop |= signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
    bool ended = s->ended;
    record_child_status(s);
    return ended && wants_end;
}

static bool is_older(const struct supervise *s, pid_t pid)
{
    size_t i = 0;
    while (i < s->n_older && s->older[i] != pid)
        i++;
    return i < s->n_older;
}

// Kills processes that left the program's process group; they become our children when their
// parents die. Returns whether any was killed.
static bool kill_children(const struct supervise *s)
{
    pid_t children[1024];
    size_t n = read_children(children, sizeof children / sizeof *children);
    bool any = false;
    for (size_t i = 0; i < n; i++)
        if (!is_older(s, children[i]))
            any |= kill(children[i], SIGKILL) == 0;
    return any;
}

void supervise_kill(struct supervise *s)
{
    enum { ROUNDS = 500, PAUSE_NS = 10000000 };
    bool any = true;
    for (int i = 0; i < ROUNDS && (!s->ended || (s->orphans && any)); i++) {
        kill(-s->child, SIGKILL);
        any = kill_children(s);
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        record_child_status(s);
    }
}

int supervise_status(const struct supervise *s)
{
    return WIFSIGNALED(s->status) ? 128 + WTERMSIG(s->status) : WEXITSTATUS(s->status);
}

void supervise_end(struct supervise *s)
{
    sigset_t set, old;
    struct timespec zero = {0, 0};
    fill_watched_signals(&set);
    // Discard an interrupt that ended the program.
    while (sigtimedwait(&set, NULL, &zero) > 0)
        ;
    memcpy(&old, s->saved, sizeof old);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

void supervise_die_alike(const struct supervise *s)
{
    if (!WIFSIGNALED(s->status))
        return;
    int number = WTERMSIG(s->status);
    struct rlimit none = {0, 0};
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t set;
    setrlimit(RLIMIT_CORE, &none); // the only useful core dump is the program's
    sigaction(number, &plain, NULL);
    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    raise(number);
}
