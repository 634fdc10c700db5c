// Where sources are found, and what their lines are.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "report/source_file.h"
#include "arena_fixture.h"

static char dir[] = "/tmp/kiln-source-XXXXXX";

static void put(const char *name, const char *text, size_t n)
{
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    fwrite(text, 1, n, file);
    fclose(file);
}

static int enter(void **state)
{
    if (make_arena(state) || !mkdtemp(dir) || chdir(dir) || mkdir("project", 0755) ||
        mkdir("project/sub", 0755))
        return -1;
    unsetenv("PWD");
    put("top.c", "one\ntwo\r\n\nfour", 14);
    put("project/a.c", "a\n", 2);
    put("project/sub/b.c", "b\n", 2);
    return 0;
}

static int leave(void **state)
{
    static const char *const files[] = {"top.c",   "project/a.c", "project/sub/b.c",
                                        "exact.c", "longer.c",    "over.c"};
    free_arena(state);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (unlink(files[i]))
            return -1;
    return rmdir("project/sub") || rmdir("project") || chdir("/") || rmdir(dir);
}

static bool line_is(struct source_files *f, const char *path, int64_t n, const char *text)
{
    struct str line;
    if (!source_files_line(f, str_from(path), n, &line))
        return text == NULL;
    return text && str_eq(line, str_from(text));
}

static void lines(void **state)
{
    struct source_files *f = source_files_new(arena, STR(""), STR(""));
    assert_true(line_is(f, "top.c", 1, "one"));
    assert_true(line_is(f, "top.c", 2, "two"));
    assert_true(line_is(f, "top.c", 3, ""));
    assert_true(line_is(f, "top.c", 4, "four"));
    assert_true(line_is(f, "top.c", 5, NULL));
    assert_true(line_is(f, "top.c", 0, NULL));
    assert_true(line_is(f, "top.c", -1, NULL));
    assert_true(line_is(f, "top.c", INT64_MAX, NULL));
    assert_null(source_files_error(f, STR("top.c")));
    // A directory opens, and has no lines.
    assert_true(line_is(f, "project", 1, NULL));
    assert_null(source_files_error(f, STR("project")));
}

static void long_lines_end_a_file(void **state)
{
    char *text = malloc(200000);
    memset(text, 'x', 200000);
    text[1] = text[3 + 65535 - 1] = '\n';
    put("exact.c", text, 3 + 65535);
    put("longer.c", text, 150000);
    text[3 + 65535 - 1] = 'x';
    text[2 + 65536] = '\n';
    put("over.c", text, 2 + 65536 + 3);
    free(text);
    struct source_files *f = source_files_new(arena, STR(""), STR(""));
    struct str line;
    assert_true(source_files_line(f, STR("exact.c"), 2, &line) && line.n == 65535);
    assert_true(line_is(f, "over.c", 1, "x"));
    assert_true(line_is(f, "over.c", 2, NULL));
    assert_true(source_files_line(f, STR("longer.c"), 2, &line) && line.n == 65535);
    assert_true(line_is(f, "longer.c", 3, NULL));
}

static void places(void **state)
{
    struct source_files *f = source_files_new(arena, STR("nowhere:project/sub"), STR(""));
    assert_true(line_is(f, "b.c", 1, "b"));
    assert_true(line_is(f, "a.c", 1, "a"));       // above
    assert_true(line_is(f, "sub/b.c", 1, "b"));   // above
    assert_true(line_is(f, "./top.c", 1, "one")); // further above: the current directory
    assert_true(line_is(f, "x/../top.c", 1, "one"));
    assert_true(line_is(f, "/build/sub/b.c", 1, "b")); // up to the name of a search directory
    assert_null(source_files_error(f, STR("none.c")));
    assert_true(line_is(f, "none.c", 1, NULL));
    assert_true(line_is(f, "/none/none.c", 1, NULL));
    assert_string_equal(source_files_error(f, STR("none.c")),
                        "could not find file none.c on path nowhere:project/sub");
    assert_string_equal(source_files_error(f, STR("/none/none.c")),
                        "open /none/none.c: no such file or directory");

    f = source_files_new(arena, STR("project"), STR("/build/:/other"));
    assert_true(line_is(f, "/build/a.c", 1, "a"));
    assert_true(line_is(f, "/other/sub/b.c", 1, "b"));
    assert_true(line_is(f, "/proc/self/cwd/./a.c", 1, "a"));
    assert_true(line_is(f, "/others/a.c", 1, NULL));

    char path[100];
    snprintf(path, sizeof path, "%s/project/a.c", dir);
    f = source_files_new(arena, STR("project/sub"), STR("x"));
    assert_true(line_is(f, path, 1, "a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines),
        cmocka_unit_test(long_lines_end_a_file),
        cmocka_unit_test(places),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
