#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codec/codec.h"
#include "codec/json.h"
#include "codec/json_read.h"
#include "model/builder.h"

static void string_is(struct str s, const char *expected)
{
    struct out out;
    out_init_memory(&out, 1 << 16);
    json_write_string(&out, s);
    out_char(&out, '\0');
    assert_string_equal(out.p, expected);
    out_fini(&out);
}

#define BAD "\xef\xbf\xbd"

static void strings_are_escaped(void **state)
{
    string_is(STR(""), "\"\"");
    string_is((struct str){NULL, 0}, "\"\"");
    string_is(STR("a\"b\\c\n\r\t\b\f\x01\x1f\x7f/"),
              "\"a\\\"b\\\\c\\n\\r\\t\\b\\f\\u0001\\u001f\x7f/\"");
    string_is(STR("x\0y"), "\"x\\u0000y\"");
    string_is(STR("\xc3\xa9\xe2\x82\xac\xf0\x9f\x94\xa5"),
              "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x94\xa5\"");
}

static void what_is_not_utf8_is_replaced(void **state)
{
    string_is(STR("a\xff\x80z"), "\"a" BAD BAD "z\"");
    string_is(STR("\xc3"), "\"" BAD "\"");
    string_is(STR("\xc0\xaf"), "\"" BAD BAD "\"");                 // too long a form
    string_is(STR("\xe0\x80\xaf"), "\"" BAD BAD BAD "\"");         // the same
    string_is(STR("\xed\xa0\x80"), "\"" BAD BAD BAD "\"");         // a surrogate
    string_is(STR("\xf4\x90\x80\x80"), "\"" BAD BAD BAD BAD "\""); // above U+10FFFF
    string_is(STR("\xe2\x82"), "\"" BAD BAD "\"");                 // cut off
}

static void profiles_are_resolved(void **state)
{
    struct arena *arena = arena_new(0);
    struct model_builder b;
    model_build(&b, arena);
    model_build_type(&b, STR("cpu"), STR("nanoseconds"));
    model_build_comment(&b, STR("a comment"));
    uint32_t name = model_build_string(&b, STR("f")), system = model_build_string(&b, STR("_Zf"));
    uint32_t file = model_build_string(&b, STR("/bin/x"));
    struct model_line line = {
        .function = model_build_function(&b, name, system, model_build_string(&b, STR("f.c")), 3),
        .line = 4,
        .column = 5,
    };
    uint32_t mapping = model_build_mapping(
        &b, (struct model_mapping){.start = 0x1000, .limit = UINT64_MAX, .file = file});
    uint32_t frames[] = {
        model_build_location(&b, mapping, 0x1234, &line, 1),
        model_build_location(&b, MODEL_NONE, 0, &line, 0),
    };
    model_build_label(&b, STR("k"), STR("v1"));
    model_build_label(&b, STR("k"), STR("v2"));
    model_build_number_label(&b, STR("bytes"), -5, STR("kb"));
    model_build_number_label(&b, STR("other"), 0, STR(""));
    model_build_sample(&b, frames, 2, (int64_t[]){INT64_MIN});
    model_build_sample(&b, frames, 0, (int64_t[]){1});
    b.p->period_type = b.p->types[0];
    b.p->period = 10;
    struct out out;
    out_init_memory(&out, 1 << 16);
    codec_write_json(b.p, &out);
    struct json root;
    assert_int_equal(json_parse(arena, out_result(&out), &root, NULL), 0);
    out_char(&out, '\0');
    assert_string_equal(
        out.p,
        "{\"sample_types\":[{\"type\":\"cpu\",\"unit\":\"nanoseconds\"}],"
        "\"period_type\":{\"type\":\"cpu\",\"unit\":\"nanoseconds\"},\"period\":10,"
        "\"comments\":[\"a comment\"],"
        "\"mappings\":[{\"file\":\"/bin/"
        "x\",\"start\":\"0x1000\",\"limit\":\"0xffffffffffffffff\"}],"
        "\"samples\":[\n"
        "{\"values\":[-9223372036854775808],\"labels\":{\"k\":[\"v1\",\"v2\"]},"
        "\"number_labels\":{\"bytes\":[{\"value\":-5,\"unit\":\"kb\"}],\"other\":[{\"value\":0}]},"
        "\"stack\":[{\"lines\":[]},{\"address\":\"0x1234\",\"mapping\":\"/bin/x\",\"lines\":"
        "[{\"function\":\"f\",\"system_name\":\"_Zf\",\"file\":\"f.c\",\"line\":4,\"column\":5,"
        "\"start_line\":3}]}]},\n"
        "{\"values\":[1],\"stack\":[]}\n"
        "]}\n");
    out_fini(&out);
    arena_free(arena);
}

static void empty_profile(void **state)
{
    struct arena *arena = arena_new(0);
    struct out out;
    out_init_memory(&out, 1 << 16);
    codec_write_json(model_profile_new(arena), &out);
    struct json root;
    assert_int_equal(json_parse(arena, out_result(&out), &root, NULL), 0);
    assert_int_equal(json_kind(json_get(root, "samples")), JSON_ARRAY);
    assert_int_equal(json_size(json_get(root, "samples")), 0);
    out_fini(&out);
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_escaped),
        cmocka_unit_test(what_is_not_utf8_is_replaced),
        cmocka_unit_test(profiles_are_resolved),
        cmocka_unit_test(empty_profile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
