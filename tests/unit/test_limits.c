// Every module under every memory limit, from next to nothing to enough: what it does either
// works or ends in an error with a sentence. A sanitizer sees what was left behind.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/transform.h"
#include "report/flame.h"
#include "report/report.h"
#include "stacks.h"

// What all of them start from, and the largest limit that is tried.
static struct str input;
enum { ENOUGH = 24 << 20, STEP = 32 << 10, ROUNDS = 14 };

static void build_input(struct arena *arena)
{
    struct model_builder *b = stacks_new(arena);
    model_build_type(b, STR("cpu"), STR("nanoseconds"));
    struct model_mapping m = {.start = 0x1000,
                              .limit = 0x900000,
                              .file = model_build_string(b, STR("/usr/bin/a/rather/long/name"))};
    uint32_t mapping = model_build_mapping(b, m);
    uint64_t seed = 3;
    for (int64_t i = 0; i < 400; i++) {
        uint32_t frames[12];
        for (uint32_t k = 0; k < 12; k++) {
            char text[100];
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            uint32_t f = (uint32_t)(seed >> 40) % (k == 11 ? 1 : 2000 / (12 - k));
            int n = snprintf(text, sizeof text, "ns::Class%u::method%u@dir/../file%u.c#%u%s", k, f,
                             f % 50, f, f % 5 ? "" : "+inlined@header.h#7");
            frames[k] =
                stacks_frame(b, (struct str){text, (size_t)n}, mapping, 0x2000 + f * 16 + k);
        }
        char user[32];
        int n = snprintf(user, sizeof user, "user-%d", (int)(i % 700));
        model_build_label(b, STR("user"), (struct str){user, (size_t)n});
        if (i % 3 == 0)
            model_build_number_label(b, STR("bytes"), i % 40 * 512, STR("bytes"));
        if (i % 7 == 0)
            model_build_number_label(b, STR("bytes"), i, STR("kb"));
        model_build_sample(b, frames, 12, (int64_t[]){1 + i % 5, i * 1000});
    }
    for (int i = 0; i < 30; i++)
        model_build_comment(b, str_from(arena_printf(arena, "comment %d", i)));
    b->p->drop_frames = model_build_string(b, STR(".*method1"));
    b->p->time_nanos = 1700000000000000000;
    b->p->duration_nanos = 2000000000;
    input = stacks_bytes(b->p, arena);
}

static struct arena *inputs;

static int set_up(void **state)
{
    inputs = arena_new(0);
    if (!inputs)
        return -1;
    build_input(inputs);
    return 0;
}

static int tear_down(void **state)
{
    arena_free(inputs);
    return 0;
}

typedef int task(struct arena *arena, const struct model_profile *p, struct err *e);

static int attempt(task *run, struct arena *arena, const struct model_profile *p, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap))
        return arena_caught(arena, e);
    int result = run(arena, p, e);
    arena_try_end(arena);
    return result;
}

// The least limit, in steps, with which the input can be read.
static size_t reading_takes(size_t step)
{
    for (size_t limit = 4096;; limit += step) {
        struct arena *arena = arena_new(limit);
        struct err e = {.message = ""};
        bool worked = codec_read_pprof(arena, (const uint8_t *)input.p, input.n, &e);
        if (!worked)
            assert_non_null(strstr(e.message, "the limit"));
        arena_free(arena);
        assert_true(limit < ENOUGH);
        if (worked)
            return limit;
    }
}

// Room that is taken before a task begins, in blocks.
enum { BLOCK = 112 };
static size_t padding;

static int pad(struct arena *arena, const struct model_profile *p, struct err *e)
{
    for (size_t n = 0; n < padding; n++)
        arena_alloc(arena, BLOCK);
    return 0;
}

static size_t n_blocks;

static int fill(struct arena *arena, const struct model_profile *p, struct err *e)
{
    for (n_blocks = 0; n_blocks < ENOUGH / BLOCK; n_blocks++)
        arena_alloc(arena, BLOCK);
    return 0;
}

// Reads the input and works on it in one arena. Whether it worked.
static bool try_with(const char *name, task *run, size_t limit)
{
    struct arena *arena = arena_new(limit);
    struct err e = {.message = ""};
    struct model_profile *p = codec_read_pprof(arena, (const uint8_t *)input.p, input.n, &e);
    assert_non_null(p);
    assert_int_equal(attempt(pad, arena, p, &e), 0);
    bool worked = attempt(run, arena, p, &e) == 0;
    if (!worked && !strstr(e.message, "the limit"))
        fail_msg("%s with %zu: %s", name, limit, e.message);
    arena_free(arena);
    return worked;
}

// First with a limit that lets the input be read and then with ever more, until that is
// enough; then with that limit and ever less of it left. An arena takes its memory in chunks:
// it is the second that makes it run out at many places, most of them in the first steps of
// a task.
static void sweep(const char *name, task *run)
{
    static size_t least;
    if (!least)
        least = reading_takes(STEP);
    size_t limit = least;
    padding = 0;
    while (!try_with(name, run, limit)) {
        limit += limit / 12;
        if (limit > ENOUGH)
            fail_msg("%s needs more than %d bytes", name, ENOUGH);
    }
    assert_false(try_with(name, fill, limit));
    size_t room = n_blocks;
    for (size_t i = 0; i < ROUNDS; i++) {
        padding = i * room / ROUNDS;
        try_with(name, run, limit);
        padding = i * 7 < room ? room - i * 7 : 0;
        bool worked = try_with(name, run, limit);
        if (i == 0 && worked)
            fail_msg("%s works without memory", name);
    }
    padding = 0;
}

static void reading(void **state)
{
    assert_true(reading_takes(8192) > 16 * 8192);
}

// With stacks of its own, to be used up.
static struct model_profile *copy(const struct model_profile *p, double ratio, struct arena *arena)
{
    struct model_profile *to = model_scale(p, (double[]){ratio, ratio}, arena);
    to->stacks = arena_array(arena, p->n_samples + 1, sizeof *to->stacks);
    for (size_t i = 0; i < p->n_samples; i++) {
        to->stacks[i] = arena_array(arena, p->stack_len[i], sizeof **to->stacks);
        memcpy(to->stacks[i], model_stack(p, i), p->stack_len[i] * sizeof **to->stacks);
    }
    return to;
}

static int merge_three(struct arena *arena, const struct model_profile *p, struct err *e)
{
    struct model_profile *all[3] = {copy(p, 1, arena), copy(p, -1, arena), copy(p, 1, arena)};
    if (model_make_compatible(all, 3, arena, e))
        return -1;
    return model_merge_take(all, 3, arena, e) ? 0 : -1;
}

static void merging(void **state)
{
    sweep("merge", merge_three);
}

static int filter_all(struct arena *arena, const struct model_profile *p, struct err *e)
{
    bool matched[4];
    struct model_regex *focus = model_regex_new(arena, "focus", STR("method(1|2)+"), e);
    struct model_regex *ignore = model_regex_new(arena, "ignore", STR("method77$"), e);
    struct model_regex *hide = model_regex_new(arena, "hide", STR("inlined"), e);
    struct model_regex *show = model_regex_new(arena, "show", STR("Class[0-9]"), e);
    struct model_tag_filter *tags =
        model_tag_filter_new(arena, "tagfocus", STR("user,user-[0-9]*"), NULL, e);
    struct model_tag_filter *range =
        model_tag_filter_new(arena, "tagignore", STR("1mb:2mb"), NULL, e);
    if (!focus || !ignore || !hide || !show || !tags || !range)
        return -1;
    uint32_t *units = model_label_units(p, arena, NULL, NULL);
    p = model_add_label_frames(p, STR("user"), STR("bytes"), STR("kb"), matched, matched + 1,
                               arena);
    p = model_drop_uninteresting(p, arena);
    p = model_filter_frames(p, focus, ignore, hide, show, matched, arena);
    p = model_show_from(p, focus, matched, arena);
    p = model_prune_from(p, show, arena);
    p = model_filter_tags(p, tags, range, units, matched, matched + 1, arena);
    p = model_filter_label_keys(p, NULL, hide, matched, matched + 1, arena);
    p = model_set_label(p, STR("new"), STR("label"), arena);
    p = model_aggregate(p, (struct model_detail){.functions = true}, arena);
    return p->n_samples > 0 ? 0 : err_set(e, "nothing is left");
}

static void filtering(void **state)
{
    sweep("filters", filter_all);
}

static enum report_format format;
static bool call_tree;

static int write_report(struct arena *arena, const struct model_profile *p, struct err *e)
{
    struct report r = {.p = p, .arena = arena, .total = report_total(p, 1, false)};
    struct out out;
    r.o = (struct report_options){
        .format = format,
        .call_tree = call_tree,
        .ratio = 1,
        .node_count = format == REPORT_DOT ? 40 : 0,
        .node_fraction = 0.001,
        .type = 1,
        .type_name = STR("cpu"),
        .unit = STR("nanoseconds"),
        .output_unit = STR("minimum"),
        .label_units = model_label_units(p, arena, NULL, NULL),
    };
    out_init_memory(&out, 256 << 20);
    int result = report_write(&r, &out, e);
    if (result == 0)
        assert_true(out.n > 0);
    out_fini(&out);
    return result;
}

static void reporting(void **state)
{
    static const char *const names[] = {
        [REPORT_TEXT] = "text",     [REPORT_TREE] = "tree",
        [REPORT_TRACES] = "traces", [REPORT_TAGS] = "tags",
        [REPORT_RAW] = "raw",       [REPORT_COMMENTS] = "comments",
        [REPORT_DOT] = "dot",       [REPORT_CALLGRIND] = "callgrind",
        [REPORT_PROTO] = "proto",   [REPORT_TOPPROTO] = "topproto",
    };
    for (format = REPORT_TEXT; format <= REPORT_TOPPROTO; format++)
        sweep(names[format], write_report);
}

static void reporting_call_trees(void **state)
{
    call_tree = true;
    format = REPORT_DOT;
    sweep("dot of a call tree", write_report);
    call_tree = false;
}

static int write_flame(struct arena *arena, const struct model_profile *p, struct err *e)
{
    struct report_flame_options options = {
        .type = 1, .all_types = true, .functions = true, .base = p};
    struct report_flame *flame = report_flame_new(arena, p, &options, e);
    return flame ? 0 : -1;
}

static void flames(void **state)
{
    sweep("flame", write_flame);
}

// The other end: an output that takes only so much.
static void small_outputs(void **state)
{
    struct arena *arena = arena_new(0);
    struct err e = {.message = ""};
    struct model_profile *p = codec_read_pprof(arena, (const uint8_t *)input.p, input.n, &e);
    for (format = REPORT_TEXT; format <= REPORT_TOPPROTO; format++) {
        for (size_t limit = 0; limit < 20000; limit = limit * 3 + 1) {
            struct report r = {.p = p, .arena = arena, .total = 1000};
            struct out out;
            r.o = (struct report_options){.format = format,
                                          .ratio = 1,
                                          .node_count = 20,
                                          .unit = STR("count"),
                                          .output_unit = STR("minimum")};
            r.o.label_units = model_label_units(p, arena, NULL, NULL);
            out_init_memory(&out, limit);
            int result = report_write(&r, &out, &e);
            if (result == 0)
                result = out_finish(&out, &e);
            size_t n = out.n;
            out_fini(&out);
            assert_true(n <= limit);
            if (result)
                assert_non_null(strstr(e.message, "larger than"));
        }
    }
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading),
        cmocka_unit_test(merging),
        cmocka_unit_test(filtering),
        cmocka_unit_test(reporting),
        cmocka_unit_test(reporting_call_trees),
        cmocka_unit_test(flames),
        cmocka_unit_test(small_outputs),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
