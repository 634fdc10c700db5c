#include "store/commit_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "store/request.h"
#include "store_profiles.h"

enum { MIB = 1 << 20, MOST = 4096 };

static struct store_request *taken[MOST];

static void add(struct commit_queue *q, struct store_request *r, const char *tenant, size_t bytes,
                size_t n, int64_t day)
{
    struct err e;
    *r = (struct store_request){.bytes = bytes, .n = n, .first_day = day, .last_day = day};
    assert_int_equal(commit_queue_add(q, str_from(tenant), r, &e), 0);
}

static size_t take(struct commit_queue *q)
{
    size_t n = commit_queue_take(q, taken, MOST);
    for (size_t i = 0; i < n; i++)
        taken[i]->code = 0;
    return n;
}

static void end_batch(struct commit_queue *q, size_t n)
{
    for (size_t i = 0; i < n; i++)
        commit_queue_forget(q, taken[i]);
}

static bool is_taken(const struct store_request *r, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (taken[i] == r)
            return true;
    return false;
}

static size_t count_days(size_t n)
{
    size_t days = 0;
    for (size_t i = 0; i < n; i++) {
        size_t j = 0;
        while (taken[j]->first_day != taken[i]->first_day)
            j++;
        days += j == i;
    }
    return days;
}

// A tenant sends pushes of one day each, of 31 days: others wait for two of them at most, and so do
// its own pushes of today.
static void test_days_take_turns(void **state)
{
    enum { DAYS = 31, EACH = 4 };
    struct commit_queue q;
    struct store_request old[DAYS * EACH], today, other;
    commit_queue_init(&q, 48 * MIB);
    for (int i = 0; i < DAYS * EACH; i++)
        add(&q, &old[i], "bad", 1000, 1, 1000 + i * 7 % DAYS);
    add(&q, &today, "bad", 1000, 1, 1000 + DAYS);
    add(&q, &other, "good", 1000, 1, 1000 + DAYS);
    size_t left = DAYS * EACH + 2, batches = 0;
    for (; q.first; batches++) {
        size_t n = take(&q);
        assert_true(n > 0);
        assert_true(count_days(n) <= 2);
        if (batches == 0)
            assert_true(is_taken(&other, n) && is_taken(&today, n));
        end_batch(&q, n);
        left -= n;
    }
    assert_int_equal(left, 0);
    assert_in_range(batches, 1, DAYS);
    assert_int_equal(q.bytes, 0);
    assert_int_equal(q.n_tenants, 0);
}

// The day before the newest one is not old: it is midnight.
static void test_midnight(void **state)
{
    struct commit_queue q;
    struct store_request r[2];
    commit_queue_init(&q, 48 * MIB);
    add(&q, &r[0], "a", 1000, 1, 1000);
    add(&q, &r[1], "a", 1000, 1, 1001);
    assert_int_equal(take(&q), 2);
    end_batch(&q, 2);
}

// Many small puts take time as well: they are not committed all at once.
static void test_puts_have_a_share(void **state)
{
    enum { REQUESTS = 64 };
    struct commit_queue q;
    struct store_request many[REQUESTS], other[8];
    commit_queue_init(&q, 48 * MIB);
    for (int i = 0; i < REQUESTS; i++)
        add(&q, &many[i], "bad", 500 * 1000, PART_PUTS, 1000);
    for (int i = 0; i < 8; i++)
        add(&q, &other[i], "good", 1000, 1, 1000);
    size_t n = take(&q), puts = 0;
    for (size_t i = 0; i < n; i++)
        puts += taken[i]->n;
    assert_in_range(puts, PART_PUTS, 2 * PART_PUTS);
    for (int i = 0; i < 8; i++)
        assert_true(is_taken(&other[i], n));
    end_batch(&q, n);
    while ((n = take(&q)))
        end_batch(&q, n);
}

// Requests that fill a commit each are not a reason for a small one to wait for all of them.
static void test_small_ones_do_not_wait(void **state)
{
    struct commit_queue q;
    struct store_request large[2], small;
    commit_queue_init(&q, 48 * MIB);
    add(&q, &large[0], "bad", 20 * MIB, 1, 1000);
    add(&q, &large[1], "bad", 20 * MIB, 1, 1000);
    add(&q, &small, "good", 1000, 1, 1000);
    size_t n = take(&q);
    assert_int_equal(n, 2);
    assert_true(is_taken(&large[0], n) && is_taken(&small, n));
    end_batch(&q, n);
    n = take(&q);
    assert_int_equal(n, 1);
    end_batch(&q, n);
}

// Requests of a locked day come again and again: neither other tenants nor other days of the same
// tenant wait for them.
static void test_later_ones_hold_up_nobody(void **state)
{
    struct commit_queue q;
    struct store_request locked[2], today, other;
    commit_queue_init(&q, 48 * MIB);
    for (int i = 0; i < 2; i++)
        add(&q, &locked[i], "a", 17 * MIB, 1, 1000);
    add(&q, &today, "a", 10 * MIB, 1, 1001);
    add(&q, &other, "b", 10 * MIB, 1, 1000);
    size_t n, left = 2;
    for (int64_t now = 1; now < 5; now++) {
        n = take(&q);
        for (size_t i = 0; i < n; i++)
            taken[i]->code = taken[i] == &today || taken[i] == &other ? 0 : STORE_LATER;
        n = commit_queue_return(&q, taken, n, now);
        end_batch(&q, n);
        left -= n;
    }
    assert_int_equal(left, 0);
    while ((n = take(&q)))
        end_batch(&q, n);
}

static bool is_full(const struct commit_queue *q, const char *tenant, size_t bytes)
{
    struct err e;
    return commit_queue_is_full(q, str_from(tenant), bytes, &e);
}

// A tenant below its share is not refused, whatever the others have.
static void test_shares_of_memory(void **state)
{
    struct commit_queue q;
    struct store_request huge, r[10];
    commit_queue_init(&q, 48 * MIB);
    add(&q, &huge, "a", 300 * MIB, 1, 1000);
    assert_false(is_full(&q, "b", 24 * MIB));
    assert_true(is_full(&q, "b", 25 * MIB));
    assert_true(is_full(&q, "a", 1));
    end_batch(&q, take(&q));
    // Each takes all it can get.
    for (size_t i = 0; i < 10; i++) {
        char name[] = {(char)('a' + i), 0};
        size_t share = 48 * MIB / (i + 1);
        assert_false(is_full(&q, name, share));
        add(&q, &r[i], name, share, 1, 1000);
        assert_true(is_full(&q, name, 1));
    }
    for (size_t n; (n = take(&q));)
        end_batch(&q, n);
}

// What is larger than the limit is stored on a server with something to do, too.
static void test_larger_than_the_limit(void **state)
{
    struct commit_queue q;
    struct store_request small, huge, more;
    commit_queue_init(&q, 48 * MIB);
    add(&q, &small, "a", 20 * MIB, 1, 1000);
    assert_false(is_full(&q, "a", 100 * MIB));
    add(&q, &huge, "a", 100 * MIB, 1, 1000);
    assert_true(is_full(&q, "b", 100 * MIB));
    end_batch(&q, take(&q));
    end_batch(&q, take(&q));
    assert_null(q.first);
    add(&q, &more, "a", 30 * MIB, 1, 1000);
    assert_true(is_full(&q, "b", 100 * MIB));
    end_batch(&q, take(&q));
}

static void count_done(void *ctx, int code, const struct err *e)
{
    ++*(int *)ctx;
}

// A request of many puts comes in parts that weigh as much together, and is done once.
static void test_parts(void **state)
{
    enum { N = 2 * PART_PUTS + 1 };
    static struct store_put puts[N];
    const struct profile_shape shape = {4, 2, 4, 1, 0x400000};
    const int64_t day = 86400 * INT64_C(1000000000);
    struct arena *arena = arena_new(0);
    struct model_profile *p = profile_make(arena, &shape, PROFILE_CPU, 1);
    struct store_request *first, *one;
    struct err e = {""};
    size_t bytes = 0, n = 0;
    int done = 0;
    for (int i = 0; i < N; i++)
        puts[i] = (struct store_put){.time = (20000 + i % 2) * day, .profile = p};
    assert_int_equal(request_new(puts, 1, count_done, &done, &one, &e), 0);
    assert_false(one->is_part);
    assert_int_equal(request_new(puts, N, count_done, &done, &first, &e), 0);
    for (struct store_request *r = first, *next; r; r = next) {
        next = r->next;
        assert_true(r->is_part && r->n <= PART_PUTS && r->first_day == r->last_day);
        assert_int_equal(r->first_day, r->puts[0].time / day);
        assert_true(next ? r->bytes < r->n * one->bytes : r->bytes >= one->bytes);
        bytes += r->bytes;
        n += r->n;
        assert_int_equal(done, 0);
        r->done(r->ctx, 0, &e);
        free(r);
    }
    assert_int_equal(done, 1);
    assert_int_equal(n, N);
    assert_true(bytes < N * one->bytes);
    request_free(one);
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_days_take_turns),
        cmocka_unit_test(test_midnight),
        cmocka_unit_test(test_puts_have_a_share),
        cmocka_unit_test(test_small_ones_do_not_wait),
        cmocka_unit_test(test_later_ones_hold_up_nobody),
        cmocka_unit_test(test_shares_of_memory),
        cmocka_unit_test(test_larger_than_the_limit),
        cmocka_unit_test(test_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
