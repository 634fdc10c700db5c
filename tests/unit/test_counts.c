// Stacks and who counts them, within their memory, without a running profiler.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/collector/collector.h"

enum { MEMORY = 1 << 20 };

static uint64_t now;

static int set_up(void **state)
{
    collector.memory = MEMORY;
    now = 1000000000;
    return counts_begin();
}

static int tear_down(void **state)
{
    for (int i = 0; i < AGENT_WINDOWS; i++)
        if (collector.windows[i].open)
            counts_close_window(&collector.windows[i]);
    counts_drop_seconds();
    arena_free(collector.arena);
    collector.arena = NULL;
    collector.forget_earlier = 0;
    collector.starved = collector.short_of_memory = false;
    return 0;
}

static struct window *open_window(void)
{
    collector.windows[3] = (struct window){.open = true};
    return &collector.windows[3];
}

// As the collector takes a sample. False: it did not fit.
static bool feed(uint32_t serial, uint64_t trace, uintptr_t leaf, size_t n)
{
    uintptr_t pcs[CAPTURE_MAX_DEPTH];
    for (size_t i = 0; i < n; i++)
        pcs[i] = leaf + i;
    struct capture_ids ids = {{trace, 0}, 0};
    struct capture_sample x = {.tid = serial,
                               .serial = serial,
                               .ids = trace ? &ids : NULL,
                               .ticks = 1,
                               .ns = 10,
                               .n = n,
                               .pcs = pcs};
    char thread[CAPTURE_NAME] = "fed";
    x.thread = thread;
    struct weight weight = {x.ticks, x.ns, capture_squares(&x)};
    struct arena_trap trap;
    if (ARENA_TRY(collector.arena, trap)) {
        collector.starved = true;
        counts_add(STACKS_DROPPED, &weight);
        return false;
    }
    uint32_t number = stacks_add_thread(&collector.stacks, &x);
    uint32_t stack = stacks_add(&collector.stacks, &x, number, NULL);
    arena_try_end(collector.arena);
    counts_add(stack, &weight);
    return true;
}

static void tick(uint64_t ns)
{
    now += ns;
    counts_make_room(now);
    counts_begin_second(now);
}

static uint64_t sum_of_window(const struct window *w)
{
    uint64_t ticks = 0;
    for (size_t i = 0; i < w->cap; i++) {
        ticks += w->weights[i].ticks;
        assert_int_equal(w->weights[i].ns, 10 * w->weights[i].ticks);
        if (w->weights[i].ticks)
            assert_true(i < collector.stacks.n);
    }
    return ticks;
}

static uint64_t sum_of_seconds(void)
{
    uint64_t ticks = 0;
    for (uint32_t i = 0; i < collector.n_buckets; i++)
        for (size_t k = 0; k < counts_second(i)->n; k++) {
            assert_true(counts_second(i)->deltas[k].stack < collector.stacks.n);
            ticks += counts_second(i)->deltas[k].ticks;
        }
    return ticks;
}

static void equal_stacks_are_kept_once(void **state)
{
    tick(0);
    for (int i = 0; i < 100; i++) {
        feed(1, 0, 0x1000, 20);
        feed(2, 0, 0x1000, 20);
        feed(2, 7, 0x1000, 20);
    }
    assert_int_equal(collector.stacks.n, STACKS_DROPPED + 1 + 3);
    assert_int_equal(collector.stacks.n_chains, 1);
    assert_int_equal(collector.n_buckets, 1);
    assert_int_equal(counts_second(0)->n, 3);
    assert_int_equal(counts_second(0)->deltas[0].ticks, 100);
}

static void seconds_older_than_two_minutes_go(void **state)
{
    for (int i = 0; i < 500; i++) {
        tick(1000000000);
        feed(1, 0, 0x1000, 5);
    }
    assert_in_range(collector.n_buckets, 120, 122);
    assert_in_range(sum_of_seconds(), 120, 122);
    assert_false(collector.short_of_memory);
}

// Ever new stacks: what nobody counts is forgotten, and everything stays within the limit.
static void new_stacks_for_ever_stay_within_memory(void **state)
{
    uint64_t lost = 0;
    for (uint32_t i = 0; i < 200000; i++) {
        if (i % 20 == 0)
            tick(100000000);
        lost += !feed(i % 7, i + 1, i * 64, 30);
        assert_true(counts_memory() <= MEMORY);
    }
    assert_true(collector.stacks.n < 20000);
    assert_true(sum_of_seconds() >= 100);
    print_message("%zu stacks held, %llu ticks of the last seconds, %llu lost\n",
                  collector.stacks.n, (unsigned long long)sum_of_seconds(),
                  (unsigned long long)lost);
    // Room is made before it runs out, nearly always.
    assert_true(lost < 200000 / 50);
}

// A window keeps what it counted through all forgetting around it.
static void windows_survive_forgetting(void **state)
{
    collector.memory = 16 * MEMORY;
    assert_int_equal(counts_begin(), 0);
    for (uint32_t i = 0; i < 3000; i++) {
        tick(1000000);
        feed(1, 0, 0x20000000 + i * 64, 10);
    }
    struct window *w = open_window();
    for (uint32_t i = 0; i < 300; i++)
        feed(1, 0, i * 64, 10);
    size_t before = collector.stacks.n;
    // The seconds that counted the others go, and then they.
    tick(AGENT_LAST_SECONDS * UINT64_C(2000000000));
    tick(AGENT_LAST_SECONDS * UINT64_C(2000000000));
    counts_drop_uncounted();
    assert_true(before >= 3300);
    assert_int_equal(collector.stacks.n, STACKS_DROPPED + 1 + 300);
    for (uint32_t i = 0; i < 300; i++) {
        const struct stack *stack = &collector.stacks.items[STACKS_DROPPED + 1 + i];
        assert_int_equal(collector.stacks.pcs[collector.stacks.chains[stack->chain].first], i * 64);
        assert_int_equal(w->weights[STACKS_DROPPED + 1 + i].ticks, 1);
    }
}

static void an_open_window_is_exact(void **state)
{
    struct window *w = open_window();
    uint64_t fed = 0;
    for (uint32_t i = 0; i < 100000; i++) {
        if (i % 50 == 0)
            tick(100000000);
        fed += feed(1, 0, (i % 100) * 64, 30);
    }
    assert_int_equal(fed, 100000);
    assert_int_equal(sum_of_window(w), fed);
    assert_int_equal(w->weights[STACKS_DROPPED].ticks, 0);
}

// What the profile of a window shows as dropped.
static uint64_t dropped_in_profile(const struct window *w)
{
    struct arena *arena = arena_new(0);
    struct arena_trap trap;
    uint64_t ticks = 0;
    assert_false(ARENA_TRY(arena, trap));
    struct model_profile *p =
        stacks_profile(&collector.stacks, w->weights, collector.stacks.n, 100, true, arena);
    for (size_t i = 0; i < p->n_samples; i++) {
        const struct model_location *leaf = &p->locations[model_stack(p, i)[0]];
        if (leaf->n_lines &&
            str_eq(model_str(p, p->functions[p->lines[leaf->first_line].function].name),
                   STR("[dropped]")))
            ticks += (uint64_t)model_values(p, i)[0];
    }
    arena_try_end(arena);
    arena_free(arena);
    return ticks;
}

static void what_does_not_fit_is_counted_as_dropped(void **state)
{
    struct window *w = open_window();
    uint64_t lost = 0;
    for (uint32_t i = 0; i < 50000; i++) {
        if (i % 50 == 0)
            tick(100000000);
        lost += !feed(1, 0, i * 64, 30);
        assert_true(counts_memory() <= MEMORY);
    }
    // The window counts every stack: nothing can be forgotten, so something is lost.
    assert_true(lost > 0);
    assert_true(w->weights[STACKS_DROPPED].ticks >= lost);
    assert_int_equal(sum_of_window(w), 50000);
    assert_int_equal(dropped_in_profile(w), w->weights[STACKS_DROPPED].ticks);
    counts_close_window(w);
    // Afterwards there is room again.
    now += 60000000000;
    tick(0);
    assert_true(feed(1, 0, 1, 30));
    tick(200000000000);
    assert_true(collector.stacks.n < 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(equal_stacks_are_kept_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(seconds_older_than_two_minutes_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(new_stacks_for_ever_stay_within_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(windows_survive_forgetting, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_open_window_is_exact, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_does_not_fit_is_counted_as_dropped, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
