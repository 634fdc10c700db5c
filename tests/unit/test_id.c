#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "store/id.h"

// The vectors of SipHash's authors: key 00 to 0f, input 00, 01, ...
static void test_vectors(void **state)
{
    static const unsigned char want[][16] = {
        {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02,
         0x93},
        {0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc,
         0x45},
    };
    unsigned char key[16], input[16];
    for (unsigned i = 0; i < 16; i++)
        key[i] = input[i] = (unsigned char)i;
    struct id k;
    memcpy(&k, key, sizeof k);
    for (size_t n = 0; n < sizeof want / sizeof *want; n++) {
        struct id got = id_hash(k, input, n);
        assert_memory_equal(&got, want[n], 16);
    }
}

static void test_lengths_and_keys_differ(void **state)
{
    static const char zeros[40];
    struct id ids[82];
    size_t n = 0;
    for (size_t i = 0; i <= 40; i++) {
        ids[n++] = id_hash((struct id){0}, zeros, i);
        ids[n++] = id_hash((struct id){0, 1}, zeros, i);
    }
    assert_int_equal(id_distinct(ids, n), n);
    for (size_t i = 0; i < n; i++)
        assert_true(id_is_among(ids[i], ids, n));
    assert_false(id_is_among((struct id){1, 2}, ids, n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_lengths_and_keys_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
