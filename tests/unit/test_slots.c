// The table of threads, driven by hand: no thread is sampled here.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "capture/record.h"
#include "capture/thread.h"

enum { OTHER = THREAD_BUCKETS }; // ids that differ by it share a chain

static int set_up(void **state)
{
    capture_state.depth = 16;
    capture_state.period_ns = 1000000;
    atomic_store(&capture_state.running, 1);
    return 0;
}

static int tear_down(void **state)
{
    atomic_store(&capture_state.running, 0);
    thread_slots_after_fork_in_child();
    return 0;
}

static struct capture_thread *take(pid_t tid)
{
    bool full = false;
    return thread_slot_take(tid, false, &full);
}

static void threads_are_found_by_their_ids(void **state)
{
    struct capture_thread *t[5];
    const pid_t tids[5] = {7, 7 + OTHER, 7 + 2 * OTHER, 8, 4000000};
    for (int i = 0; i < 5; i++)
        assert_non_null(t[i] = take(tids[i]));
    for (int i = 0; i < 5; i++)
        assert_ptr_equal(thread_find(tids[i]), t[i]);
    assert_null(thread_find(7 + 3 * OTHER));
    assert_null(take(7)); // it has one
    thread_slot_free(t[1]);
    assert_null(thread_find(tids[1]));
    assert_ptr_equal(thread_find(tids[0]), t[0]);
    assert_ptr_equal(thread_find(tids[2]), t[2]);
    assert_ptr_equal(take(9), t[1]); // used again
    assert_null(thread_find(tids[1]));
}

static void a_full_table_says_so(void **state)
{
    uint32_t most = capture_state.most_slots;
    capture_state.most_slots = 100;
    struct capture_thread *last = NULL;
    for (pid_t tid = 1; tid <= 100; tid++)
        assert_non_null(last = take(tid));
    bool full = false;
    assert_null(thread_slot_take(101, false, &full));
    assert_true(full);
    full = false;
    assert_null(thread_slot_take(100, false, &full));
    assert_false(full);
    thread_slot_free(last);
    assert_non_null(take(101));
    capture_state.most_slots = most;
}

static void a_stopped_table_takes_nobody(void **state)
{
    atomic_store(&capture_state.running, 0);
    assert_null(take(1));
}

static void removal_of_many_leaves_the_rest(void **state)
{
    enum { N = 3000 };
    static struct capture_thread *t[N];
    for (int i = 0; i < N; i++)
        assert_non_null(t[i] = take(1 + i * 37));
    for (int i = 0; i < N; i += 2)
        thread_slot_free(t[i]);
    for (int i = 0; i < N; i++)
        assert_ptr_equal(thread_find(1 + i * 37), i % 2 ? t[i] : NULL);
}

// --- the drain of a thread that has ended ---

static struct {
    struct capture_thread *t;
    unsigned stacks;
    uint32_t serial;
} late;

static void commit_record(struct capture_thread *t)
{
    uint64_t *words = ring_reserve(t->ring, record_room(1));
    struct record r = {.n = 1, .end = UNWIND_END_ROOT, .ticks = 1, .ns = 1000000};
    words[record_head(false)] = 4711;
    ring_commit(t->ring, record_encode(words, &r));
    thread_mark(t);
}

// After the ring was drained, a handler that was inside commits its record and leaves.
static void take_and_commit(void *context, const struct capture_sample *sample)
{
    if (sample->kind == CAPTURE_BLOCKED) {
        commit_record(late.t);
        atomic_store(&late.t->inside, 0);
    } else if (sample->kind == CAPTURE_STACK) {
        late.stacks++;
        late.serial = sample->serial;
    }
}

static void a_late_record_is_of_the_thread_that_wrote_it(void **state)
{
    struct capture_thread *t = take(11);
    late.t = t;
    late.stacks = 0;
    t->serial = 1;
    assert_true(thread_lane_take(t));
    atomic_store(&t->clock, CLOCK_NONE);
    atomic_store(&t->inside, 1); // a handler that was let in while it was armed
    atomic_store(&t->ring->blocked, 1);
    atomic_store(&t->state, THREAD_DISARMED);
    thread_mark(t);
    capture_drain(take_and_commit, NULL);
    assert_int_equal(atomic_load(&t->state), THREAD_DISARMED); // not given on: it was inside
    capture_drain(take_and_commit, NULL);
    assert_int_equal(late.stacks, 1);
    assert_int_equal(late.serial, 1);
    assert_int_equal(atomic_load(&t->state), THREAD_FREE);
    assert_null(atomic_load(&t->ring));
}

static void a_thread_without_a_clock_gives_its_ring_back(void **state)
{
    struct capture_thread *t = take(12);
    assert_true(thread_lane_take(t));
    atomic_store(&t->state, THREAD_ARMED);
    atomic_store(&t->clock, CLOCK_NONE);
    late.t = t;
    late.stacks = 0;
    commit_record(t);
    capture_drain(take_and_commit, NULL);
    assert_int_equal(late.stacks, 1);
    assert_null(atomic_load(&t->ring));
    assert_ptr_equal(thread_find(12), t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_full_table_says_so, set_up, tear_down),
        cmocka_unit_test_setup_teardown(threads_are_found_by_their_ids, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stopped_table_takes_nobody, set_up, tear_down),
        cmocka_unit_test_setup_teardown(removal_of_many_leaves_the_rest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_late_record_is_of_the_thread_that_wrote_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_thread_without_a_clock_gives_its_ring_back, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
