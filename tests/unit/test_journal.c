#include "journal_image.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "model/transform.h"

static struct image image;

static struct model_profile *read_image(struct arena *arena, size_t n, struct err *e)
{
    // A copy of its own, so that the sanitizer sees every byte too far.
    uint8_t *copy = malloc(n + !n);
    memcpy(copy, image.p, n);
    struct model_profile *p = codec_read_journal(arena, copy, n, true, NULL, e);
    free(copy);
    return p;
}

static int64_t total(const struct model_profile *p, uint32_t type)
{
    int64_t sum = 0;
    for (size_t i = 0; i < p->n_samples; i++)
        sum += model_values(p, i)[type];
    return sum;
}

static const char *label(const struct model_profile *p, size_t sample, const char *key)
{
    uint32_t n;
    const struct model_label *l = model_labels(p, sample, &n);
    for (uint32_t i = 0; i < n; i++)
        if (!l[i].is_number && str_eq(model_str(p, l[i].key), str_from(key)))
            return model_str(p, l[i].str).p;
    return "";
}

static struct str root(const struct model_profile *p, size_t sample)
{
    const struct model_location *l =
        &p->locations[model_stack(p, sample)[p->stack_len[sample] - 1]];
    return l->n_lines ? model_str(p, p->functions[p->lines[l->first_line].function].name) : STR("");
}

static void whole(void **state)
{
    struct arena *arena = arena_new(0);
    struct err e;
    uint64_t n_rings;
    image_make(&image);
    struct model_profile *p = codec_read_journal(arena, image.p, image.n, true, &n_rings, &e);
    assert_non_null(p);
    assert_int_equal(n_rings, 2);
    assert_int_equal(p->n_samples, 6);
    assert_int_equal(total(p, 0), 3 + 2 + 1 + 2 + 4 + 1);
    assert_int_equal(total(p, 1), 13 * 10000000);
    assert_int_equal(p->period, 10000000);
    assert_int_equal(p->duration_nanos, 2000000000);
    assert_int_equal(p->n_mappings, 2);
    assert_true(str_eq(model_str(p, p->mappings[0].file), STR("/bin/app")));
    assert_true(str_eq(model_str(p, p->mappings[1].build_id), STR("deadbeef")));
    assert_int_equal(p->stack_len[0], 2);
    assert_int_equal(p->locations[model_stack(p, 0)[0]].mapping, 1);
    assert_string_equal(label(p, 0, "key"), "val");
    assert_string_equal(label(p, 0, "thread"), "worker");
    assert_true(str_eq(root(p, 1), STR("[signals blocked]")));
    assert_true(str_eq(root(p, 2), STR("[truncated]")));
    assert_string_equal(label(p, 2, "span_id"), "0200000000000000");
    assert_true(str_eq(root(p, 3), STR("[ended before a tick]")));
    // What was in the ring: its addresses are looked for among the modules.
    assert_string_equal(label(p, 4, "thread"), "late");
    assert_int_equal(p->locations[model_stack(p, 4)[0]].address, 0x7f0000000020);
    assert_int_equal(p->locations[model_stack(p, 4)[1]].mapping, 0);
    // What was due at the end, under the call that lasted.
    assert_int_equal(p->stack_len[5], 2);
    assert_int_equal(p->locations[model_stack(p, 5)[1]].address, 0x400456);
    const struct model_location *l = &p->locations[model_stack(p, 5)[0]];
    assert_true(str_eq(model_str(p, p->functions[p->lines[l->first_line].function].name),
                       STR("[ended before a tick]")));
    arena_free(arena);
}

static void without_rings(void **state)
{
    struct arena *arena = arena_new(0);
    struct err e;
    image_make(&image);
    struct model_profile *p = codec_read_journal(arena, image.p, image.n, false, NULL, &e);
    assert_int_equal(total(p, 0), 6);
    arena_free(arena);
}

static void processes_and_drops(void **state)
{
    struct arena *arena = arena_new(0);
    struct err e;
    image_make(&image);
    image_part(&image)->follow = 1;
    atomic_store(&image_part(&image)->dropped, 5);
    atomic_store(&image_part(&image)->dropped_nanos, 50000000);
    image_part(&image)->counts.ring_full = 2;
    struct model_profile *p = codec_read_journal(arena, image.p, image.n, true, NULL, &e);
    assert_int_equal(p->n_samples, 7);
    assert_string_equal(label(p, 0, "process"), "app");
    assert_true(str_eq(root(p, 6), STR("[dropped]")));
    assert_int_equal(model_values(p, 6)[1], 70000000);
    assert_int_equal(p->n_comments, 1);
    arena_free(arena);
}

static void time_without_a_thread(void **state)
{
    struct arena *arena = arena_new(0);
    struct err e;
    image_begin(&image);
    image_block(&image, JOURNAL_RECORDS, 1024);
    image_stack(&image, 0, 2, (uint64_t[1]){0}, (uint16_t[1]){0}, 0)->kind = CAPTURE_UNSAMPLED;
    struct model_profile *p = codec_read_journal(arena, image.p, image.n, false, NULL, &e);
    assert_int_equal(p->n_samples, 1);
    assert_true(str_eq(root(p, 0), STR("[threads starting and ending]")));
    arena_free(arena);
}

static void refused(void **state)
{
    struct arena *arena = arena_new(0);
    struct err e;
    image_make(&image);
    assert_null(read_image(arena, 40, &e));
    assert_non_null(strstr(e.message, "40 bytes"));
    image_part(&image)->hz = 0;
    assert_null(read_image(arena, image.n, &e));
    assert_non_null(strstr(e.message, "0 Hz"));
    image_part(&image)->magic++;
    assert_null(read_image(arena, image.n, &e));
    assert_non_null(strstr(e.message, "invalid journal"));
    arena_free(arena);
}

// Cut anywhere, and with every byte wrong in turn: never a crash, never more ticks from records
// than a word holds.
static void broken(void **state)
{
    struct err e;
    image_make(&image);
    for (size_t n = 0; n <= image.n; n += 8) {
        struct arena *arena = arena_new(0);
        read_image(arena, n, &e);
        arena_free(arena);
    }
    static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};
    for (size_t at = 0; at < image.n; at++)
        for (size_t k = 0; k < sizeof values; k++) {
            struct arena *arena = arena_new(64 << 20);
            uint8_t had = image.p[at];
            image.p[at] = values[k];
            read_image(arena, image.n, &e);
            image.p[at] = had;
            arena_free(arena);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole),
        cmocka_unit_test(without_rings),
        cmocka_unit_test(refused),
        cmocka_unit_test(processes_and_drops),
        cmocka_unit_test(time_without_a_thread),
        cmocka_unit_test(broken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
