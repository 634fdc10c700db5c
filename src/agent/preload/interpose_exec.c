// exec and posix_spawn: no tick of ours may be pending when the new program begins, the owner's
// next program is still profiled, and programs that cannot be are noted.
//
// exec is async-signal-safe and runs on small alternate stacks and in children of vfork: what needs
// room is mapped, and only the arguments that the caller listed are on the stack.
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

// How exec names a program. execveat: path is relative to fd, or fd itself if it is empty and the
// flags say so.
struct target {
    enum { EXECVE, EXECVPE, FEXECVE, EXECVEAT } call;
    const char *path;
    int fd, flags;
};

// --- what the program is ---

struct look {
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

static void note_program(const struct program *program, char *const envp[])
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
    case PROGRAM_DYNAMIC:
        if (!keeps_environment(envp) && !environment_is_owned())
            journal_note(JOURNAL_NOTE_ENVIRONMENT, program->path);
        break;
    default:
        break;
    }
}

// A path to what the descriptor stands for, and to what is below it. False: it is too long.
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

// Where the file is. NULL: nowhere, or too far away.
static const char *find_file(const struct target *t, char *found, size_t size)
{
    if (t->call == EXECVPE)
        return program_find(t->path, found, size) ? NULL : found;
    if (t->call == EXECVE || *t->path == '/' || t->fd == AT_FDCWD)
        return t->path;
    return t->fd >= 0 && name_by_descriptor(t->fd, t->path, found, size) ? found : NULL;
}

// A program that is not there is exec's to complain about.
static enum program_kind look_at(struct look *l, const struct target *t, char *const envp[])
{
    const char *path = find_file(t, l->found, sizeof l->found);
    if (!path)
        return PROGRAM_MISSING;
    program_look(path, &l->program);
    if (journal_is_followed())
        note_program(&l->program, envp);
    return l->program.kind;
}

static enum program_kind kind_of(const struct target *t, char *const envp[])
{
    struct look *l =
        mmap(NULL, sizeof *l, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (l == MAP_FAILED)
        return PROGRAM_UNKNOWN;
    enum program_kind kind = look_at(l, t, envp);
    munmap(l, sizeof *l);
    return kind;
}

// Whether the program will not load our libraries: our variables would reach its children.
static bool is_out_of_reach(enum program_kind kind)
{
    return kind == PROGRAM_LIBC || kind == PROGRAM_STATIC || kind == PROGRAM_MACHINE ||
           kind == PROGRAM_PRIVILEGED;
}

// --- exec ---

struct execution {
    struct environment_block block;
    struct capture_exec capture;
    bool masked; // mask_begin_start
};

// An environment without our libraries, for another loader. The arrays are the caller's: what it
// lists is small, and what is not stays as it is.
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

// Looks at a program that would get our libraries, or that is to be noted. in_place: it will be
// this process, and they are added to its environment. It looks only if it must: closing a file
// releases all POSIX locks that the process holds on it.
static enum program_kind look_if_needed(const struct target *t, char *const envp[], bool in_place)
{
    if (!preload_is_active() || !t->path || sandbox_confines_caller())
        return PROGRAM_UNKNOWN;
    bool needed =
        has_our_libraries(envp) ||
        (in_place ? environment_is_owned() || journal_is_followed() : journal_follows_children());
    return needed ? kind_of(t, envp) : PROGRAM_UNKNOWN;
}

// Whether our libraries, which envp has, keep the program from starting: its loader is not glibc's.
static bool is_foreign(enum program_kind kind, char *const envp[])
{
    return kind == PROGRAM_LIBC && has_our_libraries(envp);
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

// What we add may be too much: then the program goes without.
static bool is_too_large(const struct execution *x)
{
    return x->block.p && errno == E2BIG;
}

static int execute_kernel(const struct target *t, char *const argv[], char *const envp[])
{
    long result =
        t->call == EXECVEAT
            ? process_call(SYS_execveat, t->fd, (long)t->path, (long)argv, (long)envp, t->flags, 0)
            : process_call(SYS_execve, (long)t->path, (long)argv, (long)envp, 0, 0, 0);
    errno = (int)-result;
    return -1;
}

// libc searches for names, and has another way for kernels without execveat.
static int execute_as(const struct target *t, char *const argv[], char *const envp[])
{
    return t->call == EXECVPE   ? LIBC(execvpe)(t->path, argv, envp)
           : t->call == FEXECVE ? LIBC(fexecve)(t->fd, argv, envp)
                                : execute_kernel(t, argv, envp);
}

static int execute_with(const struct target *t, char *const argv[], char *const envp[],
                        bool reached)
{
    struct execution x;
    bool ours = begin_execution(&x, reached, envp);
    int result = execute_as(t, argv, ours ? x.block.p : envp);
    if (is_too_large(&x))
        result = execute_as(t, argv, envp);
    end_failed_execution(&x);
    return result;
}

static __attribute__((noinline)) int execute_foreign(const struct target *t, char *const argv[],
                                                     char *const envp[])
{
    char *variables[MOST_VARIABLES], rest[MOST_PRELOAD];
    return execute_with(t, argv, without_libraries(envp, variables, rest), false);
}

static int execute(struct target t, char *const argv[], char *const envp[])
{
    // The kernel says what is wrong with it.
    if (!environment_is_readable(t.path, envp))
        return execute_with(&t, argv, envp, false);
    enum program_kind kind = look_if_needed(&t, envp, true);
    if (is_foreign(kind, envp))
        return execute_foreign(&t, argv, envp);
    return execute_with(&t, argv, envp, !is_out_of_reach(kind));
}

EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
    return execute((struct target){.call = EXECVE, .path = path}, argv, envp);
}

EXPORT int execv(const char *path, char *const argv[])
{
    return execute((struct target){.call = EXECVE, .path = path}, argv, environ);
}

EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
    return execute((struct target){.call = EXECVPE, .path = file}, argv, envp);
}

EXPORT int execvp(const char *file, char *const argv[])
{
    return execute((struct target){.call = EXECVPE, .path = file}, argv, environ);
}

EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
    return execute((struct target){.call = FEXECVE, .path = "", .fd = fd}, argv, envp);
}

// Not in older headers.
EXPORT int execveat(int fd, const char *path, char *const argv[], char *const envp[], int flags);
EXPORT int execveat(int fd, const char *path, char *const argv[], char *const envp[], int flags)
{
    return execute((struct target){EXECVEAT, path, fd, flags}, argv, envp);
}

// The arguments of execl and its kin as an array on the stack, as large as it must be; the
// environment follows the NULL.
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
    return execute((struct target){.call = EXECVE, .path = path}, argv, environ);
}

EXPORT int execlp(const char *file, const char *argument, ...)
{
    COLLECT(argument, argv, (void)0);
    return execute((struct target){.call = EXECVPE, .path = file}, argv, environ);
}

EXPORT int execle(const char *path, const char *argument, ...)
{
    char *const *envp;
    COLLECT(argument, argv, envp = va_arg(list, char *const *));
    return execute((struct target){.call = EXECVE, .path = path}, argv, envp);
}

// --- posix_spawn and its kin, whose child never runs code of ours ---

static bool is_us(void)
{
    return capture_has_handler() && !sandbox_confines_caller() && process_is_us();
}

struct spawning {
    bool ignored, masked;
};

static struct spawning begin_spawn(void)
{
    return (struct spawning){is_us() && capture_before_spawn(), mask_begin_start()};
}

static void end_spawn(struct spawning s)
{
    if (s.masked)
        mask_end_start();
    if (s.ignored)
        capture_after_spawn();
}

static __attribute__((noinline)) int spawn_foreign(pid_t *pid, const char *path, bool search,
                                                   const posix_spawn_file_actions_t *actions,
                                                   const posix_spawnattr_t *attributes,
                                                   char *const argv[], char *const envp[])
{
    char *variables[MOST_VARIABLES], rest[MOST_PRELOAD];
    char *const *kept = without_libraries(envp, variables, rest);
    return search ? LIBC(posix_spawnp)(pid, path, actions, attributes, argv, kept)
                  : LIBC(posix_spawn)(pid, path, actions, attributes, argv, kept);
}

static int spawn(pid_t *pid, const char *path, bool search,
                 const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
                 char *const argv[], char *const envp[])
{
    struct target t = {.call = search ? EXECVPE : EXECVE, .path = path};
    struct spawning spawning = begin_spawn();
    int result;
    if (environment_is_readable(path, envp) && is_foreign(look_if_needed(&t, envp, false), envp))
        result = spawn_foreign(pid, path, search, actions, attributes, argv, envp);
    else
        result = search ? LIBC(posix_spawnp)(pid, path, actions, attributes, argv, envp)
                        : LIBC(posix_spawn)(pid, path, actions, attributes, argv, envp);
    end_spawn(spawning);
    return result;
}

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
    return spawn(pid, path, false, actions, attributes, argv, envp);
}

EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
    return spawn(pid, file, true, actions, attributes, argv, envp);
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
    if (is_us())
        capture_before_system();
    bool masked = mask_begin_start();
    int result = LIBC(system)(command);
    if (masked)
        mask_end_start();
    return result;
}
