#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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

// --- keys that somebody constructs ---

// As many as a table of 65536 slots takes.
enum { KEYS = 49000, SECRETS = 3 };

// Another process: hashes of this one mean nothing from here on.
static void change_secret(unsigned number)
{
    for (size_t i = 0; i < 4; i++)
        hash_secret[i] = hash_stable(&number, sizeof number, i);
}

// Looks every hash up in a table of them: the mean of the slots looked at, and the most. Tables are
// at most three quarters full, where random hashes take 2.5 slots on the average.
static void probe(const uint64_t *hashes, size_t n, double *mean, size_t *most)
{
    struct arena *a = arena_new(0);
    struct hash_table table;
    hash_init(&table, a, 0);
    for (uint32_t i = 0; i < n; i++)
        hash_add(&table, a, hashes[i], i);
    size_t sum = 0;
    *most = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct hash_probe at = hash_find(&table, hashes[i]);
        uint32_t first = at.slot;
        while (hash_hit(&table, &at) && at.item != i)
            hash_next(&table, &at);
        size_t slots = ((at.slot - first) & table.mask) + 1;
        sum += slots;
        *most = slots > *most ? slots : *most;
    }
    *mean = (double)sum / (double)n;
    arena_free(a);
}

static void are_spread(const char *what, const uint64_t *hashes, size_t n)
{
    double mean;
    size_t most;
    probe(hashes, n, &mean, &most);
    if (mean > 4 || most > 400)
        fail_msg("%s: %.1f slots on the average, %zu at most", what, mean, most);
}

// Strings that collide in hash_stable: the first word cancels its constant, so that the product is
// zero and the second word counts for nothing.
static void colliding_strings(void **state)
{
    static uint64_t words[KEYS][2], hashes[KEYS];
    for (uint64_t i = 0; i < KEYS; i++) {
        words[i][0] = 16 ^ UINT64_C(0x9e3779b97f4a7c15);
        words[i][1] = i;
        assert_true(hash_stable(words[i], 16, 0) == hash_stable(words[0], 16, 0));
    }
    for (unsigned secret = 0; secret < SECRETS; secret++) {
        change_secret(secret);
        for (size_t i = 0; i < KEYS; i++)
            hashes[i] = hash_bytes(words[i], 16, 0);
        are_spread("words that cancel a constant", hashes, KEYS);
    }
    // Each of them followed by others, so that the sum of all blocks is the same.
    for (unsigned secret = 0; secret < SECRETS; secret++) {
        change_secret(secret);
        for (uint64_t i = 0; i < KEYS; i++) {
            uint64_t text[4] = {i, ~i, ~i, i};
            hashes[i] = hash_bytes(text, sizeof text, i & 1);
        }
        are_spread("blocks that cancel each other", hashes, KEYS);
    }
    // The seed and the bytes chosen together.
    for (unsigned secret = 0; secret < SECRETS; secret++) {
        change_secret(secret);
        for (uint64_t i = 0; i < KEYS; i++) {
            uint64_t text[2] = {i, i};
            hashes[i] = hash_bytes(text, sizeof text, i);
        }
        are_spread("bytes that cancel the seed", hashes, KEYS);
    }
}

// Ids that a client chooses: neighbors, multiples of the size of a table, equal low or high bits,
// and the ones that cancel the constants of hash_stable_mix.
static void chosen_integers(void **state)
{
    static uint64_t hashes[KEYS];
    for (unsigned secret = 0; secret < SECRETS; secret++) {
        change_secret(secret);
        for (unsigned shift = 0; shift <= 48; shift += 3) {
            for (uint64_t i = 0; i < KEYS; i++)
                hashes[i] = hash_mix(i << shift, 1);
            are_spread("ids with equal low bits", hashes, KEYS);
            for (uint64_t i = 0; i < KEYS; i++)
                hashes[i] = hash_mix(1, (i << shift) + 1);
            are_spread("second operands with equal low bits", hashes, KEYS);
            for (uint64_t i = 0; i < KEYS; i++)
                hashes[i] = hash_mix(UINT64_MAX - (i << shift), i << shift);
            are_spread("both operands", hashes, KEYS);
        }
        static const uint64_t strides[] = {
            3, 65537, 0x9e3779b97f4a7c15u, 0xd1b54a32d192ed03u, UINT64_MAX, (uint64_t)1 << 63 | 1};
        for (size_t k = 0; k < sizeof strides / sizeof *strides; k++) {
            for (uint64_t i = 0; i < KEYS; i++)
                hashes[i] = hash_mix(i * strides[k], 0);
            are_spread("ids at a distance", hashes, KEYS);
        }
        for (uint64_t i = 0; i < KEYS; i++)
            hashes[i] = hash_mix(i, 0xd1b54a32d192ed03u);
        are_spread("an operand that cancels a constant", hashes, KEYS);
    }
}

// An operand that happens to be a word of the secret does not lose the other one.
static void no_operand_is_lost(void **state)
{
    static uint64_t hashes[KEYS];
    for (uint64_t i = 0; i < KEYS; i++)
        hashes[i] = hash_mix(hash_secret[0], i);
    are_spread("the secret as first operand", hashes, KEYS);
    for (uint64_t i = 0; i < KEYS; i++)
        hashes[i] = hash_mix(i, hash_secret[1]);
    are_spread("the secret as second operand", hashes, KEYS);
}

static void print_hashes(void)
{
    printf("%016llx %016llx %016llx %016llx\n", (unsigned long long)hash_bytes("kiln", 4, 1),
           (unsigned long long)hash_mix(1, 2), (unsigned long long)hash_stable("kiln", 4, 1),
           (unsigned long long)hash_stable_mix(1, 2));
}

static void run_self(char line[80])
{
    const char *wrapper = getenv("MESON_EXE_WRAPPER"); // an emulator of another processor
    char self[4096], command[8300];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = 0;
    snprintf(command, sizeof command, "%.4000s '%s' print", wrapper ? wrapper : "", self);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, 80, f));
    pclose(f);
}

// Two processes: what tables use differs, what is written is the same, in all versions.
static void processes_differ(void **state)
{
    char one[80], two[80];
    run_self(one);
    run_self(two);
    assert_memory_not_equal(one, two, 16);
    assert_memory_not_equal(one + 17, two + 17, 16);
    assert_string_equal(one + 34, two + 34);
    assert_string_equal(one + 34, "d537f0b549f51247 c8b7f534790f4c6e\n");
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        print_hashes();
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_added_is_found), cmocka_unit_test(collisions_are_walked),
        cmocka_unit_test(room_is_made_at_once),    cmocka_unit_test(probing_wraps_around),
        cmocka_unit_test(every_byte_counts),       cmocka_unit_test(colliding_strings),
        cmocka_unit_test(chosen_integers),         cmocka_unit_test(no_operand_is_lost),
        cmocka_unit_test(processes_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
