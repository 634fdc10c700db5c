#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/out.h"

static void numbers_and_columns(void **state)
{
    struct out out;
    out_init_memory(&out, 1 << 20);
    out_u64(&out, UINT64_MAX);
    out_char(&out, ' ');
    out_i64(&out, INT64_MIN);
    out_char(&out, '|');
    out_right(&out, STR("\xc3\xa9t\xc3\xa9"), 5); // three characters in five bytes
    out_char(&out, '|');
    out_right(&out, STR("too long"), 3);
    out_spaces(&out, 2);
    out_printf(&out, "%s%d", "x", 7);
    struct err e;
    assert_int_equal(out_finish(&out, &e), 0);
    const char *want = "18446744073709551615 -9223372036854775808|  \xc3\xa9t\xc3\xa9|too long  x7";
    assert_int_equal(out.n, strlen(want));
    assert_memory_equal(out.p, want, out.n);
    out_fini(&out);
}

static void memory_has_a_limit(void **state)
{
    struct out out;
    struct err e = {.message = ""};
    out_init_memory(&out, 10000);
    for (int i = 0; i < 1000; i++)
        out_text(&out, "twenty bytes of text");
    assert_int_equal(out_finish(&out, &e), -1);
    assert_true(e.message[0] != '\0' && out.n <= 10000);
    out_fini(&out);
}

static void a_bad_descriptor_is_told(void **state)
{
    for (int fd = -2; fd < 0; fd++) {
        struct out out;
        struct err e = {.message = ""};
        out_init_fd(&out, fd);
        out_text(&out, "text");
        assert_int_equal(out_finish(&out, &e), -1);
        assert_string_equal(e.message, "writing output: Bad file descriptor");
        out_fini(&out);
    }
}

// A write that does not fit the buffer, and a reader that takes everything.
static void a_file_gets_everything(void **state)
{
    char name[] = "/tmp/kiln-test-XXXXXX";
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    struct out out;
    struct err e;
    out_init_fd(&out, fd);
    static char block[300000];
    memset(block, 'x', sizeof block);
    for (int i = 0; i < 5; i++) {
        out_write(&out, block, sizeof block);
        out_char(&out, '\n');
    }
    assert_int_equal(out_finish(&out, &e), 0);
    out_fini(&out);
    assert_int_equal(lseek(fd, 0, SEEK_END), 5 * (sizeof block + 1));
    close(fd);
    unlink(name);
}

static void the_first_failure_is_reported(void **state)
{
    int fd = open("/dev/full", O_WRONLY);
    if (fd < 0)
        skip();
    struct out out;
    struct err e = {.message = ""};
    out_init_fd(&out, fd);
    for (int i = 0; i < 100000; i++)
        out_text(&out, "some text");
    assert_int_equal(out_finish(&out, &e), -1);
    assert_non_null(strstr(e.message, "No space"));
    out_fini(&out);
    close(fd);
}

static void nothing(int signal)
{
}

// A pipe that is read slowly, and a timer that breaks off each write to it: what is written is
// neither lost nor written twice.
static void short_writes_are_continued(void **state)
{
    enum { SIZE = 3 << 20 };
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct out out;
        struct sigaction action = {.sa_handler = nothing}; // without SA_RESTART
        struct itimerval often = {{0, 300}, {0, 300}};
        close(ends[0]);
        out_init_fd(&out, ends[1]);
        sigaction(SIGALRM, &action, NULL);
        setitimer(ITIMER_REAL, &often, NULL);
        for (uint32_t i = 0; i < SIZE / 4; i++)
            out_write(&out, &i, sizeof i);
        _exit(out_finish(&out, NULL) ? 1 : 0);
    }
    close(ends[1]);
    uint32_t next = 0, word, have = 0;
    unsigned char block[1777], *bytes = (unsigned char *)&word;
    for (ssize_t n; (n = read(ends[0], block, sizeof block)) > 0;) {
        for (ssize_t i = 0; i < n; i++) {
            bytes[have++] = block[i];
            if (have == 4) {
                assert_int_equal(word, next++);
                have = 0;
            }
        }
    }
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(next, SIZE / 4);
}

// Even what fits the buffer is found out about at the end, and once.
static void a_full_disk_is_met_at_the_end(void **state)
{
    int fd = open("/dev/full", O_WRONLY);
    if (fd < 0)
        skip();
    struct out out;
    struct err e = {.message = ""};
    out_init_fd(&out, fd);
    out_text(&out, "x");
    assert_int_equal(out.error, 0);
    assert_int_equal(out_finish(&out, &e), -1);
    assert_string_equal(e.message, "writing output: No space left on device");
    out_fini(&out);
    close(fd);
}

static void a_closed_descriptor_is_reported(void **state)
{
    static char block[1 << 20];
    struct out out;
    struct err e = {.message = ""};
    out_init_fd(&out, 1000000);
    out_write(&out, block, sizeof block);
    out_text(&out, "after it failed");
    assert_int_equal(out_finish(&out, &e), -1);
    assert_non_null(strstr(e.message, "Bad file descriptor"));
    out_fini(&out);
}

// What is longer than the first buffer on the stack.
static void long_formats(void **state)
{
    struct out out;
    char text[3000];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    out_init_memory(&out, 1 << 20);
    out_printf(&out, "%s|%s", text, text);
    assert_int_equal(out.n, 2 * (sizeof text - 1) + 1);
    assert_int_equal(out.p[sizeof text - 1], '|');
    assert_int_equal(out.p[out.n - 1], 'a');
    out_fini(&out);
}

static void columns_are_characters(void **state)
{
    static const struct {
        struct str s;
        size_t width;
        const char *want;
    } cases[] = {
        {STR(""), 3, "   "},
        {STR("abc"), 3, "abc"},
        {STR("\xce\xbcs"), 4, "  \xce\xbcs"},              // two bytes, one column
        {STR("\xe2\x82\xac"), 2, " \xe2\x82\xac"},         // three
        {STR("\xf0\x9f\x98\x80"), 2, " \xf0\x9f\x98\x80"}, // four
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct out out;
        out_init_memory(&out, 1000);
        out_right(&out, cases[i].s, cases[i].width);
        out_char(&out, '\0');
        assert_string_equal(out.p, cases[i].want);
        out_fini(&out);
    }
}

static void many_spaces(void **state)
{
    struct out out;
    out_init_memory(&out, 10000);
    out_spaces(&out, 0);
    assert_int_equal(out.n, 0);
    out_spaces(&out, 1000);
    assert_int_equal(out.n, 1000);
    for (size_t i = 0; i < out.n; i++)
        assert_int_equal(out.p[i], ' ');
    out_fini(&out);
}

// Megabytes end with the deadline; a message that it has passed can be written.
static void a_budget_ends_long_output(void **state)
{
    struct budget budget = {.cancelled = true};
    struct out out;
    out_init_budget(&out, 1 << 30, &budget);
    out_spaces(&out, 4000);
    assert_int_equal(out.error, 0);
    for (int i = 0; i < 64 && !out.error; i++)
        out_spaces(&out, 1 << 20);
    assert_int_equal(out.error, ECANCELED);
    assert_true(out.n < 8 << 20);
    out.error = 0;
    out.n = 0;
    out_text(&out, "the deadline has passed");
    assert_int_equal(out.error, 0);
    out_trim(&out);
    assert_int_equal(out.cap, out.n);
    assert_int_equal(budget.account.held, out.n);
    out_fini(&out);
    assert_int_equal(budget.account.held, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_and_columns),
        cmocka_unit_test(memory_has_a_limit),
        cmocka_unit_test(a_bad_descriptor_is_told),
        cmocka_unit_test(a_file_gets_everything),
        cmocka_unit_test(the_first_failure_is_reported),
        cmocka_unit_test(short_writes_are_continued),
        cmocka_unit_test(a_full_disk_is_met_at_the_end),
        cmocka_unit_test(a_closed_descriptor_is_reported),
        cmocka_unit_test(long_formats),
        cmocka_unit_test(columns_are_characters),
        cmocka_unit_test(many_spaces),
        cmocka_unit_test(a_budget_ends_long_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
