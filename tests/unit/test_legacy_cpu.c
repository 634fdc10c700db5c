#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "raw.h"

// Words in one of the four encodings, with text after them.
static size_t encode(uint8_t *to, const uint64_t *words, size_t n, unsigned size, bool is_big,
                     const char *text)
{
    uint8_t *at = to;
    for (size_t i = 0; i < n; i++)
        for (unsigned k = 0; k < size; k++)
            *at++ = (uint8_t)(words[i] >> 8 * (is_big ? size - 1 - k : k));
    memcpy(at, text, strlen(text));
    return (size_t)(at - to) + strlen(text);
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

// The second frame is the same in all samples, so it goes; then a leaf is there twice.
static void all_encodings_read_the_same(void **state)
{
    const uint64_t words[] = {0, 3, 0,        10000,    0,                  //
                              2, 3, 0x400100, 0x400777, 0x400200,           //
                              1, 3, 0x400300, 0x400777, 0x400200,           //
                              5, 4, 0x400300, 0x400777, 0x400300, 0x400200, //
                              0, 1, 0};
    const char *map = "00400000-00500000 r-xp 00000000 08:01 12 /bin/prog\n";
    const char *expected = "cpu/nanoseconds 10000000, 0 ns\n"
                           "samples/count cpu/nanoseconds\n"
                           "2 20000000: 1 2\n"
                           "1 10000000: 3 2\n"
                           "5 50000000: 3 2\n"
                           "Locations\n"
                           "1: 0x400100 M=1\n"
                           "2: 0x4001ff M=1\n"
                           "3: 0x400300 M=1\n"
                           "4: 0x4002ff M=1\n"
                           "Mappings\n"
                           "1: 0x400000/0x500000/0x0 /bin/prog \n";
    uint8_t data[1024];
    for (unsigned size = 4; size <= 8; size += 4)
        for (int is_big = 0; is_big <= 1; is_big++)
            raw_compare(codec_read_legacy, data,
                        encode(data, words, COUNT(words), size, is_big, map), expected);
}

static void java(void **state)
{
    const uint64_t words[] = {0, 3, 1, 1000, 0, 4, 2, 3, 4, 1, 1, 5, 0, 1, 0};
    uint8_t data[1024];
    size_t n = encode(data, words, COUNT(words), 8, false, "0x3 a.B.c (B.java:7)\n0x4 GC");
    raw_compare(codec_read_legacy, data, n,
                "cpu/nanoseconds 1000000, 0 ns\n"
                "samples/count cpu/nanoseconds\n"
                "4 4000000: 1 2\n"
                "1 1000000: 3\n"
                "Locations\n"
                "1: 0x0 a.B.c B.java:7:0\n"
                "2: 0x0 GC :0:0\n"
                "3: 0x0 M=1\n"
                "Mappings\n"
                "1: 0x0/0xffffffffffffffff/0x0  \n");
}

// Missing words of the last stack are zeros; missing counts make it no profile at all.
static void cut_off(void **state)
{
    const uint64_t words[] = {0, 3, 0, 1, 0, 4, 3, 0x10, 0x20, 0x30};
    uint8_t data[1024];
    size_t n = encode(data, words, COUNT(words), 8, false, "");
    raw_compare(codec_read_legacy, data, n - 9,
                "cpu/nanoseconds 1000, 0 ns\n"
                "samples/count cpu/nanoseconds\n"
                "4 4000: 1\n"
                "Locations\n"
                "1: 0x10 M=1\n"
                "Mappings\n"
                "1: 0x0/0xffffffffffffffff/0x0  \n");
    raw_refused(codec_read_legacy, data, 6 * 8 + 4, "unrecognized");
    raw_refused(codec_read_legacy, data, 7 * 8, "unrecognized");
    raw_refused(codec_read_legacy, data, 4 * 8, "unrecognized");
}

static void absurd_depth_is_refused(void **state)
{
    const uint64_t words[] = {0, 3, 0, 1, 0, 4, UINT64_MAX, 0x10};
    uint8_t data[1024];
    raw_refused(codec_read_legacy, data, encode(data, words, COUNT(words), 8, false, ""),
                "unrecognized");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_encodings_read_the_same),
        cmocka_unit_test(java),
        cmocka_unit_test(cut_off),
        cmocka_unit_test(absurd_depth_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
