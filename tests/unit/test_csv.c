#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codec/codec.h"
#include "model/builder.h"

static char *written(const struct model_profile *p)
{
    struct out out;
    out_init_memory(&out, 1 << 16);
    codec_write_csv(p, &out);
    assert_int_equal(out.error, 0);
    out_char(&out, '\0');
    return out.p;
}

// Columns: the values, the string labels, the numeric labels, the stack; sorted by key.
static void rows(void **state)
{
    struct arena *arena = arena_new(0);
    struct model_builder b;
    model_build(&b, arena);
    model_build_type(&b, STR("samples"), STR("count"));
    model_build_type(&b, STR("cpu"), STR("nanoseconds"));
    uint32_t frames[] = {
        model_build_named_location(&b, STR("f(int, \"x\")")),
        model_build_named_location(&b, STR("a;b")),
        model_build_named_location(&b, STR("main")),
    };
    model_build_sample(&b, frames + 1, 2, (int64_t[]){1, -2});
    model_build_number_label(&b, STR("bytes"), 16, STR(""));
    model_build_number_label(&b, STR("bytes"), 32, STR("kb"));
    model_build_label(&b, STR("z,y"), STR("1"));
    model_build_label(&b, STR("k"), STR("say \"hi\""));
    model_build_label(&b, STR("k"), STR("x"));
    model_build_sample(&b, frames, 3, (int64_t[]){3, 4});
    model_build_label(&b, STR("bytes"), STR(" text"));
    model_build_sample(&b, frames, 0, (int64_t[]){5, 6});
    char *got = written(b.p);
    assert_string_equal(got, "samples/count,cpu/nanoseconds,bytes,k,\"z,y\",bytes,stack\r\n"
                             "1,-2,,,,,main;a:b\r\n"
                             "3,4,,\"say \"\"hi\"\";x\",1,16;32,\"main;a:b;f(int, \"\"x\"\")\"\r\n"
                             "5,6,\" text\",,,,\r\n");
    free(got);
    arena_free(arena);
}

static void without_labels(void **state)
{
    struct arena *arena = arena_new(0);
    struct model_builder b;
    model_build(&b, arena);
    model_build_type(&b, STR("a\"b"), STR("c"));
    uint32_t frame = model_build_named_location(&b, STR("main"));
    model_build_sample(&b, &frame, 1, (int64_t[]){7});
    char *got = written(b.p);
    assert_string_equal(got, "\"a\"\"b/c\",stack\r\n7,main\r\n");
    free(got);
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows),
        cmocka_unit_test(without_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
