#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/builder.h"
#include "arena_fixture.h"

static void equal_texts_have_one_id(void **state)
{
    struct model_strings *s = model_strings_new(arena);
    assert_int_equal(model_intern(s, STR("")), 0);
    assert_int_equal(model_intern(s, (struct str){NULL, 0}), 0);
    char text[16] = "abc";
    uint32_t id = model_intern(s, (struct str){text, 3});
    text[0] = 'x'; // it was copied
    assert_int_equal(model_intern(s, STR("abc")), id);
    assert_int_not_equal(model_intern(s, STR("abc\0")), id);
    assert_int_not_equal(model_intern(s, STR("xbc")), id);
    assert_int_equal(model_find_string(s, STR("abc")), id);
    assert_int_equal(model_find_string(s, STR("never seen")), MODEL_NONE);
    assert_true(str_eq(s->items[id], STR("abc")));
}

static void borrowed_text_is_not_copied(void **state)
{
    struct model_strings *s = model_strings_new(arena);
    static const char text[] = "borrowed";
    uint32_t id = model_intern_borrowed(s, (struct str){text, 8});
    assert_ptr_equal(s->items[id].p, text);
    assert_int_equal(model_intern(s, STR("borrowed")), id);
    uint32_t copied = model_intern(s, STR("copied"));
    assert_int_equal(model_intern_borrowed(s, STR("copied")), copied);
}

static void many_strings(void **state)
{
    struct model_strings *s = model_strings_new(arena);
    for (uint32_t i = 1; i < 20000; i++) {
        char text[16];
        int n = snprintf(text, sizeof text, "%u", i);
        assert_int_equal(model_intern(s, (struct str){text, (size_t)n}), i);
    }
    assert_int_equal(model_find_string(s, STR("777")), 777);
    assert_int_equal(s->n, 20000);
}

static struct model_profile *with_types(const char *const *names)
{
    struct model_builder b;
    model_build(&b, arena);
    for (; *names; names++)
        model_build_type(&b, str_from(*names), STR("count"));
    return b.p;
}

#define TYPES(...) with_types((const char *const[]){__VA_ARGS__, NULL})

static void a_type_is_a_number_or_a_name(void **state)
{
    struct err e = {.message = ""};
    struct model_profile *p = TYPES("alloc_objects", "alloc_space", "inuse_objects", "space");
    assert_int_equal(model_type_index(p, STR(""), &e), 3);
    assert_int_equal(model_type_index(p, STR("0"), &e), 0);
    assert_int_equal(model_type_index(p, STR("3"), &e), 3);
    assert_int_equal(model_type_index(p, STR("alloc_space"), &e), 1);
    assert_int_equal(model_type_index(p, STR("inuse_objects"), &e), 2);
    assert_int_equal(model_type_index(p, STR("inuse_space"), &e), 3);
    assert_int_equal(model_type_index(p, STR("4"), &e), -1);
    assert_string_equal(e.message, "sample_index 4 is outside the range [0..3]");
    assert_int_equal(model_type_index(p, STR("-1"), &e), -1);
    assert_int_equal(model_type_index(p, STR("objects"), &e), -1);
    assert_string_equal(e.message, "sample_index \"objects\" must be one of: "
                                   "[alloc_objects alloc_space inuse_objects space]");
}

static void an_exact_name_and_the_order_win(void **state)
{
    struct err e;
    // Whichever stands first: the name as given, or without its inuse_.
    assert_int_equal(model_type_index(TYPES("x", "space", "inuse_space"), STR("inuse_space"), &e),
                     1);
    assert_int_equal(model_type_index(TYPES("x", "inuse_space", "space"), STR("inuse_space"), &e),
                     1);
}

static void the_default_type_is_the_profiles_own(void **state)
{
    struct err e;
    struct model_profile *p = TYPES("a", "b", "c");
    p->default_type = model_intern(p->strings, STR("b"));
    assert_int_equal(model_type_index(p, STR(""), &e), 1);
    p->default_type = model_intern(p->strings, STR("none of them"));
    assert_int_equal(model_type_index(p, STR(""), &e), 2);
}

// Many long names do not fit an error: it is cut, not overrun.
static void names_in_an_error_are_cut(void **state)
{
    static char name[300];
    memset(name, 'n', sizeof name - 1);
    const char *names[21] = {NULL};
    for (int i = 0; i < 20; i++)
        names[i] = name;
    struct err e;
    assert_int_equal(model_type_index(with_types(names), STR("x"), &e), -1);
    assert_int_equal(strncmp(e.message, "sample_index \"x\" must be one of: [nnn", 37), 0);
    assert_int_equal(strlen(e.message), sizeof e.message - 1);
}

static struct model_profile *with_ids(const uint64_t *ids, uint32_t n, int what)
{
    struct model_profile *p = model_profile_new(arena);
    p->mappings = arena_array(arena, n, sizeof *p->mappings);
    p->functions = arena_array(arena, n, sizeof *p->functions);
    p->locations = arena_array(arena, n, sizeof *p->locations);
    p->n_mappings = p->n_functions = p->n_locations = n;
    for (uint32_t i = 0; i < n; i++) {
        p->mappings[i].id = what == 0 ? ids[i] : i + 1;
        p->functions[i].id = what == 1 ? ids[i] : i + 1;
        p->locations[i].id = what == 2 ? ids[i] : i + 1;
    }
    return p;
}

static void ids_are_unique_and_not_zero(void **state)
{
    static const char *const what[] = {"mapping", "function", "location"};
    struct err e;
    for (int i = 0; i < 3; i++) {
        char want[128];
        assert_int_equal(model_check(with_ids((uint64_t[]){1, 2, 3}, 3, i), &e), 0);
        assert_int_equal(model_check(with_ids((uint64_t[]){UINT64_MAX, 7, 1}, 3, i), &e), 0);
        assert_int_equal(model_check(with_ids((uint64_t[]){1, 0, 2}, 3, i), &e), -1);
        snprintf(want, sizeof want, "malformed profile: found %s with reserved ID=0", what[i]);
        assert_string_equal(e.message, want);
        assert_int_equal(model_check(with_ids((uint64_t[]){0, 1, 2}, 3, i), &e), -1);
        assert_string_equal(e.message, want);
        assert_int_equal(model_check(with_ids((uint64_t[]){5, 9, 5}, 3, i), &e), -1);
        snprintf(want, sizeof want, "malformed profile: multiple %ss with same id: 5", what[i]);
        assert_string_equal(e.message, want);
        assert_int_equal(model_check(with_ids((uint64_t[]){1, 5, 5}, 3, i), &e), -1);
        assert_string_equal(e.message, want);
    }
}

static void samples_need_types(void **state)
{
    struct err e;
    struct model_profile *p = model_profile_new(arena);
    assert_int_equal(model_check(p, &e), 0);
    p->n_samples = 1;
    assert_int_equal(model_check(p, &e), -1);
    assert_string_equal(e.message, "malformed profile: missing sample type information");
}

static void deriving_shares_the_columns(void **state)
{
    struct model_profile *p = TYPES("a"), *q = model_profile_derive(p, arena);
    assert_ptr_not_equal(p, q);
    assert_ptr_equal(p->strings, q->strings);
    assert_ptr_equal(p->types, q->types);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_texts_have_one_id),
        cmocka_unit_test(borrowed_text_is_not_copied),
        cmocka_unit_test(many_strings),
        cmocka_unit_test(a_type_is_a_number_or_a_name),
        cmocka_unit_test(an_exact_name_and_the_order_win),
        cmocka_unit_test(the_default_type_is_the_profiles_own),
        cmocka_unit_test(names_in_an_error_are_cut),
        cmocka_unit_test(ids_are_unique_and_not_zero),
        cmocka_unit_test(samples_need_types),
        cmocka_unit_test(deriving_shares_the_columns),
    };
    return cmocka_run_group_tests(tests, make_arena, free_arena);
}
