#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
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

static void errors_are_set_cut_and_prefixed(void **state)
{
    struct err e;
    assert_int_equal(err_set(&e, "%s at byte %d", "bad", 7), -1);
    assert_int_equal(err_prefix(&e, "%s: ", "a.pb"), -1);
    assert_string_equal(e.message, "a.pb: bad at byte 7");
    char text[2000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    err_prefix(&e, "%s", text);
    assert_int_equal(strlen(e.message), sizeof e.message - 1);
    err_set(&e, "%s", text);
    assert_int_equal(strlen(e.message), sizeof e.message - 1);
    assert_int_equal(err_set(NULL, "ignored"), -1);
    assert_int_equal(err_prefix(NULL, "ignored"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_and_columns),
        cmocka_unit_test(memory_has_a_limit),
        cmocka_unit_test(a_file_gets_everything),
        cmocka_unit_test(the_first_failure_is_reported),
        cmocka_unit_test(errors_are_set_cut_and_prefixed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
