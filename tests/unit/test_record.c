#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "capture/record.h"

static void assert_same(const struct record *a, const struct record *b)
{
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->label, b->label);
    assert_int_equal(a->end, b->end);
    assert_int_equal(a->unticked, b->unticked);
    assert_int_equal(a->has_ids, b->has_ids);
    assert_int_equal(a->ticks, b->ticks);
    assert_int_equal(a->ns, b->ns);
    assert_memory_equal(&a->ids, &b->ids, sizeof a->ids);
}

static void every_field_comes_back(void **state)
{
    const struct record records[] = {
        {.n = 1, .end = UNWIND_END_ROOT, .ticks = 1, .ns = 10},
        {.n = CAPTURE_MAX_DEPTH,
         .label = UINT32_MAX,
         .end = UNWIND_END_COUNT - 1,
         .unticked = true,
         .has_ids = true,
         .ticks = UINT64_MAX,
         .ns = UINT64_MAX,
         .ids = {{1, UINT64_MAX}, 3}},
        {.n = 2, .label = 1, .unticked = true, .ticks = 3},
        {.n = 7, .has_ids = true, .ids = {{4, 5}, 6}},
    };
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        uint64_t words[RECORD_MAX] = {0};
        struct record back;
        uint64_t *pcs = words + record_head(records[i].has_ids);
        for (uint32_t k = 0; k < records[i].n; k++)
            pcs[k] = k + 100;
        uint32_t length = record_encode(words, &records[i]);
        assert_int_equal(length, record_length(words));
        assert_true(length <= record_room(records[i].n));
        assert_int_equal(words[length - 1], records[i].n - 1 + 100);
        assert_int_equal(*pcs, 100);
        assert_true(record_decode(words, &back));
        assert_same(&back, &records[i]);
    }
}

// A ring that another process left, or that the program has written over.
static void nonsense_is_refused(void **state)
{
    struct record r;
    const uint64_t first[] = {0,
                              2,
                              RECORD_HAS_IDS | 5,
                              RECORD_HEAD + CAPTURE_MAX_DEPTH + 1,
                              RECORD_HAS_IDS | (RECORD_MAX + 1),
                              UINT64_MAX};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        uint64_t words[RECORD_HEAD_MAX] = {first[i]};
        assert_false(record_decode(words, &r));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_comes_back),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
