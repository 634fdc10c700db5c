#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <kiln/heap.h>

#include "capture/heap_tables.h"
#include "codec/heap_read.h"

enum { THREADS = 4, ADDRESSES = 20000, STACKS = 500 };

static void set_up(unsigned n_blocks, uint32_t first_level)
{
    heap_tables = (struct heap_tables){.n_blocks = n_blocks};
    memset(kiln_heap_filter, 0, sizeof kiln_heap_filter);
    heap_tables.head = calloc(1, HEAP_BLOCK);
    heap_tables.head->magic = HEAP_MAGIC;
    for (unsigned i = 0; i < n_blocks; i++)
        heap_tables.blocks[i] = calloc(1, HEAP_BLOCK);
    atomic_store(&heap_tables.used, 8);
    for (int i = 0; i < HEAP_LEVELS; i++) {
        struct heap_level *level = &heap_tables.levels[i];
        level->n = first_level << 2 * i;
        level->keys = calloc(level->n + HEAP_WINDOW, sizeof *level->keys);
        level->objects = calloc(level->n + HEAP_WINDOW, sizeof *level->objects);
    }
    heap_tables.no_stack = heap_find_stack(NULL, 0, false);
}

static void tear_down(void)
{
    free(heap_tables.head);
    for (unsigned i = 0; i < heap_tables.n_blocks; i++)
        free(heap_tables.blocks[i]);
    for (int i = 0; i < HEAP_LEVELS; i++) {
        free((void *)heap_tables.levels[i].keys);
        free(heap_tables.levels[i].objects);
    }
}

static void chance(void **state)
{
    for (double x = 1e-12; x < 100; x *= 1.1) {
        double wanted = -expm1(-x);
        assert_true(fabs(heap_chance(x) - wanted) < 1e-6 * wanted);
    }
}

// The mean, and how often a gap ends within so many bytes: both as for an exponential distribution.
static void gaps(void **state)
{
    enum { N = 400000 };
    static const uint64_t means[] = {1, 10, 1000, 524288, UINT64_C(1) << 40};
    uint64_t random = 12345;
    for (size_t m = 0; m < sizeof means / sizeof *means; m++) {
        uint64_t mean = means[m], within = mean / 10 + 1;
        double sum = 0, met = 0;
        for (int i = 0; i < N; i++) {
            uint64_t gap = heap_gap(&random, mean);
            assert_true(gap >= 1);
            sum += (double)gap;
            met += gap <= within;
        }
        // Rounded up, the mean of a geometric distribution is 1 / (1 - exp(-1 / mean)).
        double wanted = 1 / -expm1(-1 / (double)mean);
        assert_true(fabs(sum / N / wanted - 1) < 4 / sqrt(N));
        double p = -expm1(-(double)within / (double)mean);
        assert_true(fabs(met / N - p) < 4 * sqrt(p * (1 - p) / N) + 1e-9);
    }
}

// --- the table of what is live, by several threads at once ---

static uintptr_t address_of(unsigned thread, unsigned i)
{
    return 0x10000 + ((uintptr_t)i * THREADS + thread) * 16;
}

static void *begin_and_end(void *context)
{
    unsigned me = (unsigned)(uintptr_t)context;
    struct capture_heap_object object = {.stack = me + 1}, found;
    for (int round = 0; round < 5; round++) {
        for (unsigned i = 0; i < ADDRESSES; i++) {
            object.bytes = i;
            if (!heap_insert(address_of(me, i), &object))
                return "no room";
            if (kiln_heap_unknown((void *)address_of(me, i)))
                return "not in the filter";
        }
        for (unsigned i = 0; i < ADDRESSES; i++) {
            if (!heap_remove(address_of(me, i), &found) || found.bytes != i ||
                found.stack != me + 1)
                return "not found";
            if (heap_remove(address_of(me, i), &found))
                return "found twice";
        }
    }
    return NULL;
}

static void in_threads(void *(*routine)(void *))
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, routine, (void *)i), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        void *complaint;
        pthread_join(threads[i], &complaint);
        if (complaint)
            fail_msg("%s", (char *)complaint);
    }
}

static void live(void **state)
{
    set_up(1, HEAP_FIRST_LEVEL);
    in_threads(begin_and_end);
    for (size_t i = 0; i < sizeof kiln_heap_filter; i++)
        assert_true(kiln_heap_filter[i] == 0 || kiln_heap_filter[i] == UINT8_MAX);
    tear_down();
}

static void nobody(void **state)
{
    struct capture_heap_object found;
    set_up(1, 16);
    for (uintptr_t i = 0; i < 64; i++)
        assert_false(heap_remove(i, &found));
    tear_down();
}

// A table that is full refuses, and has room again for every one that goes.
static void full(void **state)
{
    struct capture_heap_object object = {.bytes = 1};
    unsigned n = 0, refused = 0;
    set_up(1, 16);
    for (unsigned i = 0; i < ADDRESSES; i++)
        heap_insert(address_of(0, i), &object) ? n++ : refused++;
    assert_true(n <= 16 * 341 + HEAP_LEVELS * HEAP_WINDOW && n > 16 * 341 * 0.9 && refused > 0);
    unsigned again = 0;
    for (unsigned i = 0; i < ADDRESSES; i++)
        if (heap_remove(address_of(0, i), &object)) {
            again++;
            assert_true(heap_insert(address_of(0, i), &object));
        }
    assert_int_equal(again, n);
    tear_down();
}

// --- stacks ---

static size_t make_stack(unsigned which, uintptr_t pcs[40])
{
    size_t n = 1 + which % 40;
    for (size_t i = 0; i < n; i++)
        pcs[i] = 0x400000 + which * 64 + i;
    return n;
}

static void *count_stacks(void *context)
{
    uintptr_t pcs[40];
    for (unsigned i = 0; i < 20 * STACKS; i++) {
        size_t n = make_stack(i % STACKS, pcs);
        struct heap_stack *s = heap_record(heap_find_stack(pcs, n, i % STACKS % 2));
        if (!s || s->n != n || s->pcs[0] != pcs[0])
            return "another stack";
        atomic_fetch_add(&s->alloc_objects, HEAP_OBJECT);
        atomic_fetch_add(&s->alloc_bytes, 100);
        atomic_fetch_add(&s->live_objects, HEAP_OBJECT);
        atomic_fetch_add(&s->live_bytes, 100);
    }
    return NULL;
}

static struct model_profile *read_tables(struct arena *arena, struct err *e)
{
    const void *blocks[HEAP_BLOCKS] = {heap_tables.head};
    for (unsigned i = 0; i < heap_tables.n_blocks; i++)
        blocks[i + 1] = heap_tables.blocks[i];
    return codec_read_heap(arena, blocks, heap_tables.n_blocks + 1, NULL, NULL, e);
}

static void stacks(void **state)
{
    struct err e;
    set_up(2, 16);
    in_threads(count_stacks);
    struct arena *arena = arena_new(0);
    struct model_profile *p = read_tables(arena, &e);
    assert_non_null(p);
    assert_int_equal(p->n_types, 4);
    assert_int_equal(p->n_samples, STACKS);
    for (size_t i = 0; i < p->n_samples; i++) {
        assert_int_equal(model_values(p, i)[0], THREADS * 20);
        assert_int_equal(model_values(p, i)[1], THREADS * 20 * 100);
        assert_int_equal(model_values(p, i)[3], THREADS * 20 * 100);
    }
    arena_free(arena);
    tear_down();
}

static void no_room_for_stacks(void **state)
{
    uintptr_t pcs[40];
    unsigned refused = 0;
    set_up(1, 16);
    for (unsigned i = 0; i < 10000; i++) {
        uint32_t number = heap_find_stack(pcs, make_stack(i, pcs), false);
        assert_non_null(heap_record(number));
        refused += number == heap_tables.no_stack;
    }
    assert_true(refused > 0 && refused < 10000);
    tear_down();
}

// --- an image that somebody has written over ---

static void broken(void **state)
{
    uint64_t random = 99;
    uintptr_t pcs[40];
    struct err e;
    set_up(2, 16);
    for (unsigned i = 0; i < STACKS; i++) {
        struct heap_stack *s = heap_record(heap_find_stack(pcs, make_stack(i, pcs), false));
        atomic_store(&s->alloc_objects, HEAP_OBJECT);
    }
    atomic_store(&heap_tables.head->n_modules, UINT32_MAX);
    for (int round = 0; round < 60; round++) {
        for (int i = 0; i < 400; i++) {
            uint64_t r = heap_gap(&random, UINT64_C(1) << 50);
            uint32_t *words = (uint32_t *)heap_tables.blocks[r % 2];
            words[r / 2 % 32768] = (uint32_t)(r >> 20);
            atomic_store(&heap_tables.head->index[r / 7 % HEAP_INDEX], (uint32_t)(r >> 9));
            atomic_store(&heap_tables.head->modules[r / 3 % HEAP_MODULES],
                         (uint32_t)(r >> 13) % (3 << HEAP_PLACES));
        }
        struct arena *arena = arena_new(512 << 20);
        struct model_profile *p = read_tables(arena, &e);
        assert_true(!p || model_check(p, &e) == 0);
        arena_free(arena);
    }
    heap_tables.head->magic++;
    struct arena *arena = arena_new(0);
    assert_null(read_tables(arena, &e));
    arena_free(arena);
    tear_down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chance),
        cmocka_unit_test(gaps),
        cmocka_unit_test(live),
        cmocka_unit_test(nobody),
        cmocka_unit_test(full),
        cmocka_unit_test(stacks),
        cmocka_unit_test(no_room_for_stacks),
        cmocka_unit_test(broken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
