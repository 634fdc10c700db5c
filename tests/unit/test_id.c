#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "store/id.h"

// Of an implementation that has the vectors of SipHash's authors with 2 and 4 rounds: key 00 to 0f,
// input 00, 01, ...
static void test_vectors(void **state)
{
    static const size_t lengths[] = {0, 1, 8, 15};
    static const unsigned char want[][16] = {
        {0xe7, 0x7e, 0xbc, 0xb2, 0x27, 0x88, 0xa5, 0xbe, 0xfd, 0x62, 0xdb, 0x6a, 0xdd, 0x30, 0x30,
         0x01},
        {0xfc, 0x6f, 0x37, 0x04, 0x60, 0xd3, 0xed, 0xa8, 0x5e, 0x05, 0x73, 0xcc, 0x2b, 0x2f, 0xf0,
         0x63},
        {0xaa, 0x12, 0xfe, 0xe1, 0xd5, 0xe3, 0xda, 0xb4, 0x72, 0x4f, 0x16, 0xab, 0x35, 0xf9, 0xc7,
         0x99},
        {0xc1, 0x7e, 0x55, 0x05, 0xb2, 0xbd, 0x52, 0x6c, 0x29, 0x21, 0xcd, 0xec, 0x1e, 0x7e, 0x01,
         0x09},
    };
    unsigned char key[16], input[16];
    for (unsigned i = 0; i < 16; i++)
        key[i] = input[i] = (unsigned char)i;
    struct id k;
    memcpy(&k, key, sizeof k);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct id got = id_hash(k, input, lengths[i]);
        assert_memory_equal(&got, want[i], 16);
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
