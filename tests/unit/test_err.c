#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"

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

// The first sentence stays whole when there is room for it, and its front when not.
static void the_prefix_wins_over_the_end(void **state)
{
    struct err e;
    char text[sizeof e.message - 3];
    memset(text, 'y', sizeof text);
    text[sizeof text - 1] = '\0';
    err_set(&e, "%s", text);
    err_prefix(&e, "%s", "abcdef: ");
    assert_int_equal(strlen(e.message), sizeof e.message - 1);
    assert_int_equal(strncmp(e.message, "abcdef: yyy", 11), 0);
}

// The message may be made of itself.
static void a_message_is_data_not_a_format(void **state)
{
    struct err e;
    err_set(&e, "%s", "100%s %n");
    err_prefix(&e, "%s: ", "%d");
    assert_string_equal(e.message, "%d: 100%s %n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_set_cut_and_prefixed),
        cmocka_unit_test(the_prefix_wins_over_the_end),
        cmocka_unit_test(a_message_is_data_not_a_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
