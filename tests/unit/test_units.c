#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "model/units.h"

// The expected texts are google/pprof's.

static void shares(void **state)
{
    static const struct {
        int64_t value, total;
        const char *want;
    } cases[] = {
        {0, 0, "    0%"},
        {5, 0, "    0%"},
        {0, 5, "    0%"},
        {1, 1, "  100%"},
        {9995, 10000, "  100%"},
        {99949, 100000, "99.95%"},
        {99950, 100000, "  100%"},
        {10005, 10000, "  100%"},
        {100050, 100000, "  100%"},
        {100051, 100000, "100.05%"},
        {1, 100, " 1.00%"},
        {9999, 1000000, "    1%"},
        {99999, 10000000, "    1%"},
        {1, 1000, "  0.1%"},
        {12, 100000, "0.012%"},
        {123456, 100000000, " 0.12%"},
        {1, INT64_MAX, "1.1e-17%"},
        {-1, 4, "25.00%"},
        {1, -4, "25.00%"},
        {123, 4, "3075.00%"},
        {INT64_MIN, 1, "922337203685477580800.00%"},
        {INT64_MAX, 1, "922337203685477580800.00%"},
        {1, 3, "33.33%"},
        {2, 3, "66.67%"},
        {996, 100000, "    1%"},
        {995, 100000, "    1%"},
        {1, 1000000000, "1e-07%"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        size_t n = units_percentage(text, sizeof text, cases[i].value, cases[i].total);
        if (strcmp(text, cases[i].want) != 0)
            fail_msg("%lld of %lld: `%s`, not `%s`", (long long)cases[i].value,
                     (long long)cases[i].total, text, cases[i].want);
        assert_int_equal(n, strlen(text));
    }
}

static void labels(void **state)
{
    static const struct {
        int64_t value;
        const char *from, *to, *want;
    } cases[] = {
        {0, "ns", "ms", "0"},
        {1, "ns", "s", "0"},
        {1500000, "ns", "ms", "1.50ms"},
        {1500000, "nanoseconds", "minimum", "1.50ms"},
        {999, "ns", "auto", "999ns"},
        {1000, "ns", "auto", "1us"},
        {3600000000000, "ns", "auto", "1hrs"},
        {86400, "s", "auto", "24hrs"},
        {90, "seconds", "minutes", "90s"},
        {2, "hrs", "s", "7200s"},
        {2, "hours", "s", "7200s"},
        {1024, "bytes", "auto", "1kB"},
        {1023, "bytes", "auto", "1023B"},
        {1536, "B", "kb", "1.50kB"},
        {1099511627776, "bytes", "minimum", "1TB"},
        {1125899906842624, "byte", "auto", "1PB"},
        {1152921504606846976, "b", "auto", "1024PB"},
        {5, "kilobytes", "bytes", "5120B"},
        {5, "MB", "kB", "5120kB"},
        {5, "Mbyte", "B", "5242880B"},
        {5, "count", "count", "5"},
        {5, "count", "auto", "5"},
        {5, "samples", "samples", "5samples"},
        {5, "objects", "minimum", "5"},
        {5, "objects", "things", "5things"},
        {5, "", "", "5"},
        {5, "sample", "sample", "5"},
        {5, "x", "unit", "5"},
        {-1500, "us", "ms", "-1.50ms"},
        {-1, "ns", "s", "0"},
        {INT64_MIN, "ns", "auto", "-9223372036.85s"},
        {INT64_MAX, "ns", "s", "9223372036.85s"},
        {INT64_MAX, "count", "count", "9223372036854775808"},
        {INT64_MIN, "count", "count", "-9223372036854775808"},
        {5, "ns", "kb", "0"},
        {5, "bytes", "seconds", "5B"},
        {1000, "milliGCU", "auto", "1GCU"},
        {1500, "GCU", "auto", "1.50k*GCU"},
        {3, "kilogcus", "gcu", "3000GCU"},
        {5, "s", "ns", "5000000000ns"},
        {100, "us", "us", "100us"},
        {1, "sec", "ms", "1000ms"},
        {10, "ms", "seconds", "0.01s"},
        {4, "ss", "auto", "4"},
        {2147483648, "count", "auto", "2147483648"},
        {123456, "ms", "s", "123.46s"},
        {1005, "ms", "s", "1s"},
        {1004, "ms", "s", "1s"},
        {4, "usec", "ns", "4ns"},
        {4, "microseconds", "ns", "4000ns"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        size_t n = units_label(text, sizeof text, cases[i].value, str_from(cases[i].from),
                               str_from(cases[i].to));
        if (strcmp(text, cases[i].want) != 0)
            fail_msg("%lld %s in %s: `%s`, not `%s`", (long long)cases[i].value, cases[i].from,
                     cases[i].to, text, cases[i].want);
        assert_int_equal(n, strlen(text));
    }
}

static void amounts(void **state)
{
    static const struct {
        double value;
        const char *unit, *want;
        bool sign;
    } cases[] = {
        {0.3101, "cores", "+0.31 cores", true},
        {-0.5, "cores", "-0.5 cores", true},
        {0.0493, "share", "4.93%", false},
        {1 << 20, "bytes", "1MB", false},
        {-2048, "bytes/s", "-2kB/s", true},
        {1.6, "count", "+2", true},
        {0, "bytes/s", "0/s", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64], small[5];
        size_t n =
            units_amount(text, sizeof text, cases[i].value, str_from(cases[i].unit), cases[i].sign);
        assert_string_equal(text, cases[i].want);
        assert_int_equal(n, strlen(text));
        n = units_amount(small, sizeof small, cases[i].value, str_from(cases[i].unit),
                         cases[i].sign);
        assert_int_equal(n, strlen(small));
    }
}

static void texts_are_cut(void **state)
{
    char text[8];
    assert_int_equal(units_label(text, 4, 123456, STR("ms"), STR("s")), 3);
    assert_string_equal(text, "123");
    assert_int_equal(units_label(text, sizeof text, 1, STR("x"), STR("a very long unit")), 7);
    assert_string_equal(text, "1a very");
    assert_int_equal(units_percentage(text, 4, 1, 1), 3);
    assert_string_equal(text, "  1");
}

static void scaling(void **state)
{
    struct str unit;
    assert_true(units_scale(1500, STR("ms"), STR("s"), &unit) == 1.5);
    assert_true(str_eq(unit, STR("s")));
    assert_true(units_scale(-1500, STR("ms"), STR("s"), &unit) == -1.5);
    assert_true(units_scale(1, STR("s"), STR("ns"), NULL) == 1e9);
    assert_true(units_scale(5, STR("widgets"), STR("gadgets"), &unit) == 5);
    assert_true(str_eq(unit, STR("gadgets")));
    // A unit of another quantity, or of none, stands for the standard one.
    assert_true(units_scale(5000, STR("ms"), STR("kb"), &unit) == 5);
    assert_true(str_eq(unit, STR("s")));
    assert_true(units_scale(0, STR("ms"), STR("auto"), &unit) == 0);
    assert_true(str_eq(unit, STR("s")));
    // Names longer than any unit.
    assert_true(units_scale(1, STR("nanosecondsnanoseconds"), STR("s"), NULL) == 1);
}

static void compatibility(void **state)
{
    assert_true(units_compatible(STR("ns"), STR("hours")));
    assert_true(units_compatible(STR("B"), STR("megabytes")));
    assert_true(units_compatible(STR("frogs"), STR("frogs")));
    assert_true(units_compatible(STR(""), STR("")));
    assert_false(units_compatible(STR("ns"), STR("bytes")));
    assert_false(units_compatible(STR("frogs"), STR("toads")));
    assert_false(units_compatible(STR("ns"), STR("")));
    assert_false(units_compatible(STR("count"), STR("ns")));
}

static void arithmetic_wraps(void **state)
{
    assert_true(units_abs(INT64_MIN) == INT64_MIN);
    assert_true(units_abs(-5) == 5 && units_abs(5) == 5);
    assert_true(units_add(INT64_MAX, 1) == INT64_MIN);
    assert_true(units_mul(INT64_MAX, 2) == -2);
    assert_true(units_div(INT64_MIN, -1) == INT64_MIN);
    assert_true(units_div(-7, 2) == -3 && units_div(7, -1) == -7);
    assert_true(units_truncate(-1.9) == -1 && units_truncate(1.9) == 1);
    assert_true(units_round(1e300) == INT64_MAX && units_round(-1e300) == INT64_MIN);
    assert_true(units_round(NAN) == 0 && units_round(1.5) == 2 && units_round(-1.5) == -2);
    assert_true(units_truncate(NAN) == INT64_MIN && units_truncate(INFINITY) == INT64_MIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares),           cmocka_unit_test(labels),
        cmocka_unit_test(amounts),          cmocka_unit_test(texts_are_cut),
        cmocka_unit_test(scaling),          cmocka_unit_test(compatibility),
        cmocka_unit_test(arithmetic_wraps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
