#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "codec/scan.h"

static void trimming_knows_unicode(void **state)
{
    assert_true(str_eq(scan_trim(STR(" \t\v\f\r\na b \n")), STR("a b")));
    assert_true(str_eq(scan_trim(STR("\xc2\xa0x\xe2\x80\x89\xe3\x80\x80\xc2\x85")), STR("x")));
    assert_true(str_eq(scan_trim(STR("\xa0x\x80")), STR("\xa0x\x80")));
    assert_int_equal(scan_trim(STR(" \xc2\xa0 ")).n, 0);
    assert_true(scan_is_blank_or_comment(STR("  # x")) && scan_is_blank_or_comment(STR("\t")));
    assert_false(scan_is_blank_or_comment(STR("x # y")));
    // A regular expression's white space has no vertical tab.
    assert_false(scan_is_space('\v'));
    assert_true(scan_is_space('\f'));
}

static void integer(const char *text, int64_t want)
{
    int64_t got;
    if (!scan_int(str_from(text), &got))
        fail_msg("%s is not read", text);
    assert_int_equal(got, want);
}

static void integers_have_prefixes(void **state)
{
    integer("0", 0);
    integer("-12", -12);
    integer("+12", 12);
    integer("010", 8);
    integer("0x1F", 31);
    integer("0o17", 15);
    integer("0B101", 5);
    integer("1_000", 1000);
    integer("0_1", 1);
    integer("0x_f", 15);
    integer("-9223372036854775808", INT64_MIN);
    integer("0x7fffffffffffffff", INT64_MAX);
    const char *bad[] = {"",   "-",   "08",  "0x",  "1__0", "_1",
                         "1_", "12a", "0b2", "0xg", " 1",   "9223372036854775808"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t got;
        if (scan_int(str_from(bad[i]), &got))
            fail_msg("%s is read as %lld", bad[i], (long long)got);
    }
}

static void floats_to_integers(void **state)
{
    int64_t got;
    assert_int_equal(scan_truncate(-1.9), -1);
    assert_int_equal(scan_truncate(0x1p63), INT64_MIN);
    assert_int_equal(scan_truncate(-0x1p63), INT64_MIN);
    assert_int_equal(scan_truncate(NAN), INT64_MIN);
    assert_int_equal(scan_truncate(0x1.fffffffffffffp62), 0x7ffffffffffffc00);
    assert_true(scan_round(2.5, &got) && got == 3);
    assert_false(scan_round(NAN, &got) || scan_round(INFINITY, &got) || scan_round(0x1p63, &got));
}

static void addresses_in_text(void **state)
{
    struct str rest = STR("x 0x 0x1f: f 00x2 0xG 0x0x3 0xABC 0x11112222333344445");
    uint64_t a;
    assert_int_equal(scan_address(&rest, &a), 1);
    assert_int_equal(a, 0x1f);
    assert_int_equal(scan_address(&rest, &a), 1);
    assert_int_equal(a, 2);
    // Of 0x0x3 only the first is an address; upper-case digits are none.
    assert_int_equal(scan_address(&rest, &a), 1);
    assert_int_equal(a, 0);
    assert_int_equal(scan_address(&rest, &a), -1);
    assert_int_equal(scan_address(&rest, &a), 0);
}

static void base_names(void **state)
{
    assert_true(str_eq(scan_basename(STR("/a/b.so")), STR("b.so")));
    assert_true(str_eq(scan_basename(STR("b.so//")), STR("b.so")));
    assert_true(str_eq(scan_basename(STR("//")), STR("/")));
    assert_true(str_eq(scan_basename(STR("")), STR(".")));
}

static void quotes_are_short_and_clean(void **state)
{
    char text[300];
    memset(text, 'x', sizeof text);
    text[1] = '\x1b';
    struct scan_quote q = scan_quote((struct str){text, sizeof text});
    assert_true(strlen(q.text) < sizeof q.text && strncmp(q.text, "x?xx", 4) == 0);
    assert_non_null(strstr(q.text, "x..."));
    assert_string_equal(scan_quote(STR("a\nb")).text, "a?b");
    assert_string_equal(scan_quote(STR("")).text, "");
}

static void lines_end_empty(void **state)
{
    struct scan_lines lines = {.rest = STR("a\r\r\nb")};
    assert_true(scan_next(&lines) && str_eq(lines.line, STR("a\r")) && lines.number == 1);
    assert_true(scan_next(&lines) && str_eq(lines.line, STR("b")) && lines.number == 2);
    assert_false(scan_next(&lines));
    assert_true(lines.line.n == 0 && lines.line.p);
    assert_false(scan_next(&lines));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trimming_knows_unicode),
        cmocka_unit_test(integers_have_prefixes),
        cmocka_unit_test(floats_to_integers),
        cmocka_unit_test(addresses_in_text),
        cmocka_unit_test(base_names),
        cmocka_unit_test(quotes_are_short_and_clean),
        cmocka_unit_test(lines_end_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
