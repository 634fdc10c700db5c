#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/regex.h"
#include "arena_fixture.h"

enum { NO_MATCH, MATCH, REFUSED };

// What Go's regexp says of them.
static const struct {
    const char *pattern, *text;
    int want;
} cases[] = {
    {"[\\d-z]", "-", MATCH},
    {"[\\d-z]", "y", NO_MATCH},
    {"[[:alpha:]-z]", "-", MATCH},
    {"[[.a.]]", ".]", MATCH},
    {"[[.a.]]", ".", NO_MATCH},
    {"[a-c-e]", "d", NO_MATCH},
    {"[+--]", ",", MATCH},
    {"[\\b]", "b", REFUSED},
    {"[\\Qa]", "a", REFUSED},
    {"[a-\\d]", "a", REFUSED},
    {"[z-a]", "a", REFUSED},
    {"^*a", "ba", MATCH},
    {"^+a", "ba", NO_MATCH},
    {"\\b*x", "x", MATCH},
    {"${2}", "", MATCH},
    {"a(?i){2}b", "aaB", MATCH},
    {"a(?i){2}b", "aAB", NO_MATCH},
    {"(?i)*", "", REFUSED},
    {"(?)", "", MATCH},
    {"(?-)", "", REFUSED},
    {"(?i-)", "", REFUSED},
    {"(?P<1n>a)", "a", MATCH},
    {"(?P<a-b>c)", "c", REFUSED},
    {"(?<=a)b", "ab", REFUSED},
    {"\\s", "\v", NO_MATCH},
    {"\\S", "\v", MATCH},
    {"[\\s]", "\v", NO_MATCH},
    {"[^\\S]", "\v", NO_MATCH},
    {"[[:space:]]", "\v", MATCH},
    {"\\v", "\n", NO_MATCH},
    {"\\v", "\v", MATCH},
    {"^.$", "\377", MATCH},
    {"^..$", "\303(", MATCH},
    {"^[^a]$", "\377", MATCH},
    {"\\x{fffd}", "\200", MATCH},
    {"\377", "\377", REFUSED},
    {"(a{500}){3}", "a", REFUSED},
    {"(a{500}){2}", "a", NO_MATCH},
    {"(a{0}){1000}", "", MATCH},
    {"((a{10}){10}){11}", "a", REFUSED},
    {"a{,2}", "a{,2}", MATCH},
    {"a{,2}", "aa", NO_MATCH},
    {"\\12(a)(b)", "\nab", MATCH},
    {"\\x", "x", REFUSED},
    {"\\x{110000}", "x", REFUSED},
    {"(?m)^$", "a\n", MATCH},
    {"\\p{Greek}", "\302\267", NO_MATCH},
    {"a$", "a\n", NO_MATCH},
    {"a$", "a", MATCH},
    {"(?m)a$", "a\nb", MATCH},
    {"^b", "a\nb", NO_MATCH},
    {"(?m)^b", "a\nb", MATCH},
    {"a.b", "a\nb", NO_MATCH},
    {"(?s)a.b", "a\nb", MATCH},
    {"a.b", "a\015b", MATCH},
    {"\\z", "x", MATCH},
    {"a\\z", "a\n", NO_MATCH},
    {"(?i)ABC", "xabcx", MATCH},
    {"(?i)\303\211", "\303\251", MATCH},
    {"\\d", "\331\243", NO_MATCH},
    {"\\w", "\303\251", NO_MATCH},
    {"\\s", "\302\240", NO_MATCH},
    {"[[:alpha:]]", "\303\251", NO_MATCH},
    {"\\pL", "\303\251", MATCH},
    {"\\p{Greek}", "\316\261", MATCH},
    {"^.$", "\342\202\254", MATCH},
    {"a", "\377a\377", MATCH},
    {"\\x{20ac}", "\342\202\254", MATCH},
    {"\\xff", "\303\277", MATCH},
    {"", "", MATCH},
    {"", "x", MATCH},
    {"(?P<n>a)b", "ab", MATCH},
    {"(?<n>a)b", "ab", MATCH},
    {"\\Qa.b\\E", "a.b", MATCH},
    {"\\Qa.b\\E", "axb", NO_MATCH},
    {"\\Qa.b", "a.b", MATCH},
    {"a{2}", "aa", MATCH},
    {"a{,2}", "a{,2}", MATCH},
    {"a{", "a{", MATCH},
    {"a{1", "a{1", MATCH},
    {"x{2,1}", "", REFUSED},
    {"a{1001}", "", REFUSED},
    {"(?U)a+", "aaa", MATCH},
    {"\\101", "A", MATCH},
    {"\\C", "x", REFUSED},
    {"\\bfoo\\b", "a foo b", MATCH},
    {"\\bfoo\\b", "\303\251foo", MATCH},
    {"(?=a)", "", REFUSED},
    {"(?!a)", "", REFUSED},
    {"(?<=a)", "", REFUSED},
    {"(?<!a)b", "", REFUSED},
    {"(?>a)", "", REFUSED},
    {"(a)\\1", "", REFUSED},
    {"a++", "", REFUSED},
    {"a**", "", REFUSED},
    {"a?+", "", REFUSED},
    {"a*?", "b", MATCH},
    {"*", "", REFUSED},
    {"+a", "", REFUSED},
    {"(?", "", REFUSED},
    {"(", "", REFUSED},
    {")", "", REFUSED},
    {"[", "", REFUSED},
    {"[]a]", "]", MATCH},
    {"[a", "", REFUSED},
    {"[b-a]", "", REFUSED},
    {"\\", "", REFUSED},
    {"\\e", "", REFUSED},
    {"\\Z", "", REFUSED},
    {"\\G", "", REFUSED},
    {"\\h", "", REFUSED},
    {"\\R", "", REFUSED},
    {"\\K", "", REFUSED},
    {"\\X", "", REFUSED},
    {"\\N", "", REFUSED},
    {"\\8", "", REFUSED},
    {"(?#c)a", "", REFUSED},
    {"(?x)a b", "", REFUSED},
    {"(?R)", "", REFUSED},
    {"(?1)", "", REFUSED},
    {"(?|a)", "", REFUSED},
    {"(?i-s:a)", "A", MATCH},
    {"(?i--s)", "", REFUSED},
    {"(?)", "", MATCH},
    {"(*UTF)a", "", REFUSED},
    {"(?P=n)", "", REFUSED},
    {"(?P<n>a)(?P<n>b)", "", NO_MATCH},
    {"(?P<n-m>a)", "", REFUSED},
    {"[[:foo:]]", "", REFUSED},
    {"[[:^alpha:]]", "1", MATCH},
    {"[[:word:]]", "_", MATCH},
    {"\\p{Foo}", "", REFUSED},
    {"\\pN", "5", MATCH},
    {"\\x{110000}", "", REFUSED},
    {"[a-\\d]", "", REFUSED},
    {"a|*", "", REFUSED},
    {"(|a)*", "b", MATCH},
    {"(a|)+$", "b", MATCH},
    {"\\c", "", REFUSED},
    {"\\ca", "", REFUSED},
    {"\\o{101}", "", REFUSED},
    {"\\_", "_", MATCH},
    {"\\-", "-", MATCH},
    {"\\\303\251", "", REFUSED},
    {"\377", "", REFUSED},
    {"[\\A]", "", REFUSED},
    {"[\\z]", "", REFUSED},
    {"[\\B]", "", REFUSED},
    {"[a&&b]", "&", MATCH},
    {"\\p{^Greek}", "a", MATCH},
    {"\\P{Greek}", "a", MATCH},
    {"(((a{100}){100}){100})", "", REFUSED},
    {"((a{30}){30})", "b", NO_MATCH},
    {"(?i)*", "a", REFUSED},
    {"(?i)k", "\342\204\252", MATCH},
    {"(?i)s", "\305\277", MATCH},
    {"a{0}b", "b", MATCH},
    {"[]", "", REFUSED},
    {"[^]a]", "b", MATCH},
    {"\\07", "\007", MATCH},
    {"\\18", "", REFUSED},
    {"[\\1]", "", REFUSED},
    {"\\a\\f\\v", "\007\014\013", MATCH},
};

static void go_decides(void **state)
{
    static const char *const says[] = {"no match", "a match", "refused"};
    int wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err e = {.message = ""};
        struct model_regex *re = model_regex_new(arena, "focus", str_from(cases[i].pattern), &e);
        int got = !re ? REFUSED : model_regex_match(re, str_from(cases[i].text));
        if (got == cases[i].want)
            continue;
        print_error("`%s` on `%s`: %s, not %s %s\n", cases[i].pattern, cases[i].text, says[got],
                    says[cases[i].want], e.message);
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

// Who gets an error learns which option, what, and where.
static void errors_tell_what_is_wrong(void **state)
{
    static const char *const wrong[][2] = {
        {"(", "parsing hide regexp: error parsing regexp: missing closing ): `(`"},
        {"a)", "parsing hide regexp: error parsing regexp: unexpected ): `a)`"},
        {"x[a", "parsing hide regexp: error parsing regexp: missing closing ]: `[a`"},
        {"x**", "parsing hide regexp: error parsing regexp: invalid nested repetition operator: "
                "`**`"},
        {"*", "parsing hide regexp: error parsing regexp: missing argument to repetition "
              "operator: `*`"},
        {"a{2000}", "parsing hide regexp: error parsing regexp: invalid repeat count: `{2000}`"},
        {"(?=a)", "parsing hide regexp: error parsing regexp: invalid or unsupported Perl syntax: "
                  "`(?=`"},
        {"\\8", "parsing hide regexp: error parsing regexp: invalid escape sequence: `\\8`"},
        {"a\\", "parsing hide regexp: error parsing regexp: trailing backslash at end of "
                "expression: ``"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct err e = {.message = ""};
        assert_null(model_regex_new(arena, "hide", str_from(wrong[i][0]), &e));
        assert_string_equal(e.message, wrong[i][1]);
    }
    assert_null(model_regex_new(arena, "hide", STR("("), NULL));
}

static struct model_regex *compile(const char *pattern)
{
    struct err e = {.message = ""};
    struct model_regex *re = model_regex_new(arena, "focus", str_from(pattern), &e);
    if (!re)
        fail_msg("%s", e.message);
    return re;
}

static void texts_have_any_byte(void **state)
{
    assert_true(model_regex_match(compile("b"), STR("a\0b")));
    assert_true(model_regex_match(compile("^$"), (struct str){NULL, 0}));
    assert_true(model_regex_match(compile("\\x00"), STR("a\0b")));
    assert_true(model_regex_match(compile("a\\0"), STR("a\0b")));
    // A character that is cut at the end of the text.
    assert_true(model_regex_match(compile("a"), STR("a\xe2\x82")));
    assert_false(model_regex_match(compile("\\x{20ac}"), STR("\xe2\x82")));
}

static int match_or_fail(struct model_regex *re, struct str text, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap))
        return arena_caught(arena, e);
    bool matched = model_regex_match(re, text);
    arena_try_end(arena);
    return matched;
}

// What takes for ever by backtracking is answered as Go answers it.
static void backtracking_is_not_all(void **state)
{
    static const struct {
        const char *pattern;
        int with_b, without;
    } slow[] = {{"^(a|aa|aaa)+$", 0, 1},
                {"(a?){40}a{40}[bx]", 1, 0},
                {"(?i)^(A|aa)+(?:c|\\bx|B)$", 1, 0},
                {"(a?){40}a{40}[^a-z]", 0, 0}};
    struct err e = {.message = ""};
    char text[200];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = 'b';
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++) {
        struct model_regex *re = compile(slow[i].pattern);
        for (int round = 0; round < 2; round++) {
            assert_int_equal(match_or_fail(re, (struct str){text, sizeof text}, &e),
                             slow[i].with_b);
            assert_int_equal(match_or_fail(re, (struct str){text, sizeof text - 1}, &e),
                             slow[i].without);
            assert_int_equal(match_or_fail(re, STR("-"), &e), 0);
        }
    }
}

// What has too many states as well is given up, with the expression and the text in the sentence.
static void catastrophes_are_given_up(void **state)
{
    struct err e = {.message = ""};
    char text[400];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = 'b';
    struct model_regex *re = compile("^(a?){200}a{200}[cx]");
    assert_int_equal(match_or_fail(re, (struct str){text, sizeof text}, &e), -1);
    assert_int_equal(strncmp(e.message,
                             "the focus regexp `^(a?){200}a{200}[cx]` takes too long on "
                             "`aaaaaaaa",
                             65),
                     0);
    // It still works on what it can do.
    assert_int_equal(match_or_fail(re, STR("aaa"), &e), 0);
    text[sizeof text - 1] = 'c';
    assert_int_equal(match_or_fail(re, (struct str){text, sizeof text}, &e), 1);
}

// Deep recursion neither overflows the stack nor is it refused.
static void long_texts(void **state)
{
    static char text[100000];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 'b';
    struct str all = {text, sizeof text};
    struct err e = {.message = ""};
    assert_int_equal(match_or_fail(compile("^(?:a|b)*$"), all, &e), 1);
    assert_int_equal(match_or_fail(compile("b$"), all, &e), 1);
    assert_int_equal(match_or_fail(compile("^a*$"), all, &e), 0);
}

static void answers_are_remembered(void **state)
{
    struct model_strings *s = model_strings_new(arena);
    struct model_regex *re = compile("7");
    for (uint32_t i = 1; i < 1000; i++) {
        char text[16];
        model_intern(s, (struct str){text, (size_t)snprintf(text, sizeof text, "%u", i)});
    }
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 1; i < 1000; i++)
            assert_int_equal(model_regex_match_id(re, s, i),
                             i / 100 == 7 || i / 10 % 10 == 7 || i % 10 == 7);
    // Strings that came later.
    uint32_t late = MODEL_NONE;
    for (int i = 0; i < 500; i++) {
        char text[16];
        late = model_intern(s, (struct str){text, (size_t)snprintf(text, sizeof text, "x%d", i)});
    }
    assert_false(model_regex_match_id(re, s, late));
    assert_true(model_regex_match_id(re, s, model_intern(s, STR("x7x"))));
    assert_true(str_eq(model_regex_pattern(re), STR("7")));
}

// With a budget others wait: fewer steps, a jump that tells that the request is wrong, and the
// deadline is looked at between matches and within long texts.
static void budgets_limit_matching(void **state)
{
    struct budget budget = {.account = {.owner = "this request"}};
    struct arena *own = arena_new_in(&budget, 0);
    struct arena_trap trap;
    struct err e = {""};
    static char text[200000];
    memset(text, 'a', sizeof text);
    struct str all = {text, sizeof text}, some = {text, 401};

    struct model_regex *slow = model_regex_new(own, "focus", STR("^(a?){200}a{200}[xy]"), &e);
    assert_non_null(slow);
    volatile bool jumped = true;
    if (!ARENA_TRY(own, trap)) {
        model_regex_match(slow, some);
        jumped = false;
    }
    assert_true(jumped && arena_refused(own));
    assert_int_equal(budget.failed, BUDGET_OK);
    arena_caught(own, &e);
    assert_non_null(strstr(e.message, "takes too long"));

    // Parts of a text are as good as all of it.
    static const char *const found[] = {"b",
                                        "ab",
                                        "b$",
                                        "\\bz\\b",
                                        "\xc3\xa9"
                                        "b",
                                        "^z|[b]$"};
    text[sizeof text - 5] = ' ';
    text[sizeof text - 4] = 'z';
    text[sizeof text - 3] = '\xc3';
    text[sizeof text - 2] = '\xa9';
    text[sizeof text - 1] = 'b';
    for (size_t i = 0; i < 6; i++) {
        struct model_regex *re = model_regex_new(own, "focus", str_from(found[i]), &e);
        assert_int_equal(model_regex_match(re, all), i != 1);
    }
    assert_false(model_regex_match(model_regex_new(own, "focus", STR("^b"), &e), all));
    assert_true(model_regex_match(model_regex_new(own, "focus", STR("\\Aa+ "), &e), all));

    budget.deadline = 1;
    jumped = true;
    struct model_regex *quick = slow;
    if (!ARENA_TRY(own, trap)) {
        model_regex_match(quick, STR("b"));
        jumped = false;
    }
    assert_true(jumped && !arena_refused(own));
    assert_int_equal(budget.failed, BUDGET_LATE);
    arena_free(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(go_decides),
        cmocka_unit_test(errors_tell_what_is_wrong),
        cmocka_unit_test(texts_have_any_byte),
        cmocka_unit_test(catastrophes_are_given_up),
        cmocka_unit_test(long_texts),
        cmocka_unit_test(answers_are_remembered),
        cmocka_unit_test(backtracking_is_not_all),
        cmocka_unit_test(budgets_limit_matching),
    };
    return cmocka_run_group_tests(tests, make_arena, free_arena);
}
