#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/transform.h"
#include "stacks.h"
#include "arena_fixture.h"

static struct model_profile *merge(struct model_profile *a, struct model_profile *b)
{
    struct err e = {.message = ""};
    struct model_profile *p =
        model_merge_take((struct model_profile *[]){a, b}, b ? 2 : 1, arena, &e);
    if (!p)
        fail_msg("%s", e.message);
    assert_int_equal(model_check(p, &e), 0);
    return p;
}

// A profile of one sample of value 1, in one mapping, with an address and no lines.
static struct model_profile *one_address(struct model_mapping mapping, const char *file,
                                         const char *build_id, uint64_t address)
{
    struct model_builder *b = stacks_new(arena);
    mapping.file = model_build_string(b, str_from(file));
    mapping.build_id = model_build_string(b, str_from(build_id));
    uint32_t m = model_build_mapping(b, mapping);
    struct model_line none;
    uint32_t l = model_build_location(b, m, address, &none, 0);
    model_build_sample(b, &l, 1, (int64_t[]){1});
    return b->p;
}

static const struct model_mapping page = {.start = 0x1000, .limit = 0x2000};

static void mappings_are_equal_by_rounded_size_offset_and_name(void **state)
{
    static const struct {
        struct model_mapping mapping;
        const char *file, *build_id;
        uint32_t n;
    } cases[] = {
        {{.start = 0x1000, .limit = 0x2000}, "x", "", 1},
        {{.start = 0x1000, .limit = 0x1001}, "x", "", 1}, // rounded to pages
        {{.start = 0x1000, .limit = 0x2001}, "x", "", 2},
        {{.start = 0x1000, .limit = 0x2000, .offset = 16}, "x", "", 2},
        {{.start = 0x1000, .limit = 0x2000}, "y", "", 2},
        {{.start = 0x1000, .limit = 0x2000}, "y", "x", 1}, // a build id is a name like another
        {{.start = 0x1000, .limit = 0x2000}, "x", "b", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_profile *p =
            merge(one_address(page, "x", "", 0x1100),
                  one_address(cases[i].mapping, cases[i].file, cases[i].build_id, 0x1100));
        if (p->n_mappings != cases[i].n || p->n_samples != cases[i].n)
            fail_msg("case %zu: %u mappings", i, p->n_mappings);
    }
    struct model_profile *p =
        merge(one_address(page, "x", "b", 0x1100), one_address(page, "y", "b", 0x1100));
    assert_int_equal(p->n_mappings, 1);
    assert_true(str_eq(model_str(p, p->mappings[0].file), STR("x")));
}

// The second process had the binary elsewhere: its addresses move to where the first had it.
static void addresses_move_with_their_mapping(void **state)
{
    struct model_mapping elsewhere = {.start = 0x70000, .limit = 0x71000};
    struct model_profile *p =
        merge(one_address(page, "x", "", 0x1100), one_address(elsewhere, "x", "", 0x70100));
    assert_int_equal(p->n_locations, 1);
    assert_int_equal(p->locations[0].address, 0x1100);
    assert_int_equal(p->mappings[0].start, 0x1000);
    assert_int_equal(model_values(p, 0)[0], 2);
    p = merge(one_address(page, "x", "", 0x1100), one_address(elsewhere, "x", "", 0x70200));
    assert_int_equal(p->n_locations, 2);
    assert_int_equal(p->locations[1].address, 0x1200);
    // Downwards, too.
    p = merge(one_address(elsewhere, "x", "", 0x70100), one_address(page, "x", "", 0x1100));
    assert_int_equal(p->n_locations, 1);
    assert_int_equal(p->locations[0].address, 0x70100);
}

static struct model_profile *with_lines(const struct model_line *lines, uint32_t n, bool folded)
{
    struct model_builder *b = stacks_new(arena);
    uint32_t name = model_build_string(b, STR("f"));
    model_build_function(b, name, name, 0, 0);
    model_build_function(b, name, name, 0, 1);
    uint32_t l = model_build_location(b, MODEL_NONE, 7, lines, n);
    b->p->locations[l].is_folded = folded;
    model_build_sample(b, &l, 1, (int64_t[]){1});
    return b->p;
}

static void locations_are_equal_by_lines_and_the_last_column(void **state)
{
    static const struct model_line base[2] = {{.line = 1, .column = 5, .function = 0},
                                              {.line = 2, .column = 6, .function = 1}};
    static const struct {
        struct model_line lines[2];
        uint32_t n_lines;
        bool folded;
        uint32_t n;
    } cases[] = {
        {{{1, 5, 0}, {2, 6, 1}}, 2, false, 1},  {{{1, 99, 0}, {2, 6, 1}}, 2, false, 1},
        {{{1, 5, 0}, {2, 99, 1}}, 2, false, 2}, {{{1, 5, 1}, {2, 6, 1}}, 2, false, 2},
        {{{9, 5, 0}, {2, 6, 1}}, 2, false, 2},  {{{1, 5, 0}, {2, 6, 1}}, 1, false, 2},
        {{{1, 5, 0}, {2, 6, 1}}, 2, true, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_profile *p =
            merge(with_lines(base, 2, false),
                  with_lines(cases[i].lines, cases[i].n_lines, cases[i].folded));
        if (p->n_locations != cases[i].n || p->n_samples != cases[i].n)
            fail_msg("case %zu: %u locations", i, p->n_locations);
        assert_int_equal(p->lines[p->locations[0].first_line].column, 5);
    }
}

static void functions_are_equal_by_all_they_have(void **state)
{
    struct model_builder *b = stacks_new(arena), *c = stacks_new(arena);
    stacks_add1(b, "f@x.c;g", 1);
    stacks_add1(c, "g;f@y.c;f@x.c", 1);
    struct model_profile *p = merge(b->p, c->p);
    assert_int_equal(p->n_functions, 3);
    assert_string_equal(stacks_text(p, arena), "f@x.c;g 1\ng;f@y.c;f@x.c 1\n");
}

static void label(struct model_builder *b, const char *key, const char *value)
{
    model_build_label(b, str_from(key), str_from(value));
}

static void samples_are_equal_by_stack_and_labels(void **state)
{
    struct model_builder *b = stacks_new(arena), *c = stacks_new(arena);
    model_build_string(c, STR("ids differ")); // from those of the other profile
    label(b, "k", "v");
    stacks_add1(b, "main;f", 1);
    stacks_add1(b, "main;f", 2);
    model_build_number_label(b, STR("n"), 5, STR("bytes"));
    stacks_add1(b, "main;f", 4);
    model_build_number_label(c, STR("n"), 5, STR("kb"));
    stacks_add1(c, "main;f", 10);
    model_build_number_label(c, STR("n"), 5, STR("bytes"));
    stacks_add1(c, "main;f", 20);
    label(c, "k", "v");
    stacks_add1(c, "main;f", 40);
    label(c, "k", "w");
    stacks_add1(c, "main;f", 80);
    stacks_add1(c, "main", 100);
    stacks_add1(c, "main;f", 200);
    assert_string_equal(stacks_text(merge(b->p, c->p), arena), "main;f 41 {k=v}\n"
                                                               "main;f 202\n"
                                                               "main;f 24 {n=5bytes}\n"
                                                               "main;f 10 {n=5kb}\n"
                                                               "main;f 80 {k=w}\n"
                                                               "main 100\n");
}

// What is zero from the start takes nothing along; what cancels out goes with all it had.
static void zeros_leave_nothing_behind(void **state)
{
    struct model_builder *b = stacks_new(arena), *c = stacks_new(arena);
    label(b, "only", "here");
    stacks_add1(b, "zero", 0);
    stacks_add1(b, "main;gone", 3);
    stacks_add1(b, "main;stays", 4);
    stacks_add1(c, "main;gone", -3);
    struct model_profile *p = merge(b->p, c->p);
    assert_string_equal(stacks_text(p, arena), "main;stays 4\n");
    assert_int_equal(p->n_locations, 2);
    assert_int_equal(p->n_functions, 2);
    assert_int_equal(p->n_lines, 2);
    assert_null(p->label_set);
    assert_int_equal(model_find_string(p->strings, STR("gone")), MODEL_NONE);
    assert_int_equal(model_find_string(p->strings, STR("only")), MODEL_NONE);
}

// One value that is not zero keeps a sample.
static void a_sample_is_zero_when_all_its_values_are(void **state)
{
    struct model_builder *b = stacks_new(arena);
    model_build_type(b, STR("cpu"), STR("ns"));
    stacks_add(b, "a", (int64_t[]){0, 1});
    stacks_add(b, "b", (int64_t[]){0, 0});
    stacks_add(b, "c", (int64_t[]){-1, 0});
    assert_string_equal(stacks_text(merge(b->p, NULL), arena), "a 0 1\nc -1 0\n");
}

static void sums_wrap(void **state)
{
    struct model_builder *b = stacks_new(arena);
    stacks_add1(b, "a", INT64_MAX);
    stacks_add1(b, "a", 1);
    struct model_profile *p = merge(b->p, NULL);
    assert_true(model_values(p, 0)[0] == INT64_MIN);
}

static struct model_profile *with_header(int64_t time, int64_t duration, int64_t period,
                                         const char *comment)
{
    struct model_builder *b = stacks_new(arena);
    b->p->time_nanos = time;
    b->p->duration_nanos = duration;
    b->p->period = period;
    model_build_comment(b, STR("common"));
    model_build_comment(b, str_from(comment));
    return b->p;
}

static void headers_are_combined(void **state)
{
    struct model_profile *a = with_header(500, 10, 100, "a"), *b = with_header(400, 20, 300, "b");
    a->default_type = 0;
    b->default_type = model_intern(b->strings, STR("samples"));
    a->doc_url = model_intern(a->strings, STR("https://a"));
    b->doc_url = model_intern(b->strings, STR("https://b"));
    a->drop_frames = model_intern(a->strings, STR("drop a"));
    b->drop_frames = model_intern(b->strings, STR("drop b"));
    b->keep_frames = model_intern(b->strings, STR("keep b"));
    struct model_profile *p = merge(a, b);
    assert_int_equal(p->time_nanos, 400);
    assert_int_equal(p->duration_nanos, 30);
    assert_int_equal(p->period, 300);
    assert_int_equal(p->n_comments, 3);
    assert_true(str_eq(model_str(p, p->comments[0]), STR("common")));
    assert_true(str_eq(model_str(p, p->comments[2]), STR("b")));
    assert_true(str_eq(model_str(p, p->default_type), STR("samples")));
    assert_true(str_eq(model_str(p, p->doc_url), STR("https://a")));
    assert_true(str_eq(model_str(p, p->drop_frames), STR("drop a")));
    assert_int_equal(p->keep_frames, 0);
}

// The first profile that has one tells the default type.
static void the_first_default_type_counts(void **state)
{
    struct model_profile *a = with_header(1, 1, 1, "a"), *b = with_header(1, 1, 1, "b");
    a->default_type = model_intern(a->strings, STR("samples"));
    b->default_type = model_intern(b->strings, STR("other"));
    struct model_profile *p = merge(a, b);
    assert_true(str_eq(model_str(p, p->default_type), STR("samples")));
}

// A time of zero is not known; the next one counts, even if it is later.
static void an_unknown_time_gives_way(void **state)
{
    assert_int_equal(merge(with_header(0, 0, 0, ""), with_header(7, 0, 5, ""))->time_nanos, 7);
    assert_int_equal(merge(with_header(9, 0, 7, ""), with_header(10, 0, 5, ""))->time_nanos, 9);
    assert_int_equal(merge(with_header(9, 0, 7, ""), with_header(10, 0, 5, ""))->period, 7);
}

static struct model_profile *rich(void)
{
    struct model_builder *b = stacks_new(arena);
    model_build_type(b, STR("cpu"), STR("nanoseconds"));
    uint32_t m = model_build_mapping(b, page);
    b->p->period_type = b->p->types[1];
    b->p->period = 10;
    label(b, "k", "v");
    stacks_add(b, "main@m.c#3;f+g@g.c#9", (int64_t[]){1, 10});
    uint32_t frames[2] = {stacks_frame(b, STR("x"), m, 0x1234), stacks_frame(b, STR("main"), m, 0)};
    model_build_number_label(b, STR("n"), 3, STR("bytes"));
    model_build_sample(b, frames, 2, (int64_t[]){2, 25});
    stacks_add(b, "main@m.c#3", (int64_t[]){-1, 7});
    return b->p;
}

static void merging_with_itself_is_scaling_by_two(void **state)
{
    struct model_profile *once = merge(rich(), NULL), *twice = merge(rich(), rich());
    struct model_profile *scaled = model_scale(once, (double[]){2, 2}, arena);
    struct str a = stacks_bytes(twice, arena), b = stacks_bytes(scaled, arena);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.p, b.p, a.n);
    // Merging again changes nothing.
    struct str d = stacks_bytes(once, arena), c = stacks_bytes(merge(once, NULL), arena);
    assert_int_equal(c.n, d.n);
    assert_memory_equal(c.p, d.p, c.n);
}

static void the_inputs_stay_as_they_were(void **state)
{
    struct err e;
    struct model_profile *p = rich(), *q = rich();
    struct str before = stacks_bytes(p, arena);
    struct model_profile *sum = model_merge((struct model_profile *[]){p, q}, 2, arena, &e);
    struct str after = stacks_bytes(p, arena);
    assert_int_equal(before.n, after.n);
    assert_memory_equal(before.p, after.p, before.n);
    struct str a = stacks_bytes(sum, arena), b = stacks_bytes(merge(p, q), arena);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.p, b.p, a.n);
}

// Samples of one profile may share frames; they are rewritten once.
static void stacks_may_overlap(void **state)
{
    struct model_builder *b = stacks_new(arena);
    stacks_frame(b, STR("unused"), MODEL_NONE, 0);
    stacks_add(b, "main;f;g", (int64_t[]){1});
    stacks_add(b, "main;f;g", (int64_t[]){2});
    stacks_add(b, "main;f;g", (int64_t[]){4});
    b->p->stacks[1] = b->p->stacks[0];
    b->p->stacks[2] = b->p->stacks[0] + 1;
    b->p->stack_len[2] = 2;
    assert_string_equal(stacks_text(merge(b->p, NULL), arena), "main;f;g 3\nmain;f 4\n");
}

// Ids count up in the order of first use; only the main binary stays first.
static void ids_follow_use(void **state)
{
    struct model_builder *b = stacks_new(arena);
    model_build_mapping(b, page);
    model_build_mapping(b, (struct model_mapping){.start = 0x8000, .limit = 0x9000, .offset = 1});
    model_build_mapping(b, (struct model_mapping){.start = 0x5000, .limit = 0x6000, .offset = 2});
    stacks_frame(b, STR("unused"), 1, 0x8001);
    uint32_t frames[2] = {stacks_frame(b, STR("leaf"), 2, 0x5001),
                          stacks_frame(b, STR("root"), 2, 0x5002)};
    uint32_t swapped[2] = {frames[1], frames[0]};
    model_build_sample(b, swapped, 2, (int64_t[]){1});
    struct model_profile *p = merge(b->p, NULL);
    assert_int_equal(p->n_mappings, 2);
    assert_int_equal(p->mappings[0].start, 0x1000);
    assert_int_equal(p->mappings[1].start, 0x5000);
    assert_int_equal(p->mappings[1].id, 2);
    assert_int_equal(p->n_locations, 2);
    assert_int_equal(p->locations[0].address, 0x5002);
    assert_int_equal(p->locations[0].id, 1);
    assert_int_equal(p->functions[1].id, 2);
    assert_true(str_eq(model_str(p, p->functions[0].name), STR("root")));
}

static void types_must_be_equal(void **state)
{
    struct err e;
    struct model_builder *b = stacks_new(arena), *c = stacks_new(arena), *d = stacks_new(arena);
    model_build_type(c, STR("cpu"), STR("ns"));
    d->p->period_type = d->p->types[0];
    assert_null(model_merge_take((struct model_profile *[]){b->p, c->p}, 2, arena, &e));
    assert_string_equal(e.message, "incompatible sample types");
    assert_null(model_merge_take((struct model_profile *[]){b->p, d->p}, 2, arena, &e));
    assert_non_null(strstr(e.message, "incompatible period types"));
}

static void many_profiles(void **state)
{
    enum { N = 200 };
    struct model_profile *all[N];
    for (int i = 0; i < N; i++) {
        struct model_builder *b = stacks_new(arena);
        char stack[64];
        for (int k = 0; k < 20; k++) {
            snprintf(stack, sizeof stack, "main;f%d;g%d", k, (i + k) % 30);
            stacks_add1(b, stack, 1);
        }
        all[i] = b->p;
    }
    struct err e;
    struct model_profile *p = model_merge_take(all, N, arena, &e);
    assert_int_equal(p->n_samples, 20 * 30);
    assert_int_equal(p->n_functions, 1 + 20 + 30);
    int64_t total = 0;
    for (size_t i = 0; i < p->n_samples; i++)
        total += model_values(p, i)[0];
    assert_int_equal(total, N * 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mappings_are_equal_by_rounded_size_offset_and_name),
        cmocka_unit_test(addresses_move_with_their_mapping),
        cmocka_unit_test(locations_are_equal_by_lines_and_the_last_column),
        cmocka_unit_test(functions_are_equal_by_all_they_have),
        cmocka_unit_test(samples_are_equal_by_stack_and_labels),
        cmocka_unit_test(zeros_leave_nothing_behind),
        cmocka_unit_test(a_sample_is_zero_when_all_its_values_are),
        cmocka_unit_test(sums_wrap),
        cmocka_unit_test(headers_are_combined),
        cmocka_unit_test(the_first_default_type_counts),
        cmocka_unit_test(an_unknown_time_gives_way),
        cmocka_unit_test(merging_with_itself_is_scaling_by_two),
        cmocka_unit_test(the_inputs_stay_as_they_were),
        cmocka_unit_test(stacks_may_overlap),
        cmocka_unit_test(ids_follow_use),
        cmocka_unit_test(types_must_be_equal),
        cmocka_unit_test(many_profiles),
    };
    return cmocka_run_group_tests(tests, make_arena, free_arena);
}
