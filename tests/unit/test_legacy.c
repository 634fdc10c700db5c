#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "codec/legacy.h"
#include "raw.h"

static void nothing_known(void **state)
{
    RAW_REFUSED(codec_read_legacy, "", "unrecognized profile format");
    RAW_REFUSED(codec_read_legacy, "\n\n", "unrecognized profile format");
    RAW_REFUSED(codec_read_legacy, "hello\nworld\n", "unrecognized profile format");
}

static void frame_rules(const char *text, const char *drop_part, const char *keep_part)
{
    struct arena *arena = arena_new(0);
    struct err e;
    struct model_profile *p = codec_read_legacy(arena, (const uint8_t *)text, strlen(text), &e);
    assert_non_null(p);
    assert_true(str_find(model_str(p, p->drop_frames), str_from(drop_part), 0) != SIZE_MAX);
    assert_true(str_starts(model_str(p, p->keep_frames), str_from(keep_part)));
    assert_int_equal(p->keep_frames == 0, *keep_part == '\0');
    arena_free(arena);
}

// What the profiler itself adds to a stack depends on the kind of profile.
static void frames_to_drop(void **state)
{
    frame_rules("heap profile: 1: 2 [3: 4] @ heapprofile\n", "|operator new(\\[\\])?|",
                "runtime\\.panic|");
    frame_rules("heap profile: 1: 2 [1: 2] @ heapprofile\n", "calloc|", "runtime\\.panic|");
    frame_rules("--- mutex:\n", "|(SpinLock::)?Unlock.*|", "");
    frame_rules("x profile: total 1\n", "|CpuProfiler::prof_handler|", "");
}

static void unsampled(int64_t count, int64_t size, int64_t rate, int64_t want_count,
                      int64_t want_size)
{
    legacy_unsample(&count, &size, rate);
    assert_int_equal(count, want_count);
    assert_int_equal(size, want_size);
}

static void unsampling(void **state)
{
    unsampled(0, 5, 10, 0, 0);
    unsampled(5, 0, 10, 0, 0);
    unsampled(7, 70, 1, 7, 70);
    unsampled(7, 70, 0, 7, 70);
    // 1 / (1 - 1/e) = 1.58...
    unsampled(1000, 1000 * 512, 512, 1581, 809972);
    // Large blocks are never missed; the exponent underflows.
    unsampled(3, INT64_C(3) << 50, 1024, 3, INT64_C(3) << 50);
    // A block of the size -rate: 1 / (1 - e).
    unsampled(-1000, 1000 * 512, 512, 581, -297972);
    // e^x is too large for a double.
    unsampled(-1, INT64_C(1) << 40, 2, 0, 0);
}

static void little_memory(void **state)
{
    const char text[] = "heap profile: 1: 2 [3: 4] @ heap_v2/524288\n"
                        "1: 2 [3: 4] @ 0x1 0x2 0x3\nMAPPED_LIBRARIES:\n1-2 r-xp 0 0:0 0 /x\n";
    raw_with_little_memory(codec_read_legacy, text, sizeof text - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_known),
        cmocka_unit_test(frames_to_drop),
        cmocka_unit_test(unsampling),
        cmocka_unit_test(little_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
