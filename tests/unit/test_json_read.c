#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/out.h"
#include "codec/json_read.h"

static struct arena *arena;

static int set_up(void **state)
{
    arena = arena_new((size_t)64 << 20);
    return arena ? 0 : -1;
}

static int tear_down(void **state)
{
    arena_free(arena);
    return 0;
}

// A copy of exactly its size, so that ASan notices reads behind the end.
static struct str exact(struct str text)
{
    char *copy = malloc(text.n ? text.n : 1);
    if (text.n)
        memcpy(copy, text.p, text.n);
    return (struct str){copy, text.n};
}

static bool is_valid(struct str text)
{
    struct json root;
    struct err e = {""};
    struct str copy = exact(text);
    int result = json_parse(arena, copy, &root, &e);
    assert_true(result == 0 || e.message[0]);
    assert_true((json_kind(root) == JSON_ABSENT) == (result != 0));
    free((char *)copy.p);
    return result == 0;
}

static void valid_texts(void **state)
{
    static const struct str texts[] = {
        STR("0"),
        STR(" -0.0e+5 "),
        STR("\"\""),
        STR("null"),
        STR("true"),
        STR("[]"),
        STR("{}"),
        STR("\t[\r\n1 , 2 ]"),
        STR("[[],{},[{}]]"),
        STR("{\"a\":1,\"a\":2,\"\":[]}"),
        STR("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\uD834\\uDd1e\""),
        STR("\"\x7f \xc3\xa9\xe2\x82\xac\xf0\x9f\x94\xa5\""),
        STR("123456789012345678901234567890"),
        STR("1e999"),
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!is_valid(texts[i]))
            fail_msg("%.*s is valid", (int)texts[i].n, texts[i].p);
}

static void invalid_texts(void **state)
{
    static const struct str texts[] = {
        STR(""),
        STR(" "),
        STR("["),
        STR("]"),
        STR("[1,]"),
        STR("[,1]"),
        STR("[1 2]"),
        STR("{"),
        STR("{\"a\"}"),
        STR("{\"a\":}"),
        STR("{\"a\":1,}"),
        STR("{a:1}"),
        STR("{1:1}"),
        STR("[}"),
        STR("{]"),
        STR("[1}"),
        STR("{\"a\":1]"),
        STR("[]]"),
        STR("1 2"),
        STR("nul"),
        STR("nullx"),
        STR("True"),
        STR("01"),
        STR("-"),
        STR("+1"),
        STR(".5"),
        STR("1."),
        STR("1e"),
        STR("1e+"),
        STR("0x10"),
        STR("NaN"),
        STR("\""),
        STR("\"\\"),
        STR("\"\\\""),
        STR("\"\\x\""),
        STR("\"\\u12\""),
        STR("\"\\u12g4\""),
        STR("\"\\ud800\""),
        STR("\"\\ud800\\n\""),
        STR("\"\\ud800\\u0041\""),
        STR("\"\\udc00\""),
        STR("\"\n\""),
        STR("\"\0\""),
        STR("\"\xff\""),
        STR("\"\xc3\""),
        STR("\"\xed\xa0\x80\""),
        STR("\xef\xbb\xbf[]"),
        STR("[1]\0"),
        STR("'a'"),
        STR("/* */1"),
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (is_valid(texts[i]))
            fail_msg("%.*s is not valid", (int)texts[i].n, texts[i].p);
}

static void errors_tell_the_place(void **state)
{
    struct json root;
    struct err e;
    json_parse(arena, STR("{\n  \"a\": [1,\n 2 3]}"), &root, &e);
    assert_string_equal(e.message, "line 3, column 4: expected ',' or ']'");
    json_parse(arena, STR("{\"a\""), &root, &e);
    assert_string_equal(e.message, "line 1, column 5: expected ':', but the text ends");
}

static struct json parse(const char *text)
{
    struct json root;
    struct err e;
    if (json_parse(arena, str_from(text), &root, &e))
        fail_msg("%s: %s", text, e.message);
    return root;
}

static void members(void **state)
{
    struct json root =
        parse(" { \"a\" : [ 1 , [ 2 , {\"x\":[]} ] , \"]}\\\"\" ] , \"b\\u0063\":{\"d\" : true},"
              "\"a\":null, \"e\":\"\\ud83d\\ude00\\u00e9\\/x\", \"n\":\"a\\u0000b\" } ");
    assert_int_equal(json_size(root), 5);
    assert_int_equal(json_kind(json_get(root, "a")), JSON_NULL); // the last one
    assert_true(json_is_true(json_get(json_get(root, "bc"), "d")));
    assert_int_equal(json_kind(json_get(root, "b")), JSON_ABSENT);
    assert_int_equal(json_kind(json_get(json_get(root, "e"), "e")), JSON_ABSENT);
    assert_true(json_is(json_get(root, "e"), "\xf0\x9f\x98\x80\xc3\xa9/x"));
    assert_false(json_is(json_get(root, "e"), "\xf0\x9f\x98\x80\xc3\xa9/"));
    assert_false(json_is(json_get(root, "e"), "\xf0\x9f\x98\x80\xc3\xa9/xy"));
    assert_true(str_eq(json_string(json_get(root, "n"), arena), STR("a\0b")));
    struct json_each i = json_each(root);
    assert_true(json_next(&i) && json_key_is(&i, "a"));
    struct json a = i.value;
    assert_int_equal(json_size(a), 3);
    struct json_each k = json_each(a);
    int64_t number;
    assert_true(json_next(&k) && json_i64(k.value, &number) && number == 1);
    assert_true(json_next(&k) && json_size(k.value) == 2);
    assert_true(str_eq(json_text(k.value), STR("[ 2 , {\"x\":[]} ]")));
    assert_true(json_next(&k) && str_eq(json_string(k.value, arena), STR("]}\"")));
    assert_false(json_next(&k));
    assert_false(json_next(&k));
    assert_true(json_next(&i) && str_eq(json_key(&i, arena), STR("bc")));
    struct json_each none = json_each(json_get(root, "e"));
    assert_false(json_next(&none));
    assert_null(json_string(root, arena).p);
}

static void numbers(void **state)
{
    int64_t i;
    uint64_t u;
    double d;
    assert_true(json_i64(parse("-9223372036854775808"), &i) && i == INT64_MIN);
    assert_true(json_i64(parse("9223372036854775807"), &i) && i == INT64_MAX);
    assert_false(json_i64(parse("9223372036854775808"), &i));
    assert_true(json_u64(parse("18446744073709551615"), &u) && u == UINT64_MAX);
    assert_false(json_u64(parse("18446744073709551616"), &u));
    assert_false(json_i64(parse("1.0"), &i));
    assert_false(json_i64(parse("1e2"), &i));
    assert_false(json_i64(parse("\"1\""), &i));
    assert_true(json_double(parse("-2.5e-3"), &d) && d == -2.5e-3);
    assert_false(json_double(parse("1e999"), &d));
    char text[203] = "[0.";
    memset(text + 3, '3', 198);
    text[201] = ']';
    struct json_each each = json_each(parse(text));
    assert_true(json_next(&each) && json_double(each.value, &d) && d > 0.33 && d < 0.34);
}

static void depth_is_limited(void **state)
{
    static char deep[2 * JSON_MAX_DEPTH + 2];
    memset(deep, '[', JSON_MAX_DEPTH);
    memset(deep + JSON_MAX_DEPTH, ']', JSON_MAX_DEPTH);
    assert_true(is_valid((struct str){deep, 2 * JSON_MAX_DEPTH}));
    memset(deep, '[', JSON_MAX_DEPTH + 1);
    memset(deep + JSON_MAX_DEPTH + 1, ']', JSON_MAX_DEPTH + 1);
    assert_false(is_valid((struct str){deep, sizeof deep}));
}

// The number of items of an array of as many parts as fit into size bytes, -1 if that takes more
// than eight times its size.
static int64_t size_within(const char *part, char *text, size_t size)
{
    struct arena *own = arena_new(8 * size);
    struct arena_trap trap;
    size_t n = 1, length = strlen(part);
    text[0] = '[';
    for (; n + length + 2 < size; n += length)
        memcpy(text + n, part, length);
    text[n - 1] = ']';
    struct json root;
    struct err e;
    if (ARENA_TRY(own, trap)) {
        arena_free(own);
        return -1;
    }
    int64_t items = -2;
    if (json_parse(own, (struct str){text, n}, &root, &e) == 0)
        items = (int64_t)json_size(root) - (int64_t)((n - 1) / length);
    arena_try_end(own);
    arena_free(own);
    return items;
}

// Whatever a text has most of, memory is a small multiple of it.
static void memory_is_proportional(void **state)
{
    static const char *const parts[] = {"[],", "{},", "0,", "\"\",", "[[[[[]]]]],", "{\"\":0},"};
    static char text[1 << 20];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        assert_int_equal(size_within(parts[i], text, sizeof text), 0);
}

static bool parse_jumps(struct arena *own, struct str text)
{
    struct arena_trap trap;
    struct json root;
    if (ARENA_TRY(own, trap))
        return true;
    json_parse(own, text, &root, NULL);
    arena_try_end(own);
    return false;
}

// Running out of memory jumps and leaves nothing behind; so does a deadline.
static void limits_are_kept(void **state)
{
    enum { SIZE = 4 << 20 };
    char *text = malloc(SIZE);
    for (int late = 0; late < 2; late++) {
        struct budget budget = {.account = {.owner = "this test"}};
        struct arena *own = arena_new_in(&budget, late ? 0 : 1 << 16);
        arena_alloc(own, 16); // allocations within a chunk do not look at the deadline
        budget.deadline = late;
        memset(text, ' ', SIZE);
        text[0] = '[';
        for (size_t i = 1; i + 3 < SIZE; i += 3)
            memcpy(text + i, late ? "1, " : "[],", 3);
        assert_true(parse_jumps(own, (struct str){text, SIZE}));
        assert_int_equal(budget.failed, late ? BUDGET_LATE : BUDGET_OK);
        arena_free(own);
        assert_int_equal(budget.account.held, 0);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_texts),
        cmocka_unit_test(invalid_texts),
        cmocka_unit_test(errors_tell_the_place),
        cmocka_unit_test(members),
        cmocka_unit_test(numbers),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(memory_is_proportional),
        cmocka_unit_test(limits_are_kept),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
