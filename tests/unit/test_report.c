#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "model/transform.h"
#include "report/report.h"
#include "stacks.h"
#include "arena_fixture.h"

static int set_up(void **state)
{
    setenv("TZ", "UTC", 1);
    tzset();
    return make_arena(state);
}

// A little of everything: an inlined call, a frame without a name, labels, a header.
static struct model_profile *small(void)
{
    struct model_builder *b = stacks_new(arena);
    model_build_type(b, STR("cpu"), STR("nanoseconds"));
    struct model_profile *p = b->p;
    struct model_mapping m = {.start = 0x400000,
                              .limit = 0x500000,
                              .file = model_build_string(b, STR("/usr/bin/app")),
                              .build_id = model_build_string(b, STR("beef01")),
                              .has_functions = true};
    uint32_t app = model_build_mapping(b, m);
    uint32_t start = stacks_frame(b, STR("main@src/main.c#12"), app, 0x400010);
    uint32_t work =
        stacks_frame(b, STR("work@src/work.c#40+ns::Queue::pop@src/queue.h#7"), app, 0x400120);
    uint32_t rest = stacks_frame(b, STR("rest@src/work.c#50"), app, 0x400200);
    uint32_t unknown = model_build_location(b, app, 0x4fff00, NULL, 0);
    model_build_label(b, STR("user"), STR("ann"));
    model_build_number_label(b, STR("bytes"), 2048, STR("bytes"));
    model_build_sample(b, (uint32_t[]){work, start}, 2, (int64_t[]){3, 30000000});
    model_build_label(b, STR("user"), STR("bob \"<&>\""));
    model_build_sample(b, (uint32_t[]){rest, start}, 2, (int64_t[]){1, 10000000});
    model_build_sample(b, (uint32_t[]){unknown, rest, start}, 3, (int64_t[]){2, 20000000});
    model_build_sample(b, (uint32_t[]){start}, 1, (int64_t[]){4, 40000000});
    model_build_comment(b, STR("made by hand"));
    p->period_type = p->types[1];
    p->period = 10000000;
    p->time_nanos = 1700000000000000000;
    p->duration_nanos = 2000000000;
    return p;
}

// As the command line asks for it: by functions, or by addresses where everything is shown.
static struct report *report_of(const struct model_profile *p, enum report_format format)
{
    struct report *r = arena_alloc(arena, sizeof *r);
    bool whole = format == REPORT_RAW || format == REPORT_CALLGRIND || format == REPORT_PROTO;
    *r = (struct report){.arena = arena, .total = report_total(p, 1, false)};
    r->p = whole ? p
                 : model_aggregate(p, (struct model_detail){.inlines = true, .functions = true},
                                   arena);
    r->o = (struct report_options){
        .format = format,
        .ratio = 1,
        .node_fraction = whole ? 0 : 0.005,
        .edge_fraction = whole ? 0 : 0.001,
        .type = 1,
        .type_name = STR("cpu"),
        .unit = STR("nanoseconds"),
        .output_unit = STR("minimum"),
        .title = STR("app"),
        .label_units = model_label_units(p, arena, NULL, NULL),
    };
    return r;
}

static struct str written(struct report *r)
{
    struct out out;
    struct err e = {.message = ""};
    out_init_memory(&out, 1 << 20);
    if (report_write(r, &out, &e))
        fail_msg("%s", e.message);
    struct str text = {arena_copy(arena, out.p, out.n), out.n};
    out_fini(&out);
    return text;
}

// --- what google/pprof prints of that profile ---

static const char top_text[] =
    "File: app\n"
    "Build ID: beef01\n"
    "made by hand\n"
    "Type: cpu\n"
    "Time: 2023-11-14 22:13:20 UTC\n"
    "Duration: 2s, Total samples = 100ms ( 5.00%)\n"
    "Showing nodes accounting for 100ms, 100% of 100ms total\n"
    "      flat  flat%   sum%        cum   cum%\n"
    "      40ms 40.00% 40.00%      100ms   100%  main\n"
    "      30ms 30.00% 70.00%       30ms 30.00%  ns::Queue::pop (inline)\n"
    "      20ms 20.00% 90.00%       20ms 20.00%  [app]\n"
    "      10ms 10.00%   100%       30ms 30.00%  rest\n"
    "         0     0%   100%       30ms 30.00%  work\n";

static const char tree_text[] =
    "File: app\n"
    "Build ID: beef01\n"
    "made by hand\n"
    "Type: cpu\n"
    "Time: 2023-11-14 22:13:20 UTC\n"
    "Duration: 2s, Total samples = 100ms ( 5.00%)\n"
    "Showing nodes accounting for 100ms, 100% of 100ms total\n"
    "----------------------------------------------------------+-------------\n"
    "      flat  flat%   sum%        cum   cum%   calls calls% + context \t \t \n"
    "----------------------------------------------------------+-------------\n"
    "      40ms 40.00% 40.00%      100ms   100%                | main\n"
    "                                              30ms 30.00% |   rest\n"
    "                                              30ms 30.00% |   work\n"
    "----------------------------------------------------------+-------------\n"
    "                                              30ms   100% |   work (inline)\n"
    "      30ms 30.00% 70.00%       30ms 30.00%                | ns::Queue::pop\n"
    "----------------------------------------------------------+-------------\n"
    "                                              20ms   100% |   rest\n"
    "      20ms 20.00% 90.00%       20ms 20.00%                | [app]\n"
    "----------------------------------------------------------+-------------\n"
    "                                              30ms   100% |   main\n"
    "      10ms 10.00%   100%       30ms 30.00%                | rest\n"
    "                                              20ms 66.67% |   [app]\n"
    "----------------------------------------------------------+-------------\n"
    "                                              30ms   100% |   main\n"
    "         0     0%   100%       30ms 30.00%                | work\n"
    "                                              30ms   100% |   ns::Queue::pop (inline)\n"
    "----------------------------------------------------------+-------------\n";

static const char peek_text[] =
    "File: app\n"
    "Build ID: beef01\n"
    "made by hand\n"
    "Type: cpu\n"
    "Time: 2023-11-14 22:13:20 UTC\n"
    "Duration: 2s, Total samples = 100ms ( 5.00%)\n"
    "Showing nodes accounting for 100ms, 100% of 100ms total\n"
    "----------------------------------------------------------+-------------\n"
    "      flat  flat%   sum%        cum   cum%   calls calls% + context \t \t \n"
    "----------------------------------------------------------+-------------\n"
    "                                              30ms   100% |   work (inline)\n"
    "      30ms 30.00% 30.00%       30ms 30.00%                | ns::Queue::pop\n"
    "----------------------------------------------------------+-------------\n";

static const char traces_text[] =
    "File: app\n"
    "Build ID: beef01\n"
    "made by hand\n"
    "Type: cpu\n"
    "Time: 2023-11-14 22:13:20 UTC\n"
    "Duration: 2s, Total samples = 100ms ( 5.00%)\n"
    "-----------+-------------------------------------------------------\n"
    "      user:  ann\n"
    "     bytes:  2kB\n"
    "      30ms   ns::Queue::pop (inline)\n"
    "             work\n"
    "             main\n"
    "-----------+-------------------------------------------------------\n"
    "      user:  bob \"<&>\"\n"
    "      10ms   rest\n"
    "             main\n"
    "-----------+-------------------------------------------------------\n"
    "      20ms   [app]\n"
    "             rest\n"
    "             main\n"
    "-----------+-------------------------------------------------------\n"
    "      40ms   main\n"
    "-----------+-------------------------------------------------------\n";

static const char tags_text[] = " bytes: Total 30ms of 100ms (30.00%)\n"
                                "        30ms (30.00%): 2kB\n"
                                "\n"
                                " user: Total 40ms of 100ms (40.00%)\n"
                                "       30ms (30.00%): ann\n"
                                "       10ms (10.00%): bob \"<&>\"\n"
                                "\n";

static const char raw_text[] = "Comment: made by hand\n"
                               "PeriodType: cpu nanoseconds\n"
                               "Period: 10000000\n"
                               "Time: 2023-11-14 22:13:20 +0000 UTC\n"
                               "Duration: 2s\n"
                               "Samples:\n"
                               "samples/count cpu/nanoseconds\n"
                               "          3   30000000: 2 1 \n"
                               "                user:[ann]\n"
                               "                bytes:[2048 bytes]\n"
                               "          1   10000000: 3 1 \n"
                               "                user:[bob \"<&>\"]\n"
                               "          2   20000000: 4 3 1 \n"
                               "          4   40000000: 1 \n"
                               "Locations\n"
                               "     1: 0x400010 M=1 main src/main.c:12:0 s=0\n"
                               "     2: 0x400120 M=1 ns::Queue::pop src/queue.h:7:0 s=0\n"
                               "             work src/work.c:40:0 s=0\n"
                               "     3: 0x400200 M=1 rest src/work.c:50:0 s=0\n"
                               "     4: 0x4fff00 M=1 \n"
                               "Mappings\n"
                               "1: 0x400000/0x500000/0x0 /usr/bin/app beef01 [FN]\n";

static const char comments_text[] = "made by hand\n";

static const char dot_text[] =
    "digraph \"app\" {\n"
    "node [style=filled fillcolor=\"#f8f8f8\"]\n"
    "subgraph cluster_L { \"File: app\" [shape=box fontsize=16 label=\"File: app\\lBuild ID: be"
    "ef01\\lmade by hand\\lType: cpu\\lTime: 2023-11-14 22:13:20 UTC\\lDuration: 2s, Total samp"
    "les = 100ms ( 5.00%)\\lShowing nodes accounting for 100ms, 100% of 100ms total\\l\\lSee ht"
    "tps://git.io/JfYMW for how to read the graph\\l\" tooltip=\"app\"] }\n"
    "N1 [label=\"main\\n40ms (40.00%)\\nof 100ms (100%)\" id=\"node1\" fontsize=24 shape=box to"
    "oltip=\"main (100ms)\" color=\"#b20000\" fillcolor=\"#edd5d5\"]\n"
    "N2 [label=\"Queue\\npop\\n30ms (30.00%)\" id=\"node2\" fontsize=22 shape=box tooltip=\"ns:"
    ":Queue::pop (30ms)\" color=\"#b23600\" fillcolor=\"#eddcd5\"]\n"
    "N2_0 [label = \"user:ann\" id=\"N2_0\" fontsize=8 shape=box3d tooltip=\"30ms\"]\n"
    "N2 -> N2_0 [label=\" 30ms\" weight=100 tooltip=\"30ms\" labeltooltip=\"30ms\"]\n"
    "NN2_0_0 [label = \"2kB\" id=\"NN2_0_0\" fontsize=8 shape=box3d tooltip=\"30ms\"]\n"
    "N2_0 -> NN2_0_0 [label=\" 30ms\" weight=100 tooltip=\"30ms\" labeltooltip=\"30ms\"]\n"
    "N3 [label=\"[app]\\n20ms (20.00%)\" id=\"node3\" fontsize=20 shape=box tooltip=\"[app] (20"
    "ms)\" color=\"#b24400\" fillcolor=\"#edded5\"]\n"
    "N4 [label=\"rest\\n10ms (10.00%)\\nof 30ms (30.00%)\" id=\"node4\" fontsize=16 shape=box t"
    "ooltip=\"rest (30ms)\" color=\"#b23600\" fillcolor=\"#eddcd5\"]\n"
    "N4_0 [label = \"user:bob \"<&>\"\" id=\"N4_0\" fontsize=8 shape=box3d tooltip=\"10ms\"]\n"
    "N4 -> N4_0 [label=\" 10ms\" weight=100 tooltip=\"10ms\" labeltooltip=\"10ms\"]\n"
    "N5 [label=\"work\\n0 of 30ms (30.00%)\" id=\"node5\" fontsize=8 shape=box tooltip=\"work ("
    "30ms)\" color=\"#b23600\" fillcolor=\"#eddcd5\"]\n"
    "N1 -> N4 [label=\" 30ms\" weight=31 penwidth=2 color=\"#b23600\" tooltip=\"main -> rest (3"
    "0ms)\" labeltooltip=\"main -> rest (30ms)\"]\n"
    "N1 -> N5 [label=\" 30ms\" weight=31 penwidth=2 color=\"#b23600\" tooltip=\"main -> work (3"
    "0ms)\" labeltooltip=\"main -> work (30ms)\"]\n"
    "N5 -> N2 [label=\" 30ms\\n (inline)\" weight=31 penwidth=2 color=\"#b23600\" tooltip=\"wor"
    "k -> ns::Queue::pop (30ms)\" labeltooltip=\"work -> ns::Queue::pop (30ms)\"]\n"
    "N4 -> N3 [label=\" 20ms\" weight=21 penwidth=2 color=\"#b24400\" tooltip=\"rest -> [app] ("
    "20ms)\" labeltooltip=\"rest -> [app] (20ms)\" minlen=2]\n"
    "}\n";

static const char callgrind_text[] = "positions: instr line\n"
                                     "events: cpu(ms)\n"
                                     "\n"
                                     "ob=(1) /usr/bin/app\n"
                                     "fl=(1) src/main.c\n"
                                     "fn=(1) main\n"
                                     "0x400010 12 40\n"
                                     "cfl=(2) src/work.c\n"
                                     "cfn=(2) work\n"
                                     "calls=0 0x400120 40\n"
                                     "* * 30\n"
                                     "cfl=(2)\n"
                                     "cfn=(3) rest\n"
                                     "calls=0 0x400200 50\n"
                                     "* * 30\n"
                                     "\n"
                                     "ob=(1)\n"
                                     "fl=(3) src/queue.h\n"
                                     "fn=(4) ns::Queue::pop\n"
                                     "+272 7 30\n"
                                     "\n"
                                     "ob=(1)\n"
                                     "fl=\n"
                                     "fn=\n"
                                     "0x4fff00 0 20\n"
                                     "\n"
                                     "ob=(1)\n"
                                     "fl=(2)\n"
                                     "fn=(3)\n"
                                     "0x400200 50 10\n"
                                     "cfl=\n"
                                     "cfn=\n"
                                     "calls=0 * 0\n"
                                     "* * 20\n"
                                     "\n"
                                     "ob=(1)\n"
                                     "fl=(2)\n"
                                     "fn=(2)\n"
                                     "-224 40 0\n"
                                     "cfl=(3)\n"
                                     "cfn=(4)\n"
                                     "calls=0 -224 7\n"
                                     "* * 30\n";

static void formats_print_what_pprof_prints(void **state)
{
    static const struct {
        enum report_format format;
        const char *want;
    } cases[] = {
        {REPORT_TEXT, top_text},      {REPORT_TREE, tree_text},
        {REPORT_TRACES, traces_text}, {REPORT_TAGS, tags_text},
        {REPORT_RAW, raw_text},       {REPORT_COMMENTS, comments_text},
        {REPORT_DOT, dot_text},       {REPORT_CALLGRIND, callgrind_text},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_profile *p = small();
        struct str before = stacks_bytes(p, arena);
        assert_string_equal(written(report_of(p, cases[i].format)).p, cases[i].want);
        struct str after = stacks_bytes(p, arena);
        assert_int_equal(before.n, after.n);
        assert_memory_equal(before.p, after.p, after.n);
    }
}

static void peek_shows_one_function(void **state)
{
    struct err e = {.message = ""};
    struct report *r = report_of(small(), REPORT_TREE);
    r->o.symbol = model_regex_new(arena, "peek", STR("pop"), &e);
    r->o.node_fraction = r->o.edge_fraction = 0;
    assert_string_equal(written(r).p, peek_text);
    struct out out;
    out_init_memory(&out, 1 << 20);
    r = report_of(small(), REPORT_TREE);
    r->o.symbol = model_regex_new(arena, "peek", STR("nothing"), &e);
    assert_int_equal(report_write(r, &out, &e), -1);
    assert_string_equal(e.message, "no matches found for regexp: nothing");
    assert_int_equal(out.n, 0);
    out_fini(&out);
}

static struct model_profile *profile_written(struct report *r)
{
    struct err e = {.message = ""};
    struct str bytes = written(r);
    struct model_profile *p = codec_read(arena, (const uint8_t *)bytes.p, bytes.n, NULL, NULL, &e);
    if (!p)
        fail_msg("%s", e.message);
    return p;
}

static void proto_is_the_profile(void **state)
{
    struct model_profile *p = small(), *q = profile_written(report_of(p, REPORT_PROTO));
    struct str a = stacks_bytes(p, arena), b = stacks_bytes(q, arena);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.p, b.p, a.n);
    struct report *r = report_of(p, REPORT_PROTO);
    r->o.ratio = 0.5;
    assert_string_equal(stacks_text(profile_written(r), arena),
                        "main@src/main.c#12;work@src/work.c#40+ns::Queue::pop@src/queue.h#7 "
                        "1 15000000 {user=ann, bytes=2048bytes}\n"
                        "main@src/main.c#12;rest@src/work.c#50 0 5000000 {user=bob \"<&>\"}\n"
                        "main@src/main.c#12;rest@src/work.c#50;0x4fff00 1 10000000\n"
                        "main@src/main.c#12 2 20000000\n");
}

static void topproto_is_the_table(void **state)
{
    struct model_profile *p = profile_written(report_of(small(), REPORT_TOPPROTO));
    assert_string_equal(stacks_text(p, arena), "main 100 40\n"
                                               "ns::Queue::pop 30 30\n"
                                               " 20 20\n"
                                               "rest 30 10\n"
                                               "work 30 0\n");
    assert_true(str_eq(model_str(p, p->types[0].type), STR("cum")));
    assert_true(str_eq(model_str(p, p->types[1].unit), STR("ms")));
}

// Values are divided, shares are not.
static void values_are_scaled_by_the_ratio(void **state)
{
    struct report *r = report_of(small(), REPORT_TEXT);
    char text[64];
    r->o.ratio = 0.25;
    report_format_value(r, 100000000, text, sizeof text);
    assert_string_equal(text, "25ms");
    assert_non_null(strstr(written(r).p, "      10ms 40.00% 40.00%       25ms   100%  main\n"));
}

static void headers_tell_what_was_dropped(void **state)
{
    struct report *r = report_of(small(), REPORT_TEXT);
    r->o.node_fraction = 0.25;
    r->o.node_count = 2;
    r->o.filters = (const struct str[]){STR("focus=main")};
    r->o.n_filters = 1;
    r->o.compact_labels = true;
    assert_string_equal(written(r).p, "Active filters:\n"
                                      "   focus=main\n"
                                      "Showing nodes accounting for 70ms, 70.00% of 100ms total\n"
                                      "Dropped 1 node (cum <= 25ms)\n"
                                      "Showing top 2 nodes out of 4\n"
                                      "      flat  flat%   sum%        cum   cum%\n"
                                      "      40ms 40.00% 40.00%      100ms   100%  main\n"
                                      "      30ms 30.00% 70.00%       30ms 30.00%  "
                                      "ns::Queue::pop (inline)\n");
}

// Whatever is asked of a profile without samples is answered.
static void an_empty_profile(void **state)
{
    for (int format = REPORT_TEXT; format <= REPORT_TOPPROTO; format++) {
        struct model_builder *b = stacks_new(arena);
        model_build_type(b, STR("cpu"), STR("nanoseconds"));
        written(report_of(b->p, (enum report_format)format));
    }
    struct model_builder *b = stacks_new(arena);
    model_build_type(b, STR("cpu"), STR("nanoseconds"));
    assert_string_equal(written(report_of(b->p, REPORT_TEXT)).p,
                        "Type: cpu\n"
                        "Showing nodes accounting for 0, 0% of 0 total\n"
                        "      flat  flat%   sum%        cum   cum%\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_print_what_pprof_prints),
        cmocka_unit_test(peek_shows_one_function),
        cmocka_unit_test(proto_is_the_profile),
        cmocka_unit_test(topproto_is_the_table),
        cmocka_unit_test(values_are_scaled_by_the_ratio),
        cmocka_unit_test(headers_tell_what_was_dropped),
        cmocka_unit_test(an_empty_profile),
    };
    return cmocka_run_group_tests(tests, set_up, free_arena);
}
