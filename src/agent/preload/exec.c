// What a program that becomes another one, or starts one, needs from the profiler: nothing of
// ours may be pending when the new program begins, and what cannot be followed is told.
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "agent/journal/journal.h"
#include "agent/preload/next.h"
#include "base/attributes.h"
#include "base/program.h"

// --- what will not be in the profile ---

static bool keeps_environment(char *const envp[])
{
    for (; envp && *envp; envp++)
        if (strncmp(*envp, "KILN_RUN=", 9) == 0)
            return true;
    return false;
}

// Runs in children of vfork, too. Nobody asks for it without a journal, and a program that is
// not there is exec's to complain about.
static void note_program(const char *path, bool search, char *const envp[])
{
    struct program program;
    char found[sizeof program.path];
    enum journal_note_kind kind;
    if (!journal_is_followed())
        return;
    if (search) {
        if (program_find(path, found, sizeof found))
            return;
        path = found;
    }
    program_look(path, &program);
    switch (program.kind) {
    case PROGRAM_STATIC:
        kind = JOURNAL_NOTE_STATIC;
        break;
    case PROGRAM_PRIVILEGED:
        kind = JOURNAL_NOTE_SETUID;
        break;
    case PROGRAM_MACHINE:
    case PROGRAM_LIBC:
        kind = JOURNAL_NOTE_FOREIGN;
        break;
    case PROGRAM_DYNAMIC:
        if (keeps_environment(envp))
            return;
        kind = JOURNAL_NOTE_ENVIRONMENT;
        break;
    default:
        return;
    }
    journal_note(kind, program.path);
}

// --- exec ---

// exec only returns if it failed.
#define EXECUTE(call)                         \
    do {                                      \
        bool stopped = capture_before_exec(); \
        int result = call;                    \
        if (stopped)                          \
            capture_after_failed_exec();      \
        return result;                        \
    } while (0)

EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
    note_program(path, false, envp);
    EXECUTE(NEXT(execve)(path, argv, envp));
}

EXPORT int execv(const char *path, char *const argv[])
{
    return execve(path, argv, environ);
}

EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
    note_program(file, true, envp);
    EXECUTE(NEXT(execvpe)(file, argv, envp));
}

EXPORT int execvp(const char *file, char *const argv[])
{
    return execvpe(file, argv, environ);
}

EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
    EXECUTE(NEXT(fexecve)(fd, argv, envp));
}

enum { MOST_ARGUMENTS = 4096 };

// Collects the arguments of execl and its kin; the environment follows the NULL.
#define COLLECT(first, argv, envp, with_environment)                                           \
    char *argv[MOST_ARGUMENTS];                                                                \
    char *const *envp = environ;                                                               \
    do {                                                                                       \
        va_list list;                                                                          \
        size_t n_ = 0;                                                                         \
        va_start(list, first);                                                                 \
        for (const char *a_ = first; a_ && n_ + 1 < MOST_ARGUMENTS; a_ = va_arg(list, char *)) \
            argv[n_++] = (char *)a_;                                                           \
        argv[n_] = NULL;                                                                       \
        if (with_environment)                                                                  \
            envp = va_arg(list, char *const *);                                                \
        va_end(list);                                                                          \
    } while (0)

EXPORT int execl(const char *path, const char *argument, ...)
{
    COLLECT(argument, argv, envp, false);
    return execve(path, argv, envp);
}

EXPORT int execlp(const char *file, const char *argument, ...)
{
    COLLECT(argument, argv, envp, false);
    return execvpe(file, argv, envp);
}

EXPORT int execle(const char *path, const char *argument, ...)
{
    COLLECT(argument, argv, envp, true);
    return execve(path, argv, envp);
}

// --- posix_spawn, whose child never runs code of ours ---

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
    note_program(path, false, envp);
    return NEXT(posix_spawn)(pid, path, actions, attributes, argv, envp);
}

EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
    note_program(file, true, envp);
    return NEXT(posix_spawnp)(pid, file, actions, attributes, argv, envp);
}
