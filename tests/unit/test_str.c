#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"

static void order_is_bytewise(void **state)
{
    assert_true(str_cmp(STR("a"), STR("b")) < 0);
    assert_true(str_cmp(STR("a"), STR("ab")) < 0);
    assert_true(str_cmp(STR("\xff"), STR("a")) > 0);
    assert_int_equal(str_cmp(STR(""), (struct str){NULL, 0}), 0);
    assert_true(str_eq(STR("x\0y"), STR("x\0y")));
    assert_false(str_eq(STR("x\0y"), STR("x\0z")));
}

static void finding(void **state)
{
    assert_int_equal(str_find(STR("abcabc"), STR("bc"), 0), 1);
    assert_int_equal(str_find(STR("abcabc"), STR("bc"), 2), 4);
    assert_int_equal(str_find(STR("abcabc"), STR("x"), 0), SIZE_MAX);
    assert_int_equal(str_find((struct str){NULL, 0}, STR("x"), 0), SIZE_MAX);
    assert_int_equal(str_find(STR("abc"), STR(""), 3), 3);
    assert_int_equal(str_find(STR("abc"), STR(""), 4), SIZE_MAX);
    assert_true(str_starts(STR("abc"), STR("ab")) && str_ends(STR("abc"), STR("bc")));
    assert_false(str_starts(STR("a"), STR("ab")) || str_ends(STR("c"), STR("bc")));
}

static void lines_and_trimming(void **state)
{
    struct str rest = STR("one\r\n\ntwo"), line;
    assert_true(str_next_line(&rest, &line) && str_eq(line, STR("one")));
    assert_true(str_next_line(&rest, &line) && line.n == 0);
    assert_true(str_next_line(&rest, &line) && str_eq(line, STR("two")));
    assert_false(str_next_line(&rest, &line));
    assert_true(str_eq(str_trim(STR(" \t a b\n")), STR("a b")));
    assert_int_equal(str_trim(STR(" \n ")).n, 0);
}

static void whole_numbers(void **state)
{
    int64_t i;
    uint64_t u;
    assert_true(str_to_i64(STR("-9223372036854775808"), &i) && i == INT64_MIN);
    assert_true(str_to_i64(STR("9223372036854775807"), &i) && i == INT64_MAX);
    assert_false(str_to_i64(STR("9223372036854775808"), &i));
    assert_false(str_to_i64(STR(""), &i) || str_to_i64(STR("-"), &i) || str_to_i64(STR("1x"), &i));
    assert_false(str_to_i64(STR(" 1"), &i) || str_to_i64(STR("1\0"), &i));
    assert_true(str_to_u64(STR("18446744073709551615"), 10, &u) && u == UINT64_MAX);
    assert_false(str_to_u64(STR("18446744073709551616"), 10, &u));
    assert_true(str_to_u64(STR("FFffFFffFFffFFff"), 16, &u) && u == UINT64_MAX);
    assert_false(str_to_u64(STR("10000000000000000"), 16, &u) || str_to_u64(STR("g"), 16, &u));
}

static void signs(void **state)
{
    int64_t i;
    uint64_t u;
    assert_true(str_to_i64(STR("+7"), &i) && i == 7);
    assert_true(str_to_i64(STR("-0"), &i) && i == 0);
    assert_false(str_to_i64(STR("--7"), &i) || str_to_i64(STR("+-7"), &i));
    assert_false(str_to_i64(STR("-9223372036854775809"), &i));
    assert_false(str_to_u64(STR("+7"), 10, &u) || str_to_u64(STR("-7"), 10, &u));
    assert_false(str_to_u64(STR("0x7"), 16, &u) || str_to_u64(STR("a"), 10, &u));
}

// A carriage return belongs to the line end only right before it.
static void odd_lines(void **state)
{
    struct str rest = STR("a\rb\r\r\n\r\n\n"), line;
    assert_true(str_next_line(&rest, &line) && str_eq(line, STR("a\rb\r")));
    assert_true(str_next_line(&rest, &line) && line.n == 0);
    assert_true(str_next_line(&rest, &line) && line.n == 0);
    assert_false(str_next_line(&rest, &line));
    rest = (struct str){NULL, 0};
    assert_false(str_next_line(&rest, &line));
}

static void fractions(void **state)
{
    double d;
    assert_true(str_to_double(STR("-1.5e3"), &d) && d == -1500);
    assert_true(str_to_double(STR(".5"), &d) && d == 0.5);
    char many[100] = "0.";
    memset(many + 2, '1', sizeof many - 2); // longer than any number that someone types
    assert_false(str_to_double((struct str){many, sizeof many}, &d));
    assert_false(str_to_double(STR(""), &d) || str_to_double(STR(" 1"), &d) ||
                 str_to_double(STR("1x"), &d) || str_to_double(STR("1\0"), &d));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_bytewise),
        cmocka_unit_test(finding),
        cmocka_unit_test(lines_and_trimming),
        cmocka_unit_test(whole_numbers),
        cmocka_unit_test(signs),
        cmocka_unit_test(odd_lines),
        cmocka_unit_test(fractions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
