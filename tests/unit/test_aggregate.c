#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/transform.h"
#include "stacks.h"
#include "arena_fixture.h"

// One stack with everything: two binaries, inlined calls, files, lines, columns, addresses.
static struct model_profile *detailed(void)
{
    struct model_builder *b = stacks_new(arena);
    struct model_mapping m = {.start = 0x1000,
                              .limit = 0x2000,
                              .has_functions = true,
                              .has_filenames = true,
                              .has_line_numbers = true,
                              .has_inline_frames = true};
    uint32_t mapping = model_build_mapping(b, m);
    uint32_t frames[2] = {stacks_frame(b, STR("outer@o.c#3+inner@i.c#4"), mapping, 0x1100),
                          stacks_frame(b, STR("main@m.c#9"), mapping, 0x1200)};
    for (uint32_t i = 0; i < b->p->n_lines; i++)
        b->p->lines[i].column = i + 70;
    model_build_sample(b, frames, 2, (int64_t[]){1});
    return b->p;
}

static const struct model_detail all = {true, true, true, true, true, true};

static void everything_can_be_kept(void **state)
{
    struct model_profile *p = detailed();
    struct str before = stacks_bytes(p, arena);
    struct str after = stacks_bytes(model_aggregate(p, all, arena), arena);
    assert_int_equal(before.n, after.n);
    assert_memory_equal(before.p, after.p, after.n);
}

static void what_is_not_named_is_forgotten(void **state)
{
    struct model_profile *p = detailed(), *to;
    struct str before = stacks_bytes(p, arena);
    struct model_detail d = all;
    d.inlines = false;
    to = model_aggregate(p, d, arena);
    assert_string_equal(stacks_text(to, arena), "main@m.c#9;outer@o.c#3 1\n");
    assert_false(to->mappings[0].has_inline_frames);
    assert_true(to->mappings[0].has_functions);

    d = all;
    d.functions = false;
    to = model_aggregate(p, d, arena);
    assert_string_equal(stacks_text(to, arena), "@m.c#9;@o.c#3+@i.c#4 1\n");
    assert_int_equal(to->functions[0].system_name, 0);
    assert_false(to->mappings[0].has_functions);

    d = all;
    d.filenames = false;
    to = model_aggregate(p, d, arena);
    assert_string_equal(stacks_text(to, arena), "main#9;outer#3+inner#4 1\n");
    assert_false(to->mappings[0].has_filenames);

    d = all;
    d.lines = false;
    to = model_aggregate(p, d, arena);
    assert_string_equal(stacks_text(to, arena), "main@m.c;outer@o.c+inner@i.c 1\n");
    assert_int_equal(to->lines[0].column, 0);
    assert_false(to->mappings[0].has_line_numbers);

    d = all;
    d.columns = false;
    to = model_aggregate(p, d, arena);
    assert_string_equal(stacks_text(to, arena), stacks_text(p, arena));
    assert_int_equal(to->lines[0].column, 0);
    assert_int_equal(to->locations[0].address, 0x1100);

    d = all;
    d.addresses = false;
    to = model_aggregate(p, d, arena);
    assert_int_equal(to->locations[0].address, 0);
    assert_int_equal(to->lines[0].column, 70);

    struct str after = stacks_bytes(p, arena);
    assert_int_equal(before.n, after.n);
    assert_memory_equal(before.p, after.p, after.n);
}

static void a_profile_of_nothing(void **state)
{
    struct model_profile *p = model_profile_new(arena);
    struct model_profile *to = model_aggregate(p, (struct model_detail){0}, arena);
    assert_int_equal(to->n_samples, 0);
    assert_int_equal(to->n_locations, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_can_be_kept),
        cmocka_unit_test(what_is_not_named_is_forgotten),
        cmocka_unit_test(a_profile_of_nothing),
    };
    return cmocka_run_group_tests(tests, make_arena, free_arena);
}
