#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/suggest.h"

static const char *const candidates[] = {"top",   "tree",      "list", "flame", "server", "run",
                                         "leaks", "listen",    "sort", "flip",  "help",   "focus",
                                         "clock", "symbolize", "diff", "merge", "dot",    NULL};

static const char *suggested(struct suggestion s)
{
    static char best[64];
    for (const char *const *c = candidates; *c; c++)
        suggest_try(&s, *c);
    memcpy(best, s.best, sizeof best);
    return best;
}

#define COMMAND(word) suggested(suggest_command(STR(word)))
#define OPTION(word) suggested(suggest_option(STR(word)))

static void few_edits(void **state)
{
    assert_string_equal(COMMAND("tpo"), "top");
    assert_string_equal(COMMAND("toop"), "top");
    assert_string_equal(COMMAND("flmae"), "flame");
    assert_string_equal(COMMAND("otp"), "top");
    assert_string_equal(OPTION("fokus"), "focus");
    assert_string_equal(OPTION("clok"), "clock");
    assert_string_equal(OPTION("hlep"), "help");
}

// Other words of the same length, or with another first letter, are not meant.
static void nothing_similar(void **state)
{
    assert_string_equal(COMMAND("foo"), "");
    assert_string_equal(COMMAND("host"), "");
    assert_string_equal(COMMAND("xyzzyplugh"), "");
    assert_string_equal(OPTION("pot"), "");
    assert_string_equal(COMMAND(""), "");
    assert_string_equal(suggested(suggest_command(STR("a very long word, longer than all that kiln "
                                                      "knows, and longer than the table"))),
                        "");
}

static void synonyms_come_first(void **state)
{
    assert_string_equal(OPTION("port"), "listen");
    assert_string_equal(COMMAND("record"), "run");
    assert_string_equal(COMMAND("compare"), "diff");
}

static void beginnings_of_words(void **state)
{
    assert_string_equal(COMMAND("symb"), "symbolize");
    assert_string_equal(COMMAND("flamegraph"), "flame");
    assert_string_equal(COMMAND("fl"), ""); // too short
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_edits),
        cmocka_unit_test(nothing_similar),
        cmocka_unit_test(synonyms_come_first),
        cmocka_unit_test(beginnings_of_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
