#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "codec/pprof_message.h"

static struct pprof_profile *read_json(struct arena *arena, const char *text, struct err *e)
{
    return message_read_json(&pprof_message, arena, (const uint8_t *)text, strlen(text), e);
}

static void json_as_protobuf_has_it(void **state)
{
    struct arena *arena = arena_new(0);
    struct err e = {""};
    struct pprof_profile *p = read_json(
        arena,
        "{\"sampleType\":[{\"type\":\"1\",\"unit\":2}],\"time_nanos\":-5,\"durationNanos\":\"7\","
        "\"stringTable\":[\"\",\"\\u00fc\"],\"periodType\":null,\"unknown\":[{}],"
        "\"sample\":[{\"locationId\":[\"18446744073709551615\"]}]}",
        &e);
    assert_non_null(p);
    assert_int_equal(p->sample_type.n, 1);
    assert_int_equal(((struct pprof_value_type *)p->sample_type.items)->unit, 2);
    assert_int_equal(p->time_nanos, -5);
    assert_int_equal(p->duration_nanos, 7);
    assert_null(p->period_type);
    assert_true(str_eq(((struct str *)p->string_table.items)[1], STR("\xc3\xbc")));
    struct pprof_sample *sample = p->sample.items;
    assert_int_equal(((int64_t *)sample->location_id.items)[0], -1);
    struct out out;
    out_init_arena(&out, arena);
    message_write_json(&pprof_message, p, &out);
    assert_true(str_eq(
        out_result(&out),
        STR("{\"sampleType\":[{\"type\":\"1\",\"unit\":\"2\"}],\"sample\":[{\"locationId\":[\"-1\"]"
            "}],"
            "\"stringTable\":[\"\",\"\xc3\xbc\"],\"timeNanos\":\"-5\",\"durationNanos\":\"7\"}")));
    arena_free(arena);
}

static void wrong_json_is_refused(void **state)
{
    static const char *const wrong[] = {"",
                                        "[]",
                                        "{",
                                        "{\"timeNanos\":\"x\"}",
                                        "{\"timeNanos\":1.5}",
                                        "{\"timeNanos\":{}}",
                                        "{\"timeNanos\":99999999999999999999}",
                                        "{\"timeNanos\":1e300}",
                                        "{\"timeNanos\":\"99999999999999999999\"}",
                                        "{\"sample\":{}}",
                                        "{\"sample\":[1]}",
                                        "{\"stringTable\":[1]}",
                                        "{\"mapping\":[{\"hasFunctions\":1}]}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct arena *arena = arena_new(0);
        struct err e = {""};
        assert_null(read_json(arena, wrong[i], &e));
        assert_true(e.message[0] != 0);
        arena_free(arena);
    }
}

// As before the reader was kiln's own: of several members the last one, the JSON name before the
// proto name, null as absent; 64-bit numbers also without quotes.
static void members_that_come_twice(void **state)
{
    struct arena *arena = arena_new(0);
    struct err e = {""};
    struct pprof_profile *p =
        read_json(arena,
                  "{\"timeNanos\":1,\"time_nanos\":2,\"duration_nanos\":3,\"duration_nanos\":4,"
                  "\"stringTable\":[\"x\",\"y\"],\"stringTable\":[\"\\u0000z\"],"
                  "\"\\u0070eriod\":5,\"periodType\":{\"type\":1},\"periodType\":{\"unit\":2},"
                  "\"sample\":[{\"locationId\":[18446744073709551615,1e3]}],\"comment\":null}",
                  &e);
    assert_non_null(p);
    assert_int_equal(p->time_nanos, 1);
    assert_int_equal(p->duration_nanos, 4);
    assert_int_equal(p->period, 5);
    assert_int_equal(p->string_table.n, 1);
    assert_true(str_eq(*(struct str *)p->string_table.items, STR("\0z")));
    assert_int_equal(p->period_type->type, 0);
    assert_int_equal(p->period_type->unit, 2);
    const int64_t *ids = ((struct pprof_sample *)p->sample.items)->location_id.items;
    assert_int_equal(ids[0], -1);
    assert_int_equal(ids[1], 1000);
    arena_free(arena);
}

static void protobuf_goes_and_comes_back(void **state)
{
    // time_nanos 5, an unknown field, period_type twice: merged.
    static const uint8_t bytes[] = {0x48, 5, 0x98, 6, 1, 0x5a, 2, 8, 3, 0x5a, 2, 0x10, 4};
    struct arena *arena = arena_new(0);
    struct err e = {""};
    struct pprof_profile *p = message_read_proto(&pprof_message, arena, bytes, sizeof bytes, &e);
    assert_non_null(p);
    assert_int_equal(p->time_nanos, 5);
    assert_int_equal(p->period_type->type, 3);
    assert_int_equal(p->period_type->unit, 4);
    struct out out;
    out_init_arena(&out, arena);
    message_write_proto(&pprof_message, p, &out);
    assert_true(str_eq(out_result(&out), STR("\x48\x05\x5a\x04\x08\x03\x10\x04")));
    // Cut short, of a wrong wire type, with a string that is none.
    static const char *const wrong[] = {"\x48", "\x4a\x01x", "\x32\x05x", "\x32\x01\xff"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_null(message_read_proto(&pprof_message, arena, (const uint8_t *)wrong[i],
                                       strlen(wrong[i]), &e));
    arena_free(arena);
}

static void base64_in_both_alphabets(void **state)
{
    struct arena *arena = arena_new(0);
    assert_true(str_eq(message_base64(arena, STR("+/+/")), message_base64(arena, STR("-_-_"))));
    assert_true(str_eq(message_base64(arena, STR("aGk=")), STR("hi")));
    assert_true(str_eq(message_base64(arena, STR("aGk")), STR("hi")));
    assert_null(message_base64(arena, STR("a")).p);
    assert_null(message_base64(arena, STR("a*b=")).p);
    arena_free(arena);
}

// Eight bytes are looked at together: a character may be anywhere among them.
static void utf8_at_every_place(void **state)
{
    static const struct {
        const char *bytes;
        bool is_right;
    } cases[] = {{"\xc3\xa4", true},
                 {"\xe2\x82\xac", true},
                 {"\xf0\x9f\x94\xa5", true},
                 {"\xff", false},
                 {"\x80", false},
                 {"\xc3", false},
                 {"\xe2\x82", false},
                 {"\xc0\x80", false},
                 {"\xed\xa0\x80", false},
                 {"\xf4\x90\x80\x80", false}};
    char text[64];
    for (size_t n = 0; n < 32; n++)
        for (size_t at = 0; at <= n; at++)
            for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                size_t length = strlen(cases[i].bytes);
                memset(text, 'x', sizeof text);
                memcpy(text + at, cases[i].bytes, length);
                assert_int_equal(message_is_utf8((struct str){text, n + length}),
                                 cases[i].is_right);
                memcpy(text + at, "yyyyyy", length);
                assert_true(message_is_utf8((struct str){text, n + length}));
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_as_protobuf_has_it),  cmocka_unit_test(wrong_json_is_refused),
        cmocka_unit_test(members_that_come_twice),  cmocka_unit_test(protobuf_goes_and_comes_back),
        cmocka_unit_test(base64_in_both_alphabets), cmocka_unit_test(utf8_at_every_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
