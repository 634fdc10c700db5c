#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "codec/detect.h"
#include "model/builder.h"
#include "raw.h"

static void stacks_are_root_first(void **state)
{
    RAW_COMPARE(codec_read_folded,
                "# a comment\n"
                "main;work;read file_[k] 12\r\n"
                "\n"
                "main 3.6\n"
                "main;;work;\t1e2",
                "/ 0, 0 ns\nsamples/count\n12: 1 2 3\n4: 3\n100: 2 3\nLocations\n"
                "1: 0x0 read file_[k] :0:0\n2: 0x0 work :0:0\n3: 0x0 main :0:0\nMappings\n");
}

static void lines_without_a_value_are_refused(void **state)
{
    RAW_REFUSED(codec_read_folded, "a;b 1\na;b\n", "line 2: expected");
    RAW_REFUSED(codec_read_folded, "a;b 0x10\n", "line 1");
    RAW_REFUSED(codec_read_folded, "a;b nan\n", "line 1");
    RAW_REFUSED(codec_read_folded, "a;b 1e400\n", "line 1");
    RAW_REFUSED(codec_read_folded, "12\n", "line 1");
}

static char *written(const struct model_profile *p, uint32_t type)
{
    struct out out;
    out_init_memory(&out, 1 << 20);
    codec_write_folded(p, type, &out);
    out_char(&out, '\0');
    assert_int_equal(out.error, 0);
    return out.p;
}

static void written_stacks_are_merged_and_sorted(void **state)
{
    const char text[] = "b 1\na;c 2\na-b;c 3\na 4\nb 5\na 0\nx 7\nx -7\naa;c 1\n";
    struct arena *arena = arena_new(0);
    struct err e;
    struct model_profile *p = codec_read_folded(arena, (const uint8_t *)text, sizeof text - 1, &e);
    assert_non_null(p);
    char *got = written(p, 0);
    assert_string_equal(got, "a 4\na-b;c 3\na;c 2\naa;c 1\nb 6\n");
    free(got);
    arena_free(arena);
}

// Inlined calls are frames of their own; without names, the binary or the address stands in.
static void frames_have_names(void **state)
{
    struct arena *arena = arena_new(0);
    struct model_builder b;
    model_build(&b, arena);
    model_build_type(&b, STR("x"), STR("count"));
    model_build_type(&b, STR("y"), STR("count"));
    uint32_t outer = model_build_string(&b, STR("outer;a\nb"));
    uint32_t inner = model_build_string(&b, STR("inner"));
    struct model_line lines[] = {
        {.function = model_build_function(&b, inner, inner, 0, 0)},
        {.function = model_build_function(&b, 0, outer, 0, 0)},
    };
    uint32_t file = model_build_string(&b, STR("/usr/lib/libc.so.6"));
    uint32_t mapping = model_build_mapping(&b, (struct model_mapping){.file = file});
    file = model_build_string(&b, STR("[vdso]"));
    uint32_t vdso = model_build_mapping(&b, (struct model_mapping){.file = file});
    uint32_t frames[] = {
        model_build_location(&b, MODEL_NONE, 1, lines, 2),
        model_build_location(&b, mapping, 2, lines, 0),
        model_build_location(&b, vdso, 2, lines, 0),
        model_build_location(&b, MODEL_NONE, 0xabc, lines, 0),
        model_build_location(&b, MODEL_NONE, 0, lines, 0),
    };
    model_build_sample(&b, frames, 5, (int64_t[]){0, 9});
    model_build_sample(&b, frames, 0, (int64_t[]){0, 2});
    char *got = written(b.p, 1);
    assert_string_equal(got, "[empty] 2\n"
                             "[unknown];0xabc;[vdso];[libc.so.6];outer:a b;inner 9\n");
    free(got);
    got = written(b.p, 0);
    assert_string_equal(got, "");
    free(got);
    arena_free(arena);
}

static void detection(void **state)
{
    assert_true(codec_looks_like_folded(STR("main;a b;c 12\nmain 3\n")));
    assert_true(codec_looks_like_folded(STR("# made by x\n\na;b 1.5\n")));
    assert_true(codec_looks_like_folded(STR("main 1")));
    assert_true(codec_looks_like_folded(STR("a;b 1\na;c 2\na;de"))); // cut off
    assert_false(codec_looks_like_folded(STR("")));
    assert_false(codec_looks_like_folded(STR("# only a comment\n")));
    assert_false(codec_looks_like_folded(STR("It was the year 1984\nand then came 1985\n")));
    assert_false(codec_looks_like_folded(STR("a;b 1\nno value here\n")));
    assert_false(codec_looks_like_folded(STR("x profile: total 1\n1 @ 0x1\n")));
    assert_false(codec_looks_like_folded(STR("a;\x01 1\n")));
    assert_false(codec_looks_like_folded(STR("{\"a\":1}\n")));
}

static void little_memory(void **state)
{
    const char text[] = "main;a;b 1\nmain;c 2\n";
    raw_with_little_memory(codec_read_folded, text, sizeof text - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stacks_are_root_first),
        cmocka_unit_test(lines_without_a_value_are_refused),
        cmocka_unit_test(written_stacks_are_merged_and_sorted),
        cmocka_unit_test(frames_have_names),
        cmocka_unit_test(detection),
        cmocka_unit_test(little_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
