// Interposes exec and posix_spawn: no tick may be pending when the new program begins, the owner's
// next program must still be profiled, and programs that cannot be profiled are reported.
//
// exec is async-signal-safe and is called on small alternate stacks and in children of vfork. So
// large buffers are mapped, and only the argument list of execl and its variants is on the stack.
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/journal/journal.h"
#include "agent/preload/mask.h"
#include "agent/preload/preload.h"
#include "agent/preload/preload_environment.h"
#include "base/program.h"
#include "process/call.h"
#include "process/libc.h"
#include "process/process.h"
#include "process/sandbox.h"

// How exec identifies a program. execveat: path is relative to fd, or names fd itself if it is
// empty and flags has AT_EMPTY_PATH.
struct target {
    enum { EXECVE, EXECVPE, FEXECVE, EXECVEAT } call;
    const char *path;
    int fd, flags;
};

// --- classifying the program ---

struct target_lookup {
    struct program program;
    char found[sizeof((struct program *)0)->path];
};

static bool keeps_environment(char *const envp[])
{
    for (; envp && *envp; envp++)
        if (strncmp(*envp, "KILN_RUN=", 9) == 0)
            return true;
    return false;
}

static void report_program(const struct program *program, char *const envp[])
{
    switch (program->kind) {
    case PROGRAM_STATIC:
        journal_note(JOURNAL_NOTE_STATIC, program->path);
        break;
    case PROGRAM_PRIVILEGED:
        journal_note(JOURNAL_NOTE_SETUID, program->path);
        break;
    case PROGRAM_MACHINE:
    case PROGRAM_LIBC:
        journal_note(JOURNAL_NOTE_FOREIGN, program->path);
        break;
    case PROGRAM_NO_ROOM:
        journal_note(JOURNAL_NOTE_LIMITS, program->path);
        break;
    case PROGRAM_DYNAMIC:
        if (!keeps_environment(envp) && !environment_is_owned())
            journal_note(JOURNAL_NOTE_ENVIRONMENT, program->path);
        break;
    default:
        break;
    }
}

// Builds a path to the descriptor's file, or below it. Returns false if it does not fit.
static bool name_by_descriptor(int fd, const char *path, char *to, size_t size)
{
    static const char folder[] = "/proc/self/fd/";
    char digits[12];
    size_t at = sizeof folder - 1, n = 0, length = strlen(path);
    if (at + sizeof digits + 1 + length + 1 > size)
        return false;
    memcpy(to, folder, at);
    unsigned left = (unsigned)fd;
    do
        digits[n++] = (char)('0' + left % 10);
    while (left /= 10);
    while (n)
        to[at++] = digits[--n];
    if (length)
        to[at++] = '/';
    memcpy(to + at, path, length + 1);
    return true;
}

// Returns the path of the file; NULL if it is not found or too long.
static const char *find_target_file(const struct target *t, char *found, size_t size)
{
    if (t->call == EXECVPE)
        return program_find(t->path, found, size) ? NULL : found;
    if (t->call == EXECVE || *t->path == '/' || t->fd == AT_FDCWD)
        return t->path;
    return t->fd >= 0 && name_by_descriptor(t->fd, t->path, found, size) ? found : NULL;
}

// If the program does not exist, let exec report that.
static enum program_kind classify_target(struct target_lookup *l, const struct target *t,
                                         char *const envp[])
{
    const char *path = find_target_file(t, l->found, sizeof l->found);
    if (!path)
        return PROGRAM_MISSING;
    program_look(path, &l->program);
    if (journal_is_followed())
        report_program(&l->program, envp);
    return l->program.kind;
}

static enum program_kind target_kind(const struct target *t, char *const envp[])
{
    struct target_lookup *l =
        mmap(NULL, sizeof *l, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (l == MAP_FAILED)
        return program_has_room(NULL) ? PROGRAM_UNKNOWN : PROGRAM_NO_ROOM;
    enum program_kind kind = classify_target(l, t, envp);
    munmap(l, sizeof *l);
    return kind;
}

// Whether the program will not load our libraries. Then our variables would only reach its
// children.
static bool is_out_of_reach(enum program_kind kind)
{
    return kind == PROGRAM_LIBC || kind == PROGRAM_STATIC || kind == PROGRAM_MACHINE ||
           kind == PROGRAM_PRIVILEGED || kind == PROGRAM_NO_ROOM;
}

// --- exec ---

struct execution {
    struct environment_block block;
    struct capture_exec capture;
    bool masked; // end with mask_end_start
};

// Removes our libraries from the environment, for another loader. The buffers belong to the caller;
// an environment that exceeds them stays unchanged.
enum { MOST_VARIABLES = 256, MOST_PRELOAD = 1024 };

static char *const *without_libraries(char *const envp[], char **to, char *rest)
{
    size_t n = 0;
    for (; envp && envp[n]; n++) {
        if (n + 1 >= MOST_VARIABLES)
            return envp;
        to[n] = envp[n];
        if (strncmp(envp[n], "LD_PRELOAD=", 11) == 0 && strlen(envp[n]) < MOST_PRELOAD) {
            environment_drop_libraries(envp[n], rest);
            to[n] = *rest ? rest : (char *)"LD_PRELOAD=";
        }
    }
    to[n] = NULL;
    return to;
}

static bool has_our_libraries(char *const envp[])
{
    for (; envp && *envp; envp++)
        if (strncmp(*envp, "LD_PRELOAD=", 11) == 0 && strstr(*envp, "libkiln"))
            return true;
    return false;
}

// Classifies a program that would get our libraries or should be reported. in_place: the program
// replaces this process, and our libraries are added to its environment. Reads the file only if it
// must: closing a file releases all POSIX locks that the process holds on it.
static enum program_kind classify_if_needed(const struct target *t, char *const envp[],
                                            bool in_place)
{
    if (!preload_is_active() || !t->path || sandbox_confines_caller())
        return PROGRAM_UNKNOWN;
    bool needed =
        has_our_libraries(envp) ||
        (in_place ? environment_is_owned() || journal_is_followed() : journal_follows_children());
    return needed ? target_kind(t, envp) : PROGRAM_UNKNOWN;
}

// Whether our libraries in envp would keep the program from starting, because its loader is not
// glibc's or has no room for them.
static bool is_foreign(enum program_kind kind, char *const envp[])
{
    return (kind == PROGRAM_LIBC || kind == PROGRAM_NO_ROOM) && has_our_libraries(envp);
}

static bool begin_execution(struct execution *x, bool reached, char *const envp[])
{
    *x = (struct execution){.block = {NULL, 0}};
    if (sandbox_confines_caller())
        return false;
    if (reached)
        x->block = environment_for_exec(envp);
    x->capture = capture_before_exec();
    x->masked = mask_begin_start();
    return x->block.p;
}

static void end_failed_execution(const struct execution *x)
{
    int error = errno;
    if (x->masked)
        mask_end_start();
    capture_after_failed_exec(x->capture);
    environment_release(&x->block);
    errno = error;
}

// The environment with our variables may be too large: then retry without them.
static bool is_too_large(const struct execution *x)
{
    return x->block.p && errno == E2BIG;
}

static int exec_by_kernel(const struct target *t, char *const argv[], char *const envp[])
{
    long result =
        t->call == EXECVEAT
            ? process_call(SYS_execveat, t->fd, (long)t->path, (long)argv, (long)envp, t->flags, 0)
            : process_call(SYS_execve, (long)t->path, (long)argv, (long)envp, 0, 0, 0);
    errno = (int)-result;
    return -1;
}

// execvpe searches PATH, and fexecve has a fallback for kernels without execveat.
static int exec_by_libc_or_kernel(const struct target *t, char *const argv[], char *const envp[])
{
    return t->call == EXECVPE   ? LIBC(execvpe)(t->path, argv, envp)
           : t->call == FEXECVE ? LIBC(fexecve)(t->fd, argv, envp)
                                : exec_by_kernel(t, argv, envp);
}

static int exec_with_environment(const struct target *t, char *const argv[], char *const envp[],
                                 bool reached)
{
    struct execution x;
    bool ours = begin_execution(&x, reached, envp);
    int result = exec_by_libc_or_kernel(t, argv, ours ? x.block.p : envp);
    if (is_too_large(&x))
        result = exec_by_libc_or_kernel(t, argv, envp);
    end_failed_execution(&x);
    return result;
}

static __attribute__((noinline)) int exec_without_libraries(const struct target *t,
                                                            char *const argv[], char *const envp[])
{
    char *variables[MOST_VARIABLES], rest[MOST_PRELOAD];
    return exec_with_environment(t, argv, without_libraries(envp, variables, rest), false);
}

static int exec_target(struct target t, char *const argv[], char *const envp[])
{
    // Let the kernel report the error.
    if (!environment_is_readable(t.path, envp))
        return exec_with_environment(&t, argv, envp, false);
    enum program_kind kind = classify_if_needed(&t, envp, true);
    if (is_foreign(kind, envp))
        return exec_without_libraries(&t, argv, envp);
    return exec_with_environment(&t, argv, envp, !is_out_of_reach(kind));
}

EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
    return exec_target((struct target){.call = EXECVE, .path = path}, argv, envp);
}

EXPORT int execv(const char *path, char *const argv[])
{
    return exec_target((struct target){.call = EXECVE, .path = path}, argv, environ);
}

EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
    return exec_target((struct target){.call = EXECVPE, .path = file}, argv, envp);
}

EXPORT int execvp(const char *file, char *const argv[])
{
    return exec_target((struct target){.call = EXECVPE, .path = file}, argv, environ);
}

EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
    return exec_target((struct target){.call = FEXECVE, .path = "", .fd = fd}, argv, envp);
}

// Missing in older headers.
EXPORT int execveat(int fd, const char *path, char *const argv[], char *const envp[], int flags);
EXPORT int execveat(int fd, const char *path, char *const argv[], char *const envp[], int flags)
{
    return exec_target((struct target){EXECVEAT, path, fd, flags}, argv, envp);
}

// Collects the arguments of execl and its variants in an array on the stack. The environment of
// execle follows the NULL.
#define COLLECT(first, argv, after)                                       \
    char **argv;                                                          \
    do {                                                                  \
        va_list list;                                                     \
        size_t n_ = 0;                                                    \
        va_start(list, first);                                            \
        for (const char *a_ = first; a_; a_ = va_arg(list, const char *)) \
            n_++;                                                         \
        va_end(list);                                                     \
        argv = __builtin_alloca((n_ + 1) * sizeof *argv);                 \
        va_start(list, first);                                            \
        argv[0] = (char *)first;                                          \
        for (size_t i_ = 1; i_ <= n_; i_++)                               \
            argv[i_] = va_arg(list, char *);                              \
        after;                                                            \
        va_end(list);                                                     \
    } while (0)

EXPORT int execl(const char *path, const char *argument, ...)
{
    COLLECT(argument, argv, (void)0);
    return exec_target((struct target){.call = EXECVE, .path = path}, argv, environ);
}

EXPORT int execlp(const char *file, const char *argument, ...)
{
    COLLECT(argument, argv, (void)0);
    return exec_target((struct target){.call = EXECVPE, .path = file}, argv, environ);
}

EXPORT int execle(const char *path, const char *argument, ...)
{
    char *const *envp;
    COLLECT(argument, argv, envp = va_arg(list, char *const *));
    return exec_target((struct target){.call = EXECVE, .path = path}, argv, envp);
}

// --- posix_spawn and similar calls, whose child never runs our code ---

static bool may_ignore_sigprof(void)
{
    return capture_has_handler() && !sandbox_confines_caller() && process_is_us();
}

struct spawning {
    bool ignored, masked;
};

static struct spawning begin_spawn(void)
{
    return (struct spawning){may_ignore_sigprof() && capture_before_spawn(), mask_begin_start()};
}

static void end_spawn(struct spawning s)
{
    if (s.masked)
        mask_end_start();
    if (s.ignored)
        capture_after_spawn();
}

static __attribute__((noinline)) int
spawn_without_libraries(pid_t *pid, const char *path, bool search,
                        const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
    char *variables[MOST_VARIABLES], rest[MOST_PRELOAD];
    char *const *kept = without_libraries(envp, variables, rest);
    return search ? LIBC(posix_spawnp)(pid, path, actions, attributes, argv, kept)
                  : LIBC(posix_spawn)(pid, path, actions, attributes, argv, kept);
}

static int spawn_program(pid_t *pid, const char *path, bool search,
                         const posix_spawn_file_actions_t *actions,
                         const posix_spawnattr_t *attributes, char *const argv[],
                         char *const envp[])
{
    struct target t = {.call = search ? EXECVPE : EXECVE, .path = path};
    struct spawning spawning = begin_spawn();
    int result;
    if (environment_is_readable(path, envp) &&
        is_foreign(classify_if_needed(&t, envp, false), envp))
        result = spawn_without_libraries(pid, path, search, actions, attributes, argv, envp);
    else
        result = search ? LIBC(posix_spawnp)(pid, path, actions, attributes, argv, envp)
                        : LIBC(posix_spawn)(pid, path, actions, attributes, argv, envp);
    end_spawn(spawning);
    return result;
}

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
    return spawn_program(pid, path, false, actions, attributes, argv, envp);
}

EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
    return spawn_program(pid, file, true, actions, attributes, argv, envp);
}

EXPORT FILE *popen(const char *command, const char *mode)
{
    struct spawning spawning = begin_spawn();
    FILE *result = LIBC(popen)(command, mode);
    end_spawn(spawning);
    return result;
}

EXPORT int system(const char *command)
{
    if (may_ignore_sigprof())
        capture_before_system();
    bool masked = mask_begin_start();
    int result = LIBC(system)(command);
    if (masked)
        mask_end_start();
    return result;
}
