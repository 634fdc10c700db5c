#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/flags.h"

static bool flag_b;
static int flag_i;
static double flag_d;
static const char *flag_s;

static const struct flag flags[] = {
    {"b", FLAG_BOOL, &flag_b, "a bool"},
    {"int", FLAG_INT, &flag_i, "an int"},
    {"d", FLAG_DOUBLE, &flag_d, "a double"},
    {"s", FLAG_STRING, &flag_s, "a string"},
};

static int n_rest;
static char *arguments[16];
static struct err e;

static const char *command; // whose messages; NULL: google/pprof's

static int parse(const char *const *argv)
{
    int argc = 0;
    for (; argv[argc]; argc++)
        arguments[argc] = (char *)argv[argc];
    flag_b = false;
    flag_i = 0;
    flag_d = 0;
    flag_s = "";
    n_rest = -1;
    e.message[0] = '\0';
    return flags_parse(command, flags, sizeof flags / sizeof *flags, argc, arguments, &n_rest, &e);
}

#define PARSE(...) parse((const char *const[]){"prog", __VA_ARGS__, NULL})

static void values_follow_a_sign_or_stand_alone(void **state)
{
    assert_int_equal(PARSE("-b", "-int=7", "--d", "2.5", "-s", "-x", "rest"), 0);
    assert_true(flag_b);
    assert_int_equal(flag_i, 7);
    assert_true(flag_d == 2.5);
    assert_string_equal(flag_s, "-x"); // whatever follows is the value
    assert_int_equal(n_rest, 1);
    assert_string_equal(arguments[1], "rest");
    assert_int_equal(PARSE("--s=a=b", "-s="), 0);
    assert_string_equal(flag_s, ""); // the last one wins
    assert_int_equal(PARSE("-s=a=b"), 0);
    assert_string_equal(flag_s, "a=b");
    assert_int_equal(PARSE("-int", "-5"), 0);
    assert_int_equal(flag_i, -5);
}

// A bool never takes the next argument.
static void bools(void **state)
{
    static const char *const yes[] = {"-b",      "-b=1",    "-b=t",   "-b=T",
                                      "-b=true", "-b=TRUE", "-b=True"};
    static const char *const no[] = {"-b=0", "-b=f", "-b=F", "-b=false", "-b=FALSE", "-b=False"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        assert_true(PARSE(yes[i]) == 0 && flag_b);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        assert_true(PARSE("-b", no[i]) == 0 && !flag_b);
    assert_int_equal(PARSE("-b", "false"), 0);
    assert_true(flag_b && n_rest == 1);
    assert_int_equal(PARSE("-b=yes"), -1);
    assert_string_equal(e.message, "invalid boolean value \"yes\" for -b: parse error");
}

static void the_first_other_argument_ends_them(void **state)
{
    assert_int_equal(PARSE("-b", "file", "-int=7"), 0);
    assert_int_equal(n_rest, 2);
    assert_string_equal(arguments[1], "file");
    assert_string_equal(arguments[2], "-int=7");
    assert_int_equal(flag_i, 0);
    assert_int_equal(PARSE("-", "-b"), 0); // standard input is no flag
    assert_int_equal(n_rest, 2);
    assert_false(flag_b);
    assert_int_equal(PARSE("--", "-b"), 0);
    assert_int_equal(n_rest, 1);
    assert_string_equal(arguments[1], "-b");
}

static void mistakes_are_named(void **state)
{
    static const struct {
        const char *arguments[3], *want;
    } cases[] = {
        {{"-nope"}, "flag provided but not defined: -nope"},
        {{"--nope=3"}, "flag provided but not defined: -nope"},
        {{"---b"}, "bad flag syntax: ---b"},
        {{"-=b"}, "bad flag syntax: -=b"},
        {{"--=b"}, "bad flag syntax: --=b"},
        {{"-s"}, "flag needs an argument: -s"},
        {{"-b", "-int"}, "flag needs an argument: -int"},
        {{"-int=x"}, "invalid value \"x\" for flag -int: parse error"},
        {{"-int="}, "invalid value \"\" for flag -int: parse error"},
        {{"-int=3.5"}, "invalid value \"3.5\" for flag -int: parse error"},
        {{"-int=99999999999"}, "invalid value \"99999999999\" for flag -int: parse error"},
        {{"-d", "x"}, "invalid value \"x\" for flag -d: parse error"},
        {{"-b="}, "invalid boolean value \"\" for -b: parse error"},
        {{"-i"}, "flag provided but not defined: -i"}, // no abbreviations
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(PARSE(cases[i].arguments[0], cases[i].arguments[1]), -1);
        assert_string_equal(e.message, cases[i].want);
    }
}

static void kiln_has_its_own_words(void **state)
{
    static const struct {
        const char *arguments[3], *want;
    } cases[] = {
        {{"--clok=3"}, "unknown option --clok; did you mean --clock?"},
        {{"-nope"}, "unknown option -nope; see `kiln run --help`"},
        {{"---b"}, "unknown option ---b; see `kiln run --help`"},
        {{"-s"}, "-s needs a value; see `kiln run --help`"},
        {{"-b", "--int"}, "--int needs a value; see `kiln run --help`"},
        {{"-int=x"}, "invalid --int \"x\"; expected a whole number"},
        {{"-d", "x"}, "invalid -d \"x\"; expected a number"},
        {{"-b="}, "invalid -b \"\"; expected true or false"},
    };
    command = "run";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(PARSE(cases[i].arguments[0], cases[i].arguments[1]), -1);
        assert_string_equal(e.message, cases[i].want);
    }
    command = NULL;
}

static void help_is_no_mistake(void **state)
{
    assert_int_equal(PARSE("-h"), 1);
    assert_int_equal(PARSE("--help"), 1);
    assert_int_equal(PARSE("file", "-help"), 0);
    // Unless there is a flag of that name.
    bool h = false;
    const struct flag own = {"h", FLAG_BOOL, &h, ""};
    char *argv[] = {"prog", "-h", NULL};
    assert_int_equal(flags_parse(NULL, &own, 1, 2, argv, &n_rest, &e), 0);
    assert_true(h);
}

static void nothing_at_all(void **state)
{
    char *argv[] = {"prog", NULL};
    assert_int_equal(flags_parse(NULL, flags, 4, 1, argv, &n_rest, &e), 0);
    assert_int_equal(n_rest, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_follow_a_sign_or_stand_alone),
        cmocka_unit_test(bools),
        cmocka_unit_test(the_first_other_argument_ends_them),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(kiln_has_its_own_words),
        cmocka_unit_test(help_is_no_mistake),
        cmocka_unit_test(nothing_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
