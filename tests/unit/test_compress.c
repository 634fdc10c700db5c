#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <libdeflate.h>
#include <zstd.h>

#include "codec/compress.h"
#include "model/parallel.h"

struct packed {
    uint8_t *p;
    size_t n;
};

static struct packed gzip(const void *data, size_t n)
{
    struct libdeflate_compressor *c = libdeflate_alloc_compressor(6);
    size_t bound = libdeflate_gzip_compress_bound(c, n);
    struct packed to = {.p = malloc(bound)};
    to.n = libdeflate_gzip_compress(c, data, n, to.p, bound);
    libdeflate_free_compressor(c);
    return to;
}

static struct packed zstd(const void *data, size_t n)
{
    struct packed to = {.p = malloc(ZSTD_compressBound(n))};
    to.n = ZSTD_compress(to.p, ZSTD_compressBound(n), data, n, 3);
    return to;
}

static struct packed join(struct packed a, struct packed b)
{
    struct packed to = {.p = malloc(a.n + b.n), .n = a.n + b.n};
    memcpy(to.p, a.p, a.n);
    memcpy(to.p + a.n, b.p, b.n);
    free(a.p);
    free(b.p);
    return to;
}

typedef struct packed pack(const void *data, size_t n);
static pack *const packs[] = {gzip, zstd};

static void inflates_to(struct packed packed, size_t limit, const void *want, size_t n)
{
    struct compress_bytes bytes = {0};
    struct err e = {.message = ""};
    for (unsigned threads = 1; threads <= 3; threads += 2) {
        parallel_allow(threads);
        if (compress_inflate(packed.p, packed.n, limit, &bytes, &e))
            fail_msg("%s", e.message);
        assert_int_equal(bytes.n, n);
        assert_memory_equal(bytes.p, want, n);
        compress_bytes_fini(&bytes);
        assert_null(bytes.p);
    }
    parallel_allow(1);
    compress_bytes_fini(&bytes);
}

// With nothing left behind, and with the same words for any number of threads.
static void refused(struct packed packed, size_t limit, const char *why)
{
    struct compress_bytes bytes = {0};
    struct err e = {.message = ""}, other = e;
    assert_int_equal(compress_inflate(packed.p, packed.n, limit, &bytes, &e), -1);
    if (!strstr(e.message, why))
        fail_msg("expected `%s` in `%s`", why, e.message);
    assert_null(bytes.p);
    parallel_allow(3);
    assert_int_equal(compress_inflate(packed.p, packed.n, limit, &bytes, &other), -1);
    assert_string_equal(other.message, e.message);
    assert_null(bytes.p);
    parallel_allow(1);
}

static void formats_are_known_by_their_start(void **state)
{
    assert_true(compress_is_gzip((const uint8_t *)"\x1f\x8b", 2));
    assert_false(compress_is_gzip((const uint8_t *)"\x1f\x8b", 1));
    assert_false(compress_is_gzip((const uint8_t *)"\x1f\x8c", 2));
    assert_true(compress_is_zstd((const uint8_t *)"\x28\xb5\x2f\xfd", 4));
    assert_false(compress_is_zstd((const uint8_t *)"\x28\xb5\x2f\xfd", 3));
    assert_false(compress_is_zstd(NULL, 0));
    assert_false(compress_is_gzip(NULL, 0));
}

static void bodies_of_all_sizes(void **state)
{
    static const size_t sizes[] = {0, 1, 63, 4095, 4096, 4097, 1000000};
    uint8_t *data = malloc(1000000);
    uint32_t seed = 1;
    for (size_t i = 0; i < 1000000; i++)
        data[i] = (uint8_t)((seed = seed * 1664525 + 1013904223) >> 24 & (i < 500000 ? 255 : 3));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int k = 0; k < 2; k++) {
            struct packed p = packs[k](data, sizes[i]);
            inflates_to(p, 1 << 30, data, sizes[i]);
            free(p.p);
        }
    }
    free(data);
}

static void members_and_frames_are_joined(void **state)
{
    for (int k = 0; k < 2; k++) {
        struct packed p = join(packs[k]("one ", 4), join(packs[k]("", 0), packs[k]("two", 3)));
        inflates_to(p, 1 << 20, "one two", 7);
        free(p.p);
    }
}

// As tight as deflate can be: the room that is reserved suffices.
static void the_best_ratio(void **state)
{
    size_t n = 20 << 20;
    uint8_t *zeros = calloc(1, n);
    for (int k = 0; k < 2; k++) {
        struct packed p = packs[k](zeros, n);
        assert_true(p.n < n / 900);
        inflates_to(p, 1 << 30, zeros, n);
        free(p.p);
    }
    free(zeros);
}

static void limits(void **state)
{
    uint8_t *zeros = calloc(1, (1 << 20) + 1);
    for (int k = 0; k < 2; k++) {
        struct packed p = packs[k](zeros, 1 << 20);
        inflates_to(p, 1 << 20, zeros, 1 << 20); // exactly
        refused(p, (1 << 20) - 1, "inflates to more than 0 MiB; set KILN_MAX_MIB");
        refused(p, 1000, "inflates to more than");
        p = join(p, packs[k](zeros, 1));
        refused(p, 1 << 20, "inflates to more than 1 MiB"); // over all members
        inflates_to(p, (1 << 20) + 1, zeros, (1 << 20) + 1);
        free(p.p);
    }
    free(zeros);
}

static void cut_anywhere(void **state)
{
    static const char text[] = "some text, some text, some more text";
    for (int k = 0; k < 2; k++) {
        struct packed p = packs[k](text, sizeof text);
        for (size_t n = k ? 4 : 2; n < p.n; n++) {
            struct packed cut = {malloc(n), n};
            memcpy(cut.p, p.p, n);
            refused(cut, 1 << 20, k ? "zstd" : "gzip data is cut short");
            free(cut.p);
        }
        // The first is whole, the second is not.
        struct packed two = join(p, packs[k](text, sizeof text));
        two.n -= 3;
        refused(two, 1 << 20, "cut short");
        free(two.p);
    }
}

static void what_follows_is_an_error(void **state)
{
    for (int k = 0; k < 2; k++) {
        struct packed garbage = {memcpy(malloc(7), "garbage", 7), 7};
        struct packed p = join(packs[k]("text", 4), garbage);
        refused(p, 1 << 20, k ? "zstd" : "gzip");
        free(p.p);
    }
}

static void damage_is_found(void **state)
{
    static const char text[] = "some text, some text, some more text";
    struct packed p = gzip(text, sizeof text);
    p.p[p.n - 6] ^= 1; // the checksum
    refused(p, 1 << 20, "corrupt");
    free(p.p);
    ZSTD_CCtx *c = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
    uint8_t body[200];
    size_t n = ZSTD_compress2(c, body, sizeof body, text, sizeof text);
    ZSTD_freeCCtx(c);
    body[n - 1] ^= 1;
    refused((struct packed){body, n}, 1 << 20, "checksum");
}

static void small_ones_go_into_an_arena(void **state)
{
    struct arena *arena = arena_new(0);
    struct packed one = gzip("abc", 3);
    struct str got;
    assert_int_equal(compress_inflate_small(one.p, one.n, arena, &got), 0);
    assert_true(str_eq(got, STR("abc")));
    for (size_t n = 0; n < one.n; n++)
        assert_int_equal(compress_inflate_small(one.p, n, arena, &got), -1);
    for (uint8_t stated = 0; stated < 3; stated++) {
        one.p[one.n - 4] = stated;
        assert_int_equal(compress_inflate_small(one.p, one.n, arena, &got), -1);
        refused(one, 1 << 20, "corrupt");
    }
    free(one.p);
    struct packed two = join(gzip("abc", 3), gzip("defgh", 5));
    assert_int_equal(compress_inflate_small(two.p, two.n, arena, &got), -1);
    free(two.p);
    arena_free(arena);
}

enum { LARGE = 48 << 20 };

static uint8_t *large_text(void)
{
    uint8_t *text = malloc(LARGE);
    for (size_t i = 0; i < LARGE; i++)
        text[i] = (uint8_t)("function_name "[i % 14] + (i >> 9) % 17);
    return text;
}

// With a budget, large data takes another way: the result is the same.
static void large_data_with_a_budget(void **state)
{
    struct budget budget = {.cancelled = false};
    struct compress_bytes bytes = {.budget = &budget};
    struct err e;
    struct out out;
    uint8_t *text = large_text();
    out_init_budget(&out, SIZE_MAX, &budget);
    assert_int_equal(compress_gzip(text, LARGE, &budget, &out, &e), 0);
    inflates_to((struct packed){(uint8_t *)out.p, out.n}, 2 * LARGE, text, LARGE);
    assert_int_equal(compress_inflate((uint8_t *)out.p, out.n, 2 * LARGE, &bytes, &e), 0);
    assert_int_equal(bytes.n, LARGE);
    assert_memory_equal(bytes.p, text, LARGE);
    compress_bytes_fini(&bytes);
    // Two members, and one that is cut short or too large.
    size_t n = out.n;
    char *member = malloc(n);
    assert_non_null(member);
    memcpy(member, out.p, n);
    out_write(&out, member, n);
    free(member);
    assert_int_equal(compress_inflate((uint8_t *)out.p, 2 * n, 2 * LARGE, &bytes, &e), 0);
    assert_int_equal(bytes.n, 2 * LARGE);
    compress_bytes_fini(&bytes);
    assert_int_equal(compress_inflate((uint8_t *)out.p, n - 5, 2 * LARGE, &bytes, &e), -1);
    assert_int_equal(compress_inflate((uint8_t *)out.p, 2 * n, LARGE + 1, &bytes, &e), -1);
    assert_non_null(strstr(e.message, "inflates to more than"));
    out.p[n / 2] ^= 0x55;
    assert_int_equal(compress_inflate((uint8_t *)out.p, n, 2 * LARGE, &bytes, &e), -1);
    assert_non_null(strstr(e.message, "corrupt"));
    out.p[n / 2] ^= 0x55;
    // A deadline ends both.
    size_t held = budget.account.held;
    budget.cancelled = true;
    assert_int_equal(compress_inflate((uint8_t *)out.p, n, 2 * LARGE, &bytes, &e), -1);
    assert_non_null(strstr(e.message, "canceled"));
    assert_int_equal(budget.account.held, held);
    out.n = 0;
    assert_int_equal(compress_gzip(text, LARGE, &budget, &out, &e), -1);
    assert_non_null(strstr(e.message, "canceled"));
    out_fini(&out);
    assert_int_equal(budget.account.held, 0);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_are_known_by_their_start),
        cmocka_unit_test(bodies_of_all_sizes),
        cmocka_unit_test(members_and_frames_are_joined),
        cmocka_unit_test(the_best_ratio),
        cmocka_unit_test(limits),
        cmocka_unit_test(cut_anywhere),
        cmocka_unit_test(what_follows_is_an_error),
        cmocka_unit_test(damage_is_found),
        cmocka_unit_test(small_ones_go_into_an_arena),
        cmocka_unit_test(large_data_with_a_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
