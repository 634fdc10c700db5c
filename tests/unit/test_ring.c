#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "capture/ring.h"

enum { WORDS = 1024, MOST = 120, RECORDS = 200000 };

static struct ring *new_ring(void)
{
    struct ring *r = aligned_alloc(64, sizeof *r + WORDS * sizeof(uint64_t));
    memset(r, 0, sizeof *r + WORDS * sizeof(uint64_t));
    r->size = WORDS;
    return r;
}

static uint32_t length_of(uint32_t i)
{
    return 2 + i * 7919 % (MOST - 2);
}

// A thread in the place of the handler, so that ThreadSanitizer sees both sides.
static void *produce(void *context)
{
    struct ring *r = context;
    for (uint32_t i = 0; i < RECORDS;) {
        uint64_t *words = ring_reserve(r, MOST);
        if (!words) {
            sched_yield();
            continue;
        }
        uint32_t n = length_of(i);
        words[0] = n;
        for (uint32_t k = 1; k < n; k++)
            words[k] = (uint64_t)i << 32 | k;
        ring_commit(r, n);
        i++;
    }
    return NULL;
}

static void records_arrive_whole_and_in_order(void **state)
{
    struct ring *r = new_ring();
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, produce, r), 0);
    for (uint32_t i = 0; i < RECORDS;) {
        const uint64_t *words = ring_peek(r);
        if (!words) {
            sched_yield();
            continue;
        }
        uint32_t n = (uint32_t)words[0];
        assert_int_equal(n, length_of(i));
        for (uint32_t k = 1; k < n; k++)
            if (words[k] != ((uint64_t)i << 32 | k))
                fail_msg("record %u, word %u", i, k);
        ring_drop(r, n);
        i++;
    }
    pthread_join(thread, NULL);
    assert_null(ring_peek(r));
    free(r);
}

static void a_full_ring_says_so(void **state)
{
    struct ring *r = new_ring();
    unsigned n = 0;
    for (uint64_t *words; (words = ring_reserve(r, MOST)); n++) {
        words[0] = MOST;
        ring_commit(r, MOST);
    }
    assert_int_equal(n, WORDS / MOST);
    for (; ring_peek(r); n--)
        ring_drop(r, MOST);
    assert_int_equal(n, 0);
    assert_non_null(ring_reserve(r, MOST)); // after a filler
    free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_arrive_whole_and_in_order),
        cmocka_unit_test(a_full_ring_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
