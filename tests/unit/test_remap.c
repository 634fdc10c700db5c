#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <stdlib.h>

#include "codec/maps.h"
#include "raw.h"

static struct model_mapping mapping(uint64_t start, uint64_t limit, uint64_t offset, uint32_t file)
{
    return (struct model_mapping){.start = start, .limit = limit, .offset = offset, .file = file};
}

static struct model_builder *builder(struct arena *arena)
{
    struct model_builder *b = arena_alloc(arena, sizeof *b);
    model_build(b, arena);
    model_build_type(b, STR("samples"), STR("count"));
    return b;
}

static uint32_t location(struct model_builder *b, uint64_t address)
{
    struct model_line none = {0};
    return model_build_location(b, MODEL_NONE, address, &none, 0);
}

static void pieces_are_joined(void **state)
{
    struct arena *arena = arena_new(0);
    struct model_builder *b = builder(arena);
    uint32_t x = model_build_string(b, STR("/x")), y = model_build_string(b, STR("/y"));
    model_build_mapping(b, mapping(0x1000, 0x2000, 0x100, x));
    model_build_mapping(b, mapping(0x2000, 0x3000, 0x1100, 0)); // continues
    model_build_mapping(b, mapping(0x3000, 0x4000, 0x9999, x)); // another offset
    model_build_mapping(b, mapping(0x4000, 0x5000, 0, x));      // no offset known: continues
    model_build_mapping(b, mapping(0x5000, 0x6000, 0, y));      // another file
    model_build_mapping(b, mapping(0x7000, 0x8000, 0, y));      // a gap
    maps_massage(b);
    assert_int_equal(b->p->n_mappings, 4);
    assert_int_equal(b->p->mappings[0].limit, 0x3000);
    assert_int_equal(b->p->mappings[1].limit, 0x5000);
    assert_int_equal(b->p->mappings[3].id, 4);
    arena_free(arena);
}

// The first file that is neither a library nor in brackets.
static void main_binary_comes_first(void **state)
{
    static const struct {
        const char *file;
        bool is_main;
    } files[] = {
        {"[vdso]", false},      {"/lib/a.so", false},          {"/lib/a.so.6", false},
        {"/lib/a.so_2", false}, {"/lib/a.so(deleted)", false}, {"(deleted)", false},
        {"/bin/x.sox", true},   {"/bin/a.so.x", true},         {"/bin/x(deleted)", true},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct arena *arena = arena_new(0);
        struct model_builder *b = builder(arena);
        model_build_mapping(b, mapping(1, 2, 0, 0));
        uint32_t file = model_build_string(b, str_from(files[i].file));
        model_build_mapping(b, mapping(0x5000, 0x6000, 0, file));
        maps_massage(b);
        if ((b->p->mappings[0].file == file) != files[i].is_main)
            fail_msg("%s", files[i].file);
        arena_free(arena);
    }
}

static void main_binary_is_mended(void **state)
{
    struct arena *arena = arena_new(0);
    struct model_builder *b = builder(arena);
    uint32_t huge = model_build_string(b, STR("/anon_hugepage (deleted)"));
    model_build_mapping(b, mapping(0x200000, 0x600000, 0, huge));
    model_build_mapping(b, mapping(0x600000, 0x700000, 0x200000, model_build_string(b, STR("/x"))));
    maps_assign(b);
    assert_int_equal(b->p->n_mappings, 1);
    assert_int_equal(b->p->mappings[0].start, 0x400000);
    assert_int_equal(b->p->mappings[0].offset, 0);
    assert_int_equal(b->p->mappings[0].id, 1);
    arena_free(arena);
}

// Unused locations go, the others come in the order of the samples.
static void ids_follow_use(void **state)
{
    struct arena *arena = arena_new(0);
    struct model_builder *b = builder(arena);
    uint32_t name = model_build_string(b, STR("f")), other = model_build_string(b, STR("g"));
    struct model_line f = {.function = model_build_function(b, name, name, 0, 0)};
    struct model_line g = {.function = model_build_function(b, other, other, 0, 0)};
    uint32_t unused = model_build_location(b, MODEL_NONE, 1, &f, 1);
    uint32_t second = model_build_location(b, MODEL_NONE, 2, &g, 1);
    uint32_t first = model_build_location(b, MODEL_NONE, 3, &g, 1);
    model_build_sample(b, (uint32_t[]){first, second, first}, 3, (int64_t[]){1});
    maps_renumber(b);
    assert_int_not_equal(unused, first);
    assert_int_equal(b->p->n_locations, 2);
    assert_int_equal(b->p->locations[0].address, 3);
    assert_int_equal(b->p->locations[1].id, 2);
    assert_int_equal(b->p->n_functions, 1);
    assert_int_equal(b->p->functions[0].name, other);
    assert_int_equal(b->p->functions[0].id, 1);
    assert_int_equal(model_stack(b->p, 0)[2], 0);
    arena_free(arena);
}

// The rule itself, as slow as it is: the first mapping that holds the address; else the
// first that does once its offset is taken off, which then is; else one for all the rest.
static void assign_slowly(struct model_profile *p, uint64_t address, uint32_t *result,
                          uint32_t *fake)
{
    for (uint32_t i = 0; i < p->n_mappings; i++)
        if (p->mappings[i].start <= address && address < p->mappings[i].limit) {
            *result = i;
            return;
        }
    for (uint32_t i = 0; *fake == MODEL_NONE && i < p->n_mappings; i++) {
        struct model_mapping *m = &p->mappings[i];
        if (m->offset && m->start - m->offset <= address && address < m->start) {
            m->start -= m->offset;
            m->offset = 0;
            *result = i;
            return;
        }
    }
    *fake = *result = p->n_mappings;
}

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static void assignment_equals_the_slow_one(void **state)
{
    uint64_t seed = 1;
    for (int round = 0; round < 300; round++) {
        struct arena *arena = arena_new(0);
        struct model_builder *b = builder(arena), *c = builder(arena);
        uint32_t n = (uint32_t)(next_random(&seed) % 12);
        for (uint32_t i = 0; i < n; i++) {
            uint64_t start = next_random(&seed) % 200, limit = start + next_random(&seed) % 40 - 3;
            struct model_mapping m = mapping(start, limit, next_random(&seed) % 60, 0);
            model_build_mapping(b, m);
            model_build_mapping(c, m);
        }
        for (int i = 0; i < 60; i++)
            location(b, 1 + next_random(&seed) % 260);
        maps_assign(b);
        uint32_t fake = MODEL_NONE;
        for (uint32_t i = 0; i < b->p->n_locations; i++) {
            uint32_t want = 0;
            assign_slowly(c->p, b->p->locations[i].address, &want, &fake);
            assert_int_equal(b->p->locations[i].mapping, want);
        }
        for (uint32_t i = 0; i < n; i++)
            assert_int_equal(b->p->mappings[i].start, c->p->mappings[i].start);
        arena_free(arena);
    }
}

// Taken one by one this would be ten thousand million steps.
static void many_mappings_and_locations(void **state)
{
    enum { MANY = 100 * 1000 };
    struct arena *arena = arena_new(0);
    struct model_builder *b = builder(arena);
    for (uint64_t i = 0; i < MANY; i++)
        model_build_mapping(b, mapping(0x1000000 + i * 0x1000, 0x1000800 + i * 0x1000, 0x700, 0));
    for (uint64_t i = 0; i < MANY; i++)
        location(b, 0x1000000 + i * 0x1000 - 0x700);
    maps_assign(b);
    for (uint32_t i = 0; i < MANY; i++)
        assert_int_equal(b->p->locations[i].mapping, i);
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_joined),
        cmocka_unit_test(main_binary_comes_first),
        cmocka_unit_test(main_binary_is_mended),
        cmocka_unit_test(ids_follow_use),
        cmocka_unit_test(assignment_equals_the_slow_one),
        cmocka_unit_test(many_mappings_and_locations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
