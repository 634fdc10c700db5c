#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "codec/detect.h"
#include "codec/json_read.h"
#include "model/builder.h"
#include "raw.h"

// Single quotes stand for double ones.
static size_t unquote(char *to, const char *json)
{
    size_t n = strlen(json);
    for (size_t i = 0; i < n; i++)
        to[i] = json[i] == '\'' ? '"' : json[i];
    to[n] = '\0';
    return n;
}

static void reads_as(const char *json, const char *expected)
{
    char text[4096];
    raw_compare(codec_read_speedscope, text, unquote(text, json), expected);
}

static void is_refused(const char *json, const char *part)
{
    char text[4096];
    raw_refused(codec_read_speedscope, text, unquote(text, json), part);
}

#define FRAMES                                                                                     \
    "'shared':{'frames':[{'name':'main','file':'a.c','line':3,'col':7},{'name':'f'},{'name':'g'}]" \
    "}"

static void sampled(void **state)
{
    reads_as("{'$schema':'https://www.speedscope.app/file-format-schema.json'," FRAMES
             ",'profiles':[{'type':'sampled','name':'cpu','unit':'milliseconds','startValue':0,"
             "'endValue':3,'samples':[[0,1],[0],[],[0,1,2]],'weights':[1.5,0,2,0.0000005]}]}",
             "/ 0, 0 ns\ntime/nanoseconds\n1500000: 2 1\n2000000:\n1: 3 2 1\nLocations\n"
             "1: 0x0 main a.c:3:7\n2: 0x0 f :0:0\n3: 0x0 g :0:0\nMappings\n");
}

// Time between two events belongs to the stack that is open; equal stacks are one sample.
static void evented(void **state)
{
    reads_as("{" FRAMES ",'profiles':[{'type':'evented','name':'cpu','unit':'microseconds',"
             "'startValue':10,'endValue':20,'events':["
             "{'type':'O','frame':0,'at':10},{'type':'O','frame':1,'at':12},"
             "{'type':'C','frame':1,'at':13},{'type':'O','frame':2,'at':13},"
             "{'type':'C','frame':2,'at':13},{'type':'O','frame':1,'at':15.5},"
             "{'type':'C','frame':1,'at':16},{'type':'C','frame':0,'at':20}]}]}",
             "/ 0, 0 ns\ntime/nanoseconds\n8500: 1\n1500: 2 1\nLocations\n"
             "1: 0x0 main a.c:3:7\n2: 0x0 f :0:0\n3: 0x0 g :0:0\nMappings\n");
}

static void several_profiles(void **state)
{
    reads_as("{" FRAMES ",'profiles':["
             "{'type':'sampled','name':'one','unit':'seconds','samples':[[1]],'weights':[2]},"
             "{'type':'sampled','name':'two','unit':'nanoseconds','samples':[[2]],'weights':[3]},"
             "{'type':'sampled','name':'mem','unit':'bytes','samples':[[2]],'weights':[4]},"
             "{'type':'sampled','name':'n','unit':'none','samples':[[2]],'weights':[5]}]}",
             "/ 0, 0 ns\ntime/nanoseconds space/bytes samples/count\n"
             "2000000000 0 0: 2 | profile=one\n3 0 0: 3 | profile=two\n"
             "0 4 0: 3 | profile=mem\n0 0 5: 3 | profile=n\nLocations\n"
             "1: 0x0 main a.c:3:7\n2: 0x0 f :0:0\n3: 0x0 g :0:0\nMappings\n");
}

// The profile that speedscope would show first decides the default type.
static void active_profile_is_the_default(void **state)
{
    static const char *const expected[] = {"time", "space", "time"};
    for (int i = 0; i < 3; i++) {
        char text[4096], json[4096];
        snprintf(json, sizeof json,
                 "{" FRAMES ",'activeProfileIndex':%d,'profiles':["
                 "{'type':'sampled','name':'a','unit':'seconds','samples':[],'weights':[]},"
                 "{'type':'sampled','name':'b','unit':'bytes','samples':[],'weights':[]}]}",
                 i == 2 ? -1 : i);
        struct arena *arena = arena_new(0);
        struct err e;
        size_t n = unquote(text, json);
        struct model_profile *p = codec_read_speedscope(arena, (const uint8_t *)text, n, &e);
        assert_non_null(p);
        assert_true(str_eq(model_str(p, p->default_type), str_from(expected[i])));
        arena_free(arena);
    }
}

static void broken_files_are_refused(void **state)
{
#define SAMPLED "{" FRAMES ",'profiles':[{'type':'sampled','name':'x','unit':'none',"
#define EVENTED "{" FRAMES ",'profiles':[{'type':'evented','name':'x','unit':'seconds','events':["
    is_refused("{'shared':", "not JSON");
    is_refused("[]", "shared.frames");
    is_refused("{'shared':{'frames':[{}]}}", "shared.frames[0]");
    is_refused("{" FRAMES "}", "`profiles`");
    is_refused("{" FRAMES ",'profiles':[{'type':'sampled','unit':'furlongs'}]}",
               "profiles[0]: expected a `unit`");
    is_refused("{" FRAMES ",'profiles':[{'type':'odd','unit':'none'}]}", "neither sampled");
    is_refused(SAMPLED "'samples':[[0]],'weights':[]}]}", "not as many");
    is_refused(SAMPLED "'samples':[[3]],'weights':[1]}]}", "not in `shared.frames`");
    is_refused(SAMPLED "'samples':[[-1]],'weights':[1]}]}", "not in `shared.frames`");
    is_refused(SAMPLED "'samples':[0],'weights':[1]}]}", "not a list");
    is_refused(SAMPLED "'samples':[[0]],'weights':['1']}]}", "not a number");
    is_refused(SAMPLED "'samples':[[0]],'weights':[1e30]}]}", "too large");
    is_refused(EVENTED "{'type':'C','frame':0,'at':1}]}]}", "opened last");
    is_refused(EVENTED "{'type':'O','frame':0,'at':2},{'type':'C','frame':0,'at':1}]}]}",
               "backwards");
    is_refused(EVENTED "{'type':'O','frame':0,'at':1e10}]}]}", "too large");
    is_refused(EVENTED "{'type':'X','frame':0,'at':1}]}]}", "neither of type");
    is_refused(EVENTED "{'type':'O','frame':0}]}]}", "no time");
}

// A stack that only grows costs its depth for each event.
static void depth_is_limited(void **state)
{
    struct out out;
    char text[4096];
    out_init_memory(&out, 16 << 20);
    unquote(text, EVENTED);
    out_text(&out, text);
    unquote(text, "{'type':'O','frame':0,'at':1},");
    for (int i = 0; i < 5000; i++)
        out_text(&out, text);
    unquote(text, "{'type':'O','frame':0,'at':1}]}]}");
    out_text(&out, text);
    raw_refused(codec_read_speedscope, out.p, out.n, "more than 4096");
    out_fini(&out);
}

static void json_depth_is_limited(void **state)
{
    static char deep[100000];
    memset(deep, '[', sizeof deep);
    raw_refused(codec_read_speedscope, deep, sizeof deep, "not JSON");
}

static void what_is_written_is_read(void **state)
{
    struct arena *arena = arena_new(0);
    struct model_builder b;
    model_build(&b, arena);
    model_build_type(&b, STR("samples"), STR("count"));
    model_build_type(&b, STR("cpu"), STR("nanoseconds"));
    uint32_t name = model_build_string(&b, STR("a \"b\"\n\xff")),
             file = model_build_string(&b, STR("x.c"));
    uint32_t inlined = model_build_string(&b, STR("inlined"));
    struct model_line lines[] = {
        {.function = model_build_function(&b, inlined, inlined, 0, 0)},
        {.function = model_build_function(&b, name, name, file, 0), .line = 5, .column = 6},
    };
    uint32_t frames[] = {
        model_build_location(&b, MODEL_NONE, 1, lines, 2),
        model_build_location(&b, MODEL_NONE, 0x123, lines, 0),
        model_build_location(&b, MODEL_NONE, 2, lines + 1, 1),
    };
    model_build_sample(&b, frames, 3, (int64_t[]){1, 1000});
    model_build_sample(&b, frames, 1, (int64_t[]){0, 2000});
    struct out out;
    out_init_memory(&out, 1 << 20);
    codec_write_speedscope(b.p, STR("test"), &out);
    assert_int_equal(out.error, 0);
    assert_true(codec_looks_like_speedscope((struct str){out.p, out.n}));

    struct json root, cpu = {0};
    int64_t number;
    assert_int_equal(json_parse(arena, out_result(&out), &root, NULL), 0);
    assert_true(
        json_is(json_get(root, "$schema"), "https://www.speedscope.app/file-format-schema.json"));
    assert_true(json_i64(json_get(root, "activeProfileIndex"), &number) && number == 1);
    assert_int_equal(json_size(json_get(json_get(root, "shared"), "frames")), 3);
    for (struct json_each i = json_each(json_get(root, "profiles")); json_next(&i);)
        cpu = i.value; // the second of two
    assert_true(json_is(json_get(cpu, "unit"), "nanoseconds"));
    assert_true(json_i64(json_get(cpu, "endValue"), &number) && number == 3000);

    raw_compare(codec_read_speedscope, out.p, out.n,
                "/ 0, 0 ns\nsamples/count time/nanoseconds\n"
                "1 0: 2 1 3 1 | profile=samples\n"
                "0 1000: 2 1 3 1 | profile=cpu\n"
                "0 2000: 2 1 | profile=cpu\n"
                "Locations\n"
                "1: 0x0 a \"b\"\n\xef\xbf\xbd x.c:5:6\n"
                "2: 0x0 inlined :0:0\n"
                "3: 0x0 0x123 :0:0\n"
                "Mappings\n");
    out_fini(&out);
    arena_free(arena);
}

// Each profile of a file has its own tables, of the frames that it uses: many profiles and many
// frames do not multiply.
static void profiles_one_by_one(void **state)
{
    enum { PROFILES = 2000, FRAMES_OF_FILE = 2000 };
    struct arena *arena = arena_new((size_t)64 << 20);
    struct out out;
    out_init_memory(&out, 1 << 20);
    out_text(&out, "{\"shared\":{\"frames\":[");
    for (int i = 0; i < FRAMES_OF_FILE; i++)
        out_printf(&out, "%s{\"name\":\"f%d\"}", i ? "," : "", i);
    out_text(&out, "]},\"profiles\":[");
    for (int i = 0; i < PROFILES; i++)
        out_printf(&out,
                   "%s{\"type\":\"sampled\",\"name\":\"p%d\",\"unit\":\"none\",\"startValue\":1.5,"
                   "\"samples\":[[%d,0]],\"weights\":[%d]}",
                   i ? "," : "", i, i % FRAMES_OF_FILE, i + 1);
    out_text(&out, "]}");
    struct codec_speedscope *each;
    struct err e = {""};
    size_t n;
    assert_int_equal(
        codec_read_speedscope_each(arena, (const uint8_t *)out.p, out.n, &each, &n, &e), 0);
    out_fini(&out);
    assert_int_equal(n, PROFILES);
    const struct model_profile *p = each[77].profile;
    assert_true(str_eq(each[77].name, STR("p77")) && each[77].start == 1.5);
    assert_int_equal(p->n_locations, 2);
    assert_int_equal(p->n_samples, 1);
    assert_int_equal(p->values[0], 78);
    const struct model_location *leaf = &p->locations[model_stack(p, 0)[0]];
    assert_true(
        str_eq(model_str(p, p->functions[p->lines[leaf->first_line].function].name), STR("f0")));
    arena_free(arena);
}

static void detection(void **state)
{
    assert_true(codec_looks_like_speedscope(STR(" {\"profiles\":[],\"shared\":{}}")));
    assert_false(codec_looks_like_speedscope(STR("{\"profiles\":[]}")));
    assert_false(codec_looks_like_speedscope(STR("[\"profiles\",\"shared\"]")));
    assert_false(codec_looks_like_speedscope(STR("")));
}

static void little_memory(void **state)
{
    char text[4096];
    size_t n = unquote(text, SAMPLED "'samples':[[0,1]],'weights':[1]}]}");
    raw_with_little_memory(codec_read_speedscope, text, n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sampled),
        cmocka_unit_test(evented),
        cmocka_unit_test(several_profiles),
        cmocka_unit_test(active_profile_is_the_default),
        cmocka_unit_test(broken_files_are_refused),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(json_depth_is_limited),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(profiles_one_by_one),
        cmocka_unit_test(detection),
        cmocka_unit_test(little_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
