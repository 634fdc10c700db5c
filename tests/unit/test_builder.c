#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "stacks.h"
#include "arena_fixture.h"

static void functions_are_kept_once(void **state)
{
    struct model_builder *b = stacks_new(arena);
    uint32_t f = model_build_string(b, STR("f")), g = model_build_string(b, STR("g"));
    uint32_t first = model_build_function(b, f, f, 0, 0);
    assert_int_equal(first, 0);
    assert_int_equal(model_build_function(b, f, f, 0, 0), first);
    assert_int_equal(model_build_function(b, g, f, 0, 0), 1);
    assert_int_equal(model_build_function(b, f, g, 0, 0), 2);
    assert_int_equal(model_build_function(b, f, f, g, 0), 3);
    assert_int_equal(model_build_function(b, f, f, 0, 7), 4);
    assert_int_equal(model_build_function(b, f, f, 0, 7), 4);
    assert_int_equal(b->p->n_functions, 5);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(b->p->functions[i].id, i + 1);
}

static void locations_are_kept_once(void **state)
{
    struct model_builder *b = stacks_new(arena);
    struct model_mapping m = {.start = 1};
    uint32_t mapping = model_build_mapping(b, m);
    assert_int_equal(b->p->mappings[mapping].id, 1);
    uint32_t f = model_build_function(b, model_build_string(b, STR("f")), 0, 0, 0);
    uint32_t g = model_build_function(b, model_build_string(b, STR("g")), 0, 0, 0);
    const struct model_line base[2] = {{.function = f, .line = 1}, {.function = g, .line = 2}};
    const struct model_line variants[][2] = {
        {{.function = g, .line = 1}, {.function = g, .line = 2}},
        {{.function = f, .line = 3}, {.function = g, .line = 2}},
        {{.function = f, .line = 1, .column = 4}, {.function = g, .line = 2}},
        {{.function = g, .line = 2}, {.function = f, .line = 1}},
    };
    uint32_t first = model_build_location(b, mapping, 16, base, 2);
    assert_int_equal(model_build_location(b, mapping, 16, base, 2), first);
    uint32_t expected = first + 1;
    assert_int_equal(model_build_location(b, MODEL_NONE, 16, base, 2), expected++);
    assert_int_equal(model_build_location(b, mapping, 17, base, 2), expected++);
    assert_int_equal(model_build_location(b, mapping, 16, base, 1), expected++);
    assert_int_equal(model_build_location(b, mapping, 16, base, 0), expected++);
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        assert_int_equal(model_build_location(b, mapping, 16, variants[i], 2), expected);
        assert_int_equal(model_build_location(b, mapping, 16, variants[i], 2), expected++);
    }
    assert_int_equal(model_build_location(b, mapping, 16, base, 2), first);
    assert_int_equal(b->p->n_locations, expected);
    assert_int_equal(b->p->locations[3].id, 4);
    assert_int_equal(b->p->n_lines, 2 + 2 + 2 + 1 + 4 * 2);
}

static void a_name_alone_is_a_location(void **state)
{
    struct model_builder *b = stacks_new(arena);
    uint32_t l = model_build_named_location(b, STR("main"));
    assert_int_equal(model_build_named_location(b, STR("main")), l);
    assert_int_not_equal(model_build_named_location(b, STR("Main")), l);
    assert_int_equal(b->p->locations[l].mapping, MODEL_NONE);
    assert_int_equal(b->p->locations[l].n_lines, 1);
    const struct model_function *f =
        &b->p->functions[b->p->lines[b->p->locations[l].first_line].function];
    assert_true(str_eq(model_str(b->p, f->name), STR("main")));
    assert_int_equal(f->system_name, f->name);
}

// Strings by key, then numbers by key; several values of a key stay in their order.
static void labels_have_one_order(void **state)
{
    struct model_builder *b = stacks_new(arena);
    model_build_number_label(b, STR("z"), 1, STR("bytes"));
    model_build_label(b, STR("b"), STR("2"));
    model_build_number_label(b, STR("a"), 9, STR(""));
    model_build_label(b, STR("a"), STR("y"));
    model_build_label(b, STR("b"), STR("1"));
    model_build_number_label(b, STR("a"), 3, STR(""));
    model_build_label(b, STR("a"), STR("x"));
    stacks_add1(b, "main", 1);
    assert_string_equal(stacks_text(b->p, arena),
                        "main 1 {a=y, a=x, b=2, b=1, a=9, a=3, z=1bytes}\n");
}

static void equal_label_sets_are_kept_once(void **state)
{
    struct model_builder *b = stacks_new(arena);
    stacks_add1(b, "none", 1);
    assert_null(b->p->label_set);
    model_build_label(b, STR("a"), STR("1"));
    model_build_label(b, STR("b"), STR("2"));
    stacks_add1(b, "ab", 1);
    stacks_add1(b, "none again", 1);
    model_build_label(b, STR("b"), STR("2"));
    model_build_label(b, STR("a"), STR("1"));
    stacks_add1(b, "ba", 1);
    model_build_label(b, STR("a"), STR("1"));
    stacks_add1(b, "a", 1);
    model_build_number_label(b, STR("n"), 1, STR("bytes"));
    stacks_add1(b, "n", 1);
    model_build_number_label(b, STR("n"), 1, STR("ms"));
    stacks_add1(b, "n of another unit", 1);
    model_build_number_label(b, STR("n"), 1, STR("bytes"));
    stacks_add1(b, "n again", 1);
    static const uint32_t want[] = {0, 1, 0, 1, 2, 3, 4, 3};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_int_equal(b->p->label_set[i], want[i]);
    assert_int_equal(b->p->n_label_sets, 5);
    assert_int_equal(b->p->label_sets[0].n, 0);
}

// A label of text and a label of a number are different, whatever their ids.
static void kinds_of_labels_differ(void **state)
{
    struct model_builder *b = stacks_new(arena);
    uint32_t key = model_build_string(b, STR("k"));
    struct model_label text = {.key = key, .str = 0}, number = {.key = key, .is_number = true};
    uint32_t set = model_build_label_set(b, &text, 1);
    assert_int_not_equal(model_build_label_set(b, &number, 1), set);
    assert_int_equal(model_build_label_set(b, &text, 1), set);
    assert_int_equal(model_build_label_set(b, NULL, 0), 0);
    assert_int_not_equal(model_build_new_label_set(b, &text, 1), set);
}

static void samples_stand_in_columns(void **state)
{
    struct model_builder *b = stacks_new(arena);
    model_build_type(b, STR("cpu"), STR("nanoseconds"));
    for (int64_t i = 0; i < 1000; i++) {
        uint32_t stack[3] = {(uint32_t)i, 1, 0};
        model_build_sample(b, stack, (size_t)(i % 4 ? i % 4 : 0), (int64_t[]){i, -i});
    }
    struct model_profile *p = b->p;
    assert_int_equal(p->n_samples, 1000);
    for (size_t i = 0; i < 1000; i++) {
        assert_int_equal(p->stack_len[i], i % 4);
        if (i % 4)
            assert_int_equal(model_stack(p, i)[0], i);
        assert_int_equal(model_values(p, i)[0], i);
        assert_int_equal(model_values(p, i)[1], -(int64_t)i);
    }
}

static void comments_are_a_list(void **state)
{
    struct model_builder *b = stacks_new(arena);
    for (int i = 0; i < 20; i++)
        model_build_comment(b, i % 2 ? STR("odd") : STR("even"));
    assert_int_equal(b->p->n_comments, 20);
    assert_true(str_eq(model_str(b->p, b->p->comments[18]), STR("even")));
}

// More labels than anybody has take n log n steps, in the same order.
static void many_labels_have_that_order(void **state)
{
    enum { MANY = 100000 };
    struct model_builder *b = stacks_new(arena);
    struct model_label *labels = arena_array(arena, MANY, sizeof *labels);
    for (uint32_t i = 0; i < MANY; i++) {
        char key[16];
        int n = snprintf(key, sizeof key, "%06u", (MANY - i) / 2);
        labels[i] = (struct model_label){
            .key = model_build_string(b, (struct str){key, (size_t)n}),
            .number = i,
            .is_number = i % 3 == 0,
        };
    }
    model_sort_labels(b->p->strings, labels, MANY, b->arena);
    for (uint32_t i = 1; i < MANY; i++) {
        const struct model_label *x = &labels[i - 1], *y = &labels[i];
        int c = str_cmp(model_str(b->p, x->key), model_str(b->p, y->key));
        assert_true(x->is_number < y->is_number ||
                    (x->is_number == y->is_number && (c < 0 || (c == 0 && x->number < y->number))));
    }
}

// Fields that a client chooses together do not cancel each other in a hash.
static void label_hashes_differ(void **state)
{
    enum { SETS = 1000 };
    static uint64_t hashes[3 * SETS];
    for (uint32_t i = 0; i < SETS; i++) {
        struct model_label numbers = {.key = 1, .unit = i, .is_number = true};
        numbers.number = (int64_t)((uint64_t)i << 40);
        struct model_label kinds = {.key = 1, .number = INT64_MIN ^ (int64_t)i, .is_number = i & 1};
        struct model_label strings = {.key = i, .str = SETS - i};
        hashes[i] = model_hash_labels(&numbers, 1);
        hashes[SETS + i] = model_hash_labels(&kinds, 1);
        hashes[2 * SETS + i] = model_hash_labels(&strings, 1);
    }
    for (size_t i = 0; i < 3 * SETS; i++)
        for (size_t k = 0; k < i; k++)
            assert_true(hashes[i] != hashes[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_are_kept_once),        cmocka_unit_test(locations_are_kept_once),
        cmocka_unit_test(a_name_alone_is_a_location),     cmocka_unit_test(labels_have_one_order),
        cmocka_unit_test(equal_label_sets_are_kept_once), cmocka_unit_test(kinds_of_labels_differ),
        cmocka_unit_test(samples_stand_in_columns),       cmocka_unit_test(comments_are_a_list),
        cmocka_unit_test(many_labels_have_that_order),    cmocka_unit_test(label_hashes_differ),
    };
    return cmocka_run_group_tests(tests, make_arena, free_arena);
}
