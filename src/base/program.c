#include "base/program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { OUR_MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { OUR_MACHINE = EM_AARCH64 };
#else
enum { OUR_MACHINE = EM_NONE };
#endif

enum { MOST_SCRIPTS = 5, MOST_HEADERS = 64 };

static bool join_path(char *path, size_t size, const char *directory, size_t n, const char *name)
{
    size_t n_name = strlen(name);
    if (n + 1 + n_name + 1 > size)
        return false;
    memcpy(path, directory, n);
    if (n)
        path[n++] = '/';
    memcpy(path + n, name, n_name + 1);
    return true;
}

static int check_executable(const char *path)
{
    struct stat st;
    if (stat(path, &st))
        return errno;
    if (S_ISDIR(st.st_mode))
        return EISDIR;
    return faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) ? errno : 0;
}

int program_find(const char *name, char *path, size_t size)
{
    if (strchr(name, '/'))
        return join_path(path, size, "", 0, name) ? 0 : ENAMETOOLONG;
    const char *list = getenv("PATH");
    int found = ENOENT;
    for (const char *p = list ? list : "/bin:/usr/bin"; *name; p++) {
        size_t n = strcspn(p, ":");
        if (join_path(path, size, p, n, name)) {
            int error = check_executable(path);
            if (error == 0)
                return 0;
            // Report EACCES only if nothing else is found.
            if (error == EACCES)
                found = EACCES;
        }
        p += n;
        if (!*p)
            break;
    }
    return found;
}

static void set_detail(struct program *program, const char *text)
{
    size_t n = strlen(text);
    if (n >= sizeof program->detail)
        n = sizeof program->detail - 1;
    memcpy(program->detail, text, n);
    program->detail[n] = '\0';
}

static const char *machine_name(uint16_t machine)
{
    switch (machine) {
    case EM_X86_64:
        return "x86-64";
    case EM_AARCH64:
        return "aarch64";
    case EM_386:
        return "32-bit x86";
    case EM_ARM:
        return "32-bit ARM";
    case EM_RISCV:
        return "RISC-V";
    default:
        return "another machine";
    }
}

// PT_INTERP names the loader.
static enum program_kind classify_segments(int fd, const Elf64_Ehdr *h, struct program *program)
{
    for (unsigned i = 0; i < h->e_phnum && i < MOST_HEADERS; i++) {
        Elf64_Phdr ph;
        char loader[sizeof program->detail] = "";
        if (pread(fd, &ph, sizeof ph, (off_t)(h->e_phoff + i * sizeof ph)) != sizeof ph)
            return PROGRAM_UNKNOWN;
        if (ph.p_type != PT_INTERP)
            continue;
        if (pread(fd, loader, sizeof loader - 1, (off_t)ph.p_offset) <= 0)
            return PROGRAM_UNKNOWN;
        set_detail(program, loader);
        return strstr(loader, "ld-musl") ? PROGRAM_LIBC : PROGRAM_DYNAMIC;
    }
    return PROGRAM_STATIC;
}

static enum program_kind classify_elf(int fd, const Elf64_Ehdr *h, size_t n,
                                      struct program *program)
{
    if (n < sizeof *h)
        return PROGRAM_UNKNOWN;
    if (h->e_machine != OUR_MACHINE || h->e_ident[EI_CLASS] != ELFCLASS64) {
        set_detail(program, machine_name(h->e_machine));
        return PROGRAM_MACHINE;
    }
    return classify_segments(fd, h, program);
}

static bool has_privileges(int fd, const struct stat *st)
{
    if (st->st_mode & S_ISUID && st->st_uid != geteuid())
        return true;
    if (st->st_mode & S_ISGID && st->st_mode & S_IXGRP && st->st_gid != getegid())
        return true;
    return geteuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0;
}

// "#! interpreter argument": stores the interpreter in program->path. Returns false if there is
// none.
static bool follow_script(const char *text, size_t n, struct program *program)
{
    size_t begin = 2;
    while (begin < n && (text[begin] == ' ' || text[begin] == '\t'))
        begin++;
    size_t end = begin;
    while (end < n && !strchr(" \t\r\n", text[end]))
        end++;
    if (end == begin || end - begin >= sizeof program->path)
        return false;
    memcpy(program->path, text + begin, end - begin);
    program->path[end - begin] = '\0';
    return true;
}

// Checks one file. Returns true if it is a script; program->path is then its interpreter.
static bool classify_file(struct program *program)
{
    union {
        Elf64_Ehdr elf;
        char text[512];
    } begin;
    struct stat st;
    program->kind = PROGRAM_MISSING;
    program->error = check_executable(program->path);
    if (program->error == EACCES || program->error == EISDIR)
        program->kind = PROGRAM_NOT_ALLOWED;
    if (program->error)
        return false;
    program->kind = PROGRAM_UNREADABLE;
    int fd = open(program->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t n = fd < 0 ? -1 : pread(fd, &begin, sizeof begin, 0);
    bool script = false;
    if (n >= 0 && fstat(fd, &st) == 0) {
        program->kind = PROGRAM_UNKNOWN;
        if (n >= SELFMAG && memcmp(&begin, ELFMAG, SELFMAG) == 0)
            program->kind = classify_elf(fd, &begin.elf, (size_t)n, program);
        else
            script = n > 2 && memcmp(&begin, "#!", 2) == 0 &&
                     follow_script(begin.text, (size_t)n, program);
        // The kernel ignores set-user-id bits of scripts.
        if (program->kind == PROGRAM_DYNAMIC && has_privileges(fd, &st))
            program->kind = PROGRAM_PRIVILEGED;
    }
    if (fd >= 0)
        close(fd);
    return script;
}

void program_look(const char *path, struct program *program)
{
    int saved = errno;
    memset(program, 0, sizeof *program);
    if (!join_path(program->path, sizeof program->path, "", 0, path)) {
        program->kind = PROGRAM_MISSING;
        program->error = ENAMETOOLONG;
        return;
    }
    for (int i = 0; i < MOST_SCRIPTS && classify_file(program); i++)
        ;
    if (program->kind == PROGRAM_DYNAMIC && !program_has_room(NULL))
        program->kind = PROGRAM_NO_ROOM;
    errno = saved;
}

bool program_has_room(char *why)
{
    // What the loader needs for libkiln, libkiln_malloc and libz besides a small program.
    static const struct {
        int limit;
        unsigned megabytes;
        const char *name;
    } needs[] = {{RLIMIT_DATA, 4, "data (ulimit -d)"}, {RLIMIT_AS, 12, "memory (ulimit -v)"}};
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        struct rlimit limit;
        if (syscall(SYS_prlimit64, 0, needs[i].limit, NULL, &limit) ||
            limit.rlim_cur >= (rlim_t)needs[i].megabytes << 20)
            continue;
        if (why)
            snprintf(why, PROGRAM_WHY, "the limit for %s is %llu KiB, but libkiln needs %u MiB",
                     needs[i].name, (unsigned long long)limit.rlim_cur >> 10, needs[i].megabytes);
        return false;
    }
    return true;
}
