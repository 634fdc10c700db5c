#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "codec/detect.h"
#include "raw.h"

#define MAPS                                                                              \
    "\nMAPPED_LIBRARIES:\n"                                                               \
    "55d0c0000000-55d0c0100000 r--p 00000000 fd:01 123 /usr/bin/server\n"                 \
    "55d0c0100000-55d0c0900000 r-xp 00100000 fd:01 123 /usr/bin/server\n"                 \
    "7f0000000000-7f0000200000 r-xp 00028000 fd:01 77 /opt/my libs/libc.so.6 (deleted)\n" \
    "7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]\n"

static const char live_only[] = "heap_v2/524288\n"
                                "  t*: 28106: 56637512 [0: 0]\n"
                                "  t0: 28106: 56637512 [0: 0] main\n"
                                "@ 0x55d0c0100011 0x7f0000000021 0x55d0c0100011\n"
                                "  t*: 1: 524288 [0: 0]\n"
                                "  t0: 1: 524288 [0: 0]\n"
                                "@ 0x12\n"
                                "  t*: 2: 16777216 [0: 0]\n"
                                "@ 0x13\n"
                                "  t*: 0: 0 [0: 0]\n" MAPS;

// A block as large as the interval is seen once in 1 / (1 - 1/e) = 1.58 times.
static void counts_are_scaled(void **state)
{
    RAW_COMPARE(codec_read_jemalloc, live_only,
                "space/bytes 524288, 0 ns\n"
                "inuse_objects/count inuse_space/bytes\n"
                "2 829411: 1 2 1 | thread=main\n"
                "2 16777218: 3\n"
                "Locations\n"
                "1: 0x55d0c0100010 M=1\n"
                "2: 0x7f0000000020 M=2\n"
                "3: 0x11\n"
                "4: 0x12\n"
                "Mappings\n"
                "1: 0x55d0c0100000/0x55d0c0900000/0x100000 /usr/bin/server \n"
                "2: 0x7f0000000000/0x7f0000200000/0x28000 /opt/my libs/libc.so.6 (deleted) \n");
}

// What t* says is divided as the threads' own lines tell; those of one name are one.
static void named_threads_become_labels(void **state)
{
    RAW_COMPARE(codec_read_jemalloc,
                "heap_v2/1\n"
                "  t*: 1: 1 [0: 0]\n"
                "  t1: 1: 1 [0: 0] pool [1: 2]\n"
                "  t2: 1: 1 [0: 0]\n"
                "  t3: 1: 1 [0: 0] pool [1: 2]\n"
                "  t4: 1: 1 [0: 0] other\n"
                "@ 0x11\n"
                "  t*: 10: 1001 [20: 2000]\n"
                "  t1: 2: 200 [4: 400]\n"
                "  t2: 3: 300 [6: 600]\n"
                "  t3: 2: 200 [4: 400]\n"
                "  t4: 3: 300 [6: 600]\n",
                "space/bytes 1, 0 ns\n"
                "alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes\n"
                "8 800 4 400: 1 | thread=pool [1: 2]\n"
                "6 600 3 301: 1 | thread=other\n"
                "6 600 3 300: 1\n"
                "Locations\n"
                "1: 0x10\n"
                "Mappings\n");
}

// From the leaf on what lies in jemalloc's library is left out; if nothing else is there, its last.
static void frames_of_the_allocator_are_left_out(void **state)
{
    RAW_COMPARE(codec_read_jemalloc,
                "heap_v2/1\n"
                "@ 0x7f0000000011 0x7f0000000021 0x55d000000031 0x7f0000000041\n"
                "  t*: 1: 100 [0: 0]\n"
                "@ 0x7f0000000011 0x7f0000000021\n"
                "  t*: 1: 200 [0: 0]\n"
                "\nMAPPED_LIBRARIES:\n"
                "55d000000000-55d000001000 r-xp 00000000 fd:01 1 /usr/bin/server\n"
                "7f0000000000-7f0000001000 r-xp 00000000 fd:01 2 /usr/lib/libjemalloc.so.2\n",
                "space/bytes 1, 0 ns\n"
                "inuse_objects/count inuse_space/bytes\n"
                "1 100: 1 2\n"
                "1 200: 3\n"
                "Locations\n"
                "1: 0x55d000000030 M=1\n"
                "2: 0x7f0000000040 M=2\n"
                "3: 0x7f0000000020 M=2\n"
                "Mappings\n"
                "1: 0x55d000000000/0x55d000001000/0x0 /usr/bin/server \n"
                "2: 0x7f0000000000/0x7f0000001000/0x0 /usr/lib/libjemalloc.so.2 \n");
}

static void default_is_what_is_in_use(void **state)
{
    struct arena *arena = arena_new(0);
    struct err e;
    struct model_profile *p =
        codec_read_jemalloc(arena, (const uint8_t *)live_only, sizeof live_only - 1, &e);
    assert_non_null(p);
    assert_true(str_eq(model_str(p, p->default_type), STR("inuse_space")));
    arena_free(arena);
}

static void accumulated_counts_add_types(void **state)
{
    RAW_COMPARE(codec_read_jemalloc,
                "heap_v2/1\n  t*: 3: 30 [9: 90]\n"
                "@ 0x11\n  t*: 1: 10 [4: 40]\n  t1: 1: 10 [4: 40]\n"
                "@ 0x21\n  t*: 0: 0 [5: 50]\n",
                "space/bytes 1, 0 ns\n"
                "alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes\n"
                "4 40 1 10: 1\n5 50 0 0: 2\n"
                "Locations\n1: 0x10\n2: 0x20\nMappings\n");
}

// The totals at the top of the file say nothing about stacks.
static void accumulated_totals_alone_do_not(void **state)
{
    RAW_COMPARE(codec_read_jemalloc, "heap_v2/1\n  t*: 3: 30 [9: 90]\n@ 0x11\n  t*: 1: 10 [0: 0]\n",
                "space/bytes 1, 0 ns\ninuse_objects/count inuse_space/bytes\n1 10: 1\n"
                "Locations\n1: 0x10\nMappings\n");
}

static void threads_stand_in_for_a_missing_total(void **state)
{
    RAW_COMPARE(codec_read_jemalloc,
                "heap_v2/1\n@ 0x11\n  t1: 1: 10 [0: 0]\n  t22: 2: 5 [0: 0] some name\n",
                "space/bytes 1, 0 ns\ninuse_objects/count inuse_space/bytes\n"
                "2 5: 1 | thread=some name\n1 10: 1\n"
                "Locations\n1: 0x10\nMappings\n");
}

static void broken_dumps_are_refused(void **state)
{
    RAW_REFUSED(codec_read_jemalloc, "", "heap_v2/");
    RAW_REFUSED(codec_read_jemalloc, "heap_v2/x\n", "line 1");
    RAW_REFUSED(codec_read_jemalloc, "heap_v2/1\n@ 0x1 zz\n", "line 2: expected `@ 0x");
    RAW_REFUSED(codec_read_jemalloc, "heap_v2/1\n@0x1\n", "line 2");
    RAW_REFUSED(codec_read_jemalloc, "heap_v2/1\n@ 0x1\n t*: 1: 2 [3]\n", "line 3");
    RAW_REFUSED(codec_read_jemalloc, "heap_v2/1\n@ 0x1\n t*: 1: 2 [3: 4]\n t*: 1: 2 [3: 4]\n",
                "line 4: expected one");
    RAW_REFUSED(codec_read_jemalloc, "heap_v2/1\nhello\n", "line 2: expected a stack");
    RAW_REFUSED(codec_read_jemalloc,
                "heap_v2/1\n@ 0x1\n t1: 9223372036854775807: 1 [0: 0]\n t2: 1: 1 [0: 0]\n",
                "line 4");
    RAW_REFUSED(codec_read_jemalloc,
                "heap_v2/9223372036854775807\n@ 0x1\n t*: 9: 9 [0: 0]\n"
                "@ 0x1\n t*: 9000000000000000: 9 [0: 0]\n",
                "too large");
}

static void detection(void **state)
{
    assert_true(codec_looks_like_jemalloc(STR("heap_v2/524288\n  t*: 1: 2 [0: 0]\n")));
    assert_false(codec_looks_like_jemalloc(STR("heap_v2/\n")));
    assert_false(codec_looks_like_jemalloc(STR("heap profile: 1: 2 [3: 4] @ heap_v2/524288\n")));
    assert_false(codec_looks_like_jemalloc(STR("")));
}

static void little_memory(void **state)
{
    raw_with_little_memory(codec_read_jemalloc, live_only, sizeof live_only - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_scaled),
        cmocka_unit_test(named_threads_become_labels),
        cmocka_unit_test(frames_of_the_allocator_are_left_out),
        cmocka_unit_test(default_is_what_is_in_use),
        cmocka_unit_test(accumulated_counts_add_types),
        cmocka_unit_test(accumulated_totals_alone_do_not),
        cmocka_unit_test(threads_stand_in_for_a_missing_total),
        cmocka_unit_test(broken_dumps_are_refused),
        cmocka_unit_test(detection),
        cmocka_unit_test(little_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
