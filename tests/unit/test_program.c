#include "base/program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[] = "/tmp/kiln-program-XXXXXX";

static const char *file(const char *name, const void *content, size_t n, mode_t mode)
{
    static char path[64];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && write(fd, content, n) == (ssize_t)n);
    fchmod(fd, mode);
    close(fd);
    return path;
}

static const char *text(const char *name, const char *content)
{
    return file(name, content, strlen(content), 0755);
}

// An ELF file of this machine that names a loader, or none.
static const char *elf(const char *name, uint16_t machine, const char *loader)
{
    struct {
        Elf64_Ehdr h;
        Elf64_Phdr ph;
        char loader[64];
    } image = {0};
    memcpy(image.h.e_ident, ELFMAG, SELFMAG);
    image.h.e_ident[EI_CLASS] = ELFCLASS64;
    image.h.e_machine = machine;
    image.h.e_phoff = sizeof image.h;
    image.h.e_phnum = 1;
    image.ph.p_type = loader ? PT_INTERP : PT_LOAD;
    image.ph.p_offset = sizeof image.h + sizeof image.ph;
    if (loader)
        memcpy(image.loader, loader, strlen(loader));
    return file(name, &image, sizeof image, 0755);
}

static enum program_kind kind(const char *path)
{
    static struct program p;
    errno = 1234;
    program_look(path, &p);
    assert_int_equal(errno, 1234);
    return p.kind;
}

#if defined(__x86_64__)
enum { OURS = EM_X86_64, OTHERS = EM_AARCH64 };
#else
enum { OURS = EM_AARCH64, OTHERS = EM_X86_64 };
#endif

static void kinds(void **state)
{
    assert_int_equal(kind("/proc/self/exe"), PROGRAM_DYNAMIC);
    assert_int_equal(kind(elf("dynamic", OURS, "/lib64/ld-linux-x86-64.so.2")), PROGRAM_DYNAMIC);
    assert_int_equal(kind(elf("static", OURS, NULL)), PROGRAM_STATIC);
    assert_int_equal(kind(elf("musl", OURS, "/lib/ld-musl-x86_64.so.1")), PROGRAM_LIBC);
    assert_int_equal(kind(elf("other", OTHERS, "/lib/ld.so")), PROGRAM_MACHINE);
    assert_int_equal(kind(text("plain", "echo\n")), PROGRAM_UNKNOWN);
    assert_int_equal(kind(text("empty", "")), PROGRAM_UNKNOWN);
    assert_int_equal(kind(text("cut", "\177ELF")), PROGRAM_UNKNOWN);
    assert_int_equal(kind(file("secret", "x", 1, 0644)), PROGRAM_NOT_ALLOWED);
    assert_int_equal(kind(directory), PROGRAM_NOT_ALLOWED);
    assert_int_equal(kind("/nothing/here"), PROGRAM_MISSING);
}

static void scripts(void **state)
{
    char content[128];
    struct program p;
    assert_int_equal(kind(text("script", "#! /bin/sh -e\necho\n")), PROGRAM_DYNAMIC);
    program_look(text("lost", "#!/nothing/here\n"), &p);
    assert_int_equal(p.kind, PROGRAM_MISSING);
    assert_string_equal(p.path, "/nothing/here");
    snprintf(content, sizeof content, "#!%s/loop\n", directory);
    kind(text("loop", content));
    elf("static", OURS, NULL);
    snprintf(content, sizeof content, "#!%s/static\n", directory);
    assert_int_equal(kind(text("indirect", content)), PROGRAM_STATIC);
}

static void privileges(void **state)
{
    const char *path = elf("setuid", OURS, "/lib64/ld-linux-x86-64.so.2");
    chmod(path, 04755);
    assert_int_equal(kind(path), PROGRAM_DYNAMIC); // ours already
    if (geteuid() != 0 || chown(path, 1234, 1234) || chmod(path, 04755))
        skip();
    assert_int_equal(kind(path), PROGRAM_PRIVILEGED);
}

static void search(void **state)
{
    char path[PATH_MAX];
    const char *had = getenv("PATH");
    char *keep = strdup(had ? had : "");
    text("found-by-kiln", "#!/bin/sh\n");
    file("denied-by-kiln", "x", 1, 0644);
    setenv("PATH", "/nothing", 1);
    assert_int_equal(program_find("found-by-kiln", path, sizeof path), ENOENT);
    char list[128];
    snprintf(list, sizeof list, "/nothing:%s", directory);
    setenv("PATH", list, 1);
    assert_int_equal(program_find("found-by-kiln", path, sizeof path), 0);
    assert_non_null(strstr(path, directory));
    assert_int_equal(program_find("denied-by-kiln", path, sizeof path), EACCES);
    assert_int_equal(program_find("", path, sizeof path), ENOENT);
    assert_int_equal(program_find("./x", path, sizeof path), 0);
    setenv("PATH", keep, 1);
    free(keep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds),
        cmocka_unit_test(scripts),
        cmocka_unit_test(privileges),
        cmocka_unit_test(search),
    };
    if (!mkdtemp(directory))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    static const char *const names[] = {"dynamic", "static",        "musl",          "other",
                                        "plain",   "empty",         "cut",           "secret",
                                        "script",  "lost",          "loop",          "indirect",
                                        "setuid",  "found-by-kiln", "denied-by-kiln"};
    char path[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        unlink(path);
    }
    rmdir(directory);
    return failed;
}
