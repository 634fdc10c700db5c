#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/hash.h"

// Everything added is found and nothing else, through many growths.
static void what_was_added_is_found(void **state)
{
    struct arena *a = arena_new(0);
    struct hash_table table;
    hash_init(&table, a, 0);
    static uint64_t keys[20000];
    for (uint32_t i = 0; i < 20000; i++) {
        keys[i] = (uint64_t)i * 7919;
        hash_add(&table, a, hash_bytes(&keys[i], sizeof keys[i], 0), i);
    }
    for (uint32_t i = 0; i < 40000; i++) {
        uint64_t key = (uint64_t)i * 7919, h = hash_bytes(&key, sizeof key, 0);
        uint32_t found = UINT32_MAX;
        for (struct hash_probe at = hash_find(&table, h); hash_hit(&table, &at);
             hash_next(&table, &at))
            if (keys[at.item] == key)
                found = at.item;
        assert_int_equal(found, i < 20000 ? i : UINT32_MAX);
    }
    arena_free(a);
}

// Equal hashes are all walked.
static void collisions_are_walked(void **state)
{
    struct arena *a = arena_new(0);
    struct hash_table table;
    hash_init(&table, a, 4);
    for (uint32_t i = 0; i < 100; i++)
        hash_add(&table, a, 42, i);
    int n = 0;
    for (struct hash_probe at = hash_find(&table, 42); hash_hit(&table, &at);
         hash_next(&table, &at))
        n++;
    assert_int_equal(n, 100);
    arena_free(a);
}

// Tables that are asked for a size do not grow before it is reached.
static void room_is_made_at_once(void **state)
{
    struct arena *a = arena_new(0);
    for (size_t expected = 0; expected < 5000; expected = expected * 3 + 1) {
        struct hash_table table;
        hash_init(&table, a, expected);
        const struct hash_slot *before = table.slots;
        for (uint32_t i = 0; i < expected; i++)
            hash_add(&table, a, hash_mix(i, 1), i);
        assert_ptr_equal(table.slots, before);
        assert_int_equal(table.n, expected);
    }
    arena_free(a);
}

// Hashes that want the last slots go round to the first ones.
static void probing_wraps_around(void **state)
{
    struct arena *a = arena_new(0);
    struct hash_table table;
    hash_init(&table, a, 0);
    for (uint32_t i = 0; i < 5; i++)
        hash_add(&table, a, UINT64_MAX, i);
    int n = 0;
    for (struct hash_probe at = hash_find(&table, UINT64_MAX); hash_hit(&table, &at);
         hash_next(&table, &at))
        assert_int_equal(at.item, n++);
    assert_int_equal(n, 5);
    struct hash_probe other = hash_find(&table, (UINT64_MAX >> 32 ^ 1) << 32);
    assert_false(hash_hit(&table, &other));
    arena_free(a);
}

static void every_byte_counts(void **state)
{
    char text[100] = {0};
    for (size_t n = 1; n <= sizeof text; n++) {
        uint64_t before = hash_bytes(text, n, 1);
        assert_true(before != hash_bytes(text, n, 2));
        assert_true(before != hash_bytes(text, n - 1, 1));
        text[n - 1] ^= 1;
        assert_true(before != hash_bytes(text, n, 1));
        text[n - 1] ^= 1;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_added_is_found), cmocka_unit_test(collisions_are_walked),
        cmocka_unit_test(room_is_made_at_once),    cmocka_unit_test(probing_wraps_around),
        cmocka_unit_test(every_byte_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
