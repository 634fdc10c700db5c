#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/config.h"

static struct err e;

static int set(struct config *c, const char *name, const char *value)
{
    const struct config_field *f = config_find(name);
    assert_non_null(f);
    return config_set(c, f, value, &e);
}

static const char *get(const struct config *c, const char *name)
{
    static char text[64];
    config_get(c, config_find(name), text, sizeof text);
    return text;
}

// What is written by hand in three places: the struct, the table, the default.
static void the_table_covers_the_struct(void **state)
{
    struct config c = config_default();
    static const size_t sizes[] = {[CONFIG_BOOL] = sizeof(bool),
                                   [CONFIG_INT] = sizeof(int),
                                   [CONFIG_DOUBLE] = sizeof(double),
                                   [CONFIG_STRING] = sizeof(char *),
                                   [CONFIG_CHOICE] = sizeof(char *)};
    bool covered[sizeof c] = {false};
    for (const struct config_field *f = config_fields; f->name; f++) {
        assert_true(f->offset < sizeof c);
        assert_ptr_equal(config_find(f->name), f);
        assert_true(f->choices ? f->kind == CONFIG_CHOICE : f->kind != CONFIG_CHOICE);
        if (f->kind == CONFIG_STRING || f->kind == CONFIG_CHOICE)
            assert_non_null(*(const char **)((char *)&c + f->offset));
        if (!f->choices) {
            assert_non_null(config_help(f->name));
            const char *line_end = strchr(config_help(f->name), '\n');
            assert_true(line_end && line_end != config_help(f->name));
        }
        // No two fields in one place.
        for (const struct config_field *g = config_fields; g < f; g++)
            assert_true(g->offset != f->offset && strcmp(g->name, f->name) != 0);
        memset(covered + f->offset, true, sizes[f->kind]);
    }
    // Padding is never a whole word; what is no field stands at the end.
    for (size_t i = 0; i < offsetof(struct config, tools); i += sizeof(void *))
        assert_non_null(memchr(covered + i, true, sizeof(void *)));
    for (const struct config_choice *choice = config_choices; choice->name; choice++) {
        const struct config_field *f = config_find(choice->name);
        assert_true(f && f->choices);
        assert_string_equal(config_help(choice->name), choice->help);
    }
    assert_null(config_find("nope"));
    assert_null(config_find(""));
    assert_null(config_help("nope"));
}

static void defaults_are_pprofs(void **state)
{
    struct config c = config_default();
    static const char *const want[][2] = {
        {"unit", "minimum"},       {"sort", "flat"},
        {"trim", "true"},          {"nodecount", "-1"},
        {"nodefraction", "0.005"}, {"edgefraction", "0.001"},
        {"divide_by", "1"},        {"focus", ""},
        {"granularity", ""},       {"call_tree", "false"},
        {"mean", "false"},         {"noinlines", "false"},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_string_equal(get(&c, want[i][0]), want[i][1]);
}

static void every_kind_is_set_and_got(void **state)
{
    struct config c = config_default();
    assert_int_equal(set(&c, "focus", "a b"), 0);
    assert_string_equal(c.focus, "a b");
    assert_string_equal(get(&c, "focus"), "a b");
    assert_int_equal(set(&c, "nodecount", "-12"), 0);
    assert_int_equal(c.node_count, -12);
    assert_string_equal(get(&c, "nodecount"), "-12");
    assert_int_equal(set(&c, "nodefraction", "1e-3"), 0);
    assert_true(c.node_fraction == 1e-3);
    assert_string_equal(get(&c, "nodefraction"), "0.001");
    assert_int_equal(set(&c, "trim", "no"), 0);
    assert_false(c.trim);
    assert_string_equal(get(&c, "trim"), "false");
    assert_int_equal(set(&c, "sort", "cum"), 0);
    assert_string_equal(c.sort, "cum");
}

static void mistakes_change_nothing(void **state)
{
    static const char *const wrong[][3] = {
        {"nodecount", "x", "invalid nodecount \"x\"; expected a whole number"},
        {"nodecount", "99999999999", "invalid nodecount \"99999999999\"; expected a whole number"},
        {"nodecount", "", "invalid nodecount \"\"; expected a whole number"},
        {"nodefraction", "x", "invalid nodefraction \"x\"; expected a number"},
        {"trim", "maybe", "illegal value \"maybe\" for bool variable"},
        {"sort", "up", "invalid \"sort\" value \"up\""},
        {"granularity", "", "invalid \"granularity\" value \"\""},
    };
    struct config c = config_default(), before = config_default();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(set(&c, wrong[i][0], wrong[i][1]), -1);
        assert_string_equal(e.message, wrong[i][2]);
        for (const struct config_field *f = config_fields; f->name; f++) {
            char was[64], is[64];
            config_get(&before, f, was, sizeof was);
            config_get(&c, f, is, sizeof is);
            assert_string_equal(was, is);
        }
    }
}

static void bools_are_many_words(void **state)
{
    static const char *const yes[] = {"true", "t", "yes", "y", "1", "TRUE", "Yes", ""};
    static const char *const no[] = {"false", "f", "no", "n", "0", "FALSE", "No"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        assert_int_equal(config_parse_bool(yes[i]), 1);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        assert_int_equal(config_parse_bool(no[i]), 0);
    assert_int_equal(config_parse_bool("2"), -1);
    assert_int_equal(config_parse_bool("truee"), -1);
    assert_int_equal(config_parse_bool(" true"), -1);
}

// A choice is set by its field's name, or is itself switched on.
static void names_in_urls_are_pprofs(void **state)
{
    static const char *const none[] = {"output", "source_path", "trim_path", "divide_by"};
    assert_string_equal(config_url_name(config_find("focus")), "f");
    assert_string_equal(config_url_name(config_find("granularity")), "g");
    assert_string_equal(config_url_name(config_find("sample_index")), "si");
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_null(config_url_name(config_find(none[i])));
    // None twice.
    for (const struct config_field *f = config_fields; f->name; f++)
        for (const struct config_field *g = f + 1; g->name; g++)
            if (config_url_name(f) && config_url_name(g))
                assert_string_not_equal(config_url_name(f), config_url_name(g));
}

static void choices_are_names(void **state)
{
    struct config c = config_default();
    assert_int_equal(config_assign(&c, "sort", "cum", &e), 0);
    assert_string_equal(c.sort, "cum");
    assert_int_equal(config_assign(&c, "flat", "true", &e), 0);
    assert_string_equal(c.sort, "flat");
    assert_int_equal(config_assign(&c, "lines", "1", &e), 0);
    assert_string_equal(c.granularity, "lines");
    assert_int_equal(config_assign(&c, "files", "false", &e), -1);
    assert_int_equal(config_assign(&c, "files", "", &e), -1);
    assert_string_equal(c.granularity, "lines");
    assert_int_equal(config_assign(&c, "nope", "1", &e), -1);
    assert_string_equal(e.message, "unknown config field \"nope\"");
    assert_ptr_equal(config_find("cum"), config_find("sort"));
}

static void texts_are_cut(void **state)
{
    struct config c = config_default();
    char text[4];
    set(&c, "focus", "abcdefgh");
    config_get(&c, config_find("focus"), text, sizeof text);
    assert_string_equal(text, "abc");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_covers_the_struct), cmocka_unit_test(defaults_are_pprofs),
        cmocka_unit_test(every_kind_is_set_and_got),   cmocka_unit_test(mistakes_change_nothing),
        cmocka_unit_test(bools_are_many_words),        cmocka_unit_test(choices_are_names),
        cmocka_unit_test(names_in_urls_are_pprofs),    cmocka_unit_test(texts_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
