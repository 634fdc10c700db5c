#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "store/bits.h"
#include "store/matrix.h"
#include "store/matrix_format.h"
#include "store_profiles.h"

enum { NODES = 400, MOST_ROWS = 600 };

static uint64_t state_of_random;

static uint64_t draw(uint64_t n)
{
    return profile_random(&state_of_random) % n;
}

// What profiles have in their columns.
enum shape { CPU, HEAP, STEADY, SIGNED, HUGE_NUMBERS, ZERO_COLUMN, N_SHAPES };

static int64_t value_of(enum shape shape, uint32_t row, uint32_t node, uint32_t column, int64_t cpu)
{
    switch (shape) {
    case CPU:
        return column ? cpu * 10000000 : cpu;
    case HEAP: // objects of one size, some of them gone
        return (int64_t)draw(9) * (column ? 16 * (1 + node % 100) : 1);
    case STEADY:
        return 1000000 + node * 977 + (column ? row / 50 : 0);
    case SIGNED:
        return (int64_t)draw(2000) - 1000;
    case HUGE_NUMBERS:
        return (int64_t)(profile_random(&state_of_random) << draw(20));
    default:
        return column ? (int64_t)draw(5) : 0;
    }
}

static void make_rows(struct arena *a, enum shape shape, uint32_t n_rows, uint32_t k,
                      struct symbols_values *rows)
{
    for (uint32_t r = 0; r < n_rows; r++) {
        struct symbols_values *v = &rows[r];
        *v = (struct symbols_values){.k = k};
        v->nodes = arena_array(a, NODES, sizeof *v->nodes);
        for (uint32_t i = 0; i < NODES; i++)
            if (draw(NODES) >= i || i % 50 == 3) // from always to hardly ever
                v->nodes[v->n++] = i * 3;
        if (r == 1)
            v->n = 0;
        v->values = arena_array(a, (size_t)v->n * k, sizeof *v->values);
        for (uint32_t i = 0; i < v->n; i++) {
            int64_t cpu = (int64_t)(1 + draw(1 + draw(40)));
            for (uint32_t c = 0; c < k; c++)
                v->values[(size_t)c * v->n + i] = value_of(shape, r, v->nodes[i], c, cpu);
        }
    }
}

struct sums {
    const struct matrix *m;
    int64_t *of; // node * 2 + owner
};

static void give(void *ctx, uint32_t place, uint32_t owner, __int128 sum)
{
    struct sums *s = ctx;
    int64_t *to = &s->of[s->m->r->dictionary[place] * 2 + owner];
    *to = pack_add(*to, (int64_t)sum);
}

static void packed(struct arena *a, const struct symbols_values *rows, uint32_t n_rows,
                   struct str *head, struct str *body)
{
    struct matrix_writer w = {.arena = a};
    struct pack h = {.arena = a}, b = {.arena = a};
    for (uint32_t r = 0; r < n_rows; r++) {
        assert_false(matrix_is_full(&w, rows[r].n, rows[r].k));
        matrix_add(&w, &rows[r]);
    }
    matrix_pack(&w, a, &h, &b);
    *head = (struct str){(const char *)h.p, h.n};
    *body = (struct str){(const char *)b.p, b.n};
}

// The sums of each column, of all rows and by owners.
// Nodes of two classes, by runs of rows and of all rows; every third is skipped.
static void check_runs(struct matrix *m, uint32_t c, uint32_t n_rows,
                       const struct symbols_values *rows)
{
    struct arena *a = arena_new(0);
    uint8_t *classes = arena_array(a, m->n_nodes, sizeof *classes);
    uint32_t *run = arena_array(a, n_rows, sizeof *run);
    __int128 right[3][3] = {{0}}, by_run[3][3] = {{0}}, whole[3][1] = {{0}};
    __int128 *const runs[] = {NULL, by_run[1], by_run[2]}, *const all[] = {NULL, whole[1],
                                                                           whole[2]};
    for (uint32_t r = 0; r < n_rows; r++)
        run[r] = r / 7 % 3;
    for (uint32_t i = 0; i < m->n_nodes; i++)
        classes[i] = (uint8_t)((m->r->dictionary[i] * 7 + c) % 3);
    for (uint32_t r = 0; r < n_rows; r++)
        for (uint32_t i = 0; i < rows[r].n; i++)
            right[(rows[r].nodes[i] * 7 + c) % 3][run[r]] +=
                rows[r].values[(size_t)c * rows[r].n + i];
    assert_true(matrix_runs(m, c, classes, run, 3, runs, 3));
    assert_true(matrix_runs(m, c, classes, NULL, 1, all, 3));
    for (int i = 1; i < 3; i++) {
        assert_memory_equal(by_run[i], right[i], sizeof right[i]);
        assert_true(whole[i][0] == right[i][0] + right[i][1] + right[i][2]);
    }
    arena_free(a);
}

static void check_sums(struct arena *a, struct matrix *m, const struct symbols_values *rows,
                       uint32_t n_rows, struct str body)
{
    uint32_t *owner = arena_array(a, n_rows, sizeof *owner);
    for (uint32_t r = 0; r < n_rows; r++)
        owner[r] = r % 3 == 2 ? MATRIX_NOBODY : r < n_rows / 2;
    for (uint32_t c = 0; c < m->k; c++) {
        int64_t *right = arena_array(a, NODES * 6, sizeof *right);
        int64_t *all = arena_array(a, NODES * 6, sizeof *all);
        struct sums by_owner = {m, arena_array(a, NODES * 6, sizeof(int64_t))};
        struct sums whole = {m, arena_array(a, NODES * 6, sizeof(int64_t))};
        for (uint32_t r = 0; r < n_rows; r++)
            for (uint32_t i = 0; i < rows[r].n; i++) {
                int64_t v = rows[r].values[(size_t)c * rows[r].n + i];
                int64_t *to = &all[rows[r].nodes[i] * 2];
                *to = pack_add(*to, v);
                if (owner[r] == MATRIX_NOBODY)
                    continue;
                to = &right[rows[r].nodes[i] * 2 + owner[r]];
                *to = pack_add(*to, v);
            }
        assert_true(matrix_sums(m, c, owner, give, &by_owner));
        assert_true(matrix_sums(m, c, NULL, give, &whole));
        assert_memory_equal(by_owner.of, right, NODES * 6 * sizeof *right);
        assert_memory_equal(whole.of, all, NODES * 6 * sizeof *all);
        check_runs(m, c, n_rows, rows);
    }
}

static void test_what_was_packed_is_read(void **state)
{
    static const uint32_t sizes[] = {1, 2, 20, 255, 256, MOST_ROWS};
    state_of_random = 7;
    for (int shape = 0; shape < N_SHAPES; shape++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            struct arena *a = arena_new(0);
            struct block_reader r;
            struct matrix m;
            struct err e;
            struct str head, body;
            struct symbols_values rows[MOST_ROWS];
            uint32_t n_rows = sizes[i], k = 2;
            const uint32_t *start, *index;
            const int64_t *values;
            assert_int_equal(block_reader_init(&r, a, &e), 0);
            make_rows(a, (enum shape)shape, n_rows, k, rows);
            packed(a, rows, n_rows, &head, &body);
            matrix_open(&m, &r, head, n_rows, NODES * 3);
            assert_false(m.bad);
            assert_int_equal(m.k, k);
            assert_true(matrix_body(&m, body));
            check_sums(a, &m, rows, n_rows, body);
            assert_true(matrix_rows(&m, &start, &index, &values));
            for (uint32_t row = 0; row < n_rows; row++) {
                const struct symbols_values *v = &rows[row];
                assert_int_equal(start[row + 1] - start[row], v->n);
                for (uint32_t j = 0; j < v->n; j++) {
                    assert_int_equal(r.dictionary[index[start[row] + j]], v->nodes[j]);
                    for (uint32_t c = 0; c < k; c++)
                        assert_true(values[c * m.n + start[row] + j] ==
                                    v->values[(size_t)c * v->n + j]);
                }
            }
            block_reader_fini(&r);
            arena_free(a);
        }
}

// Sums are in the head from 256 rows on, and no body is needed for them.
static void test_sums_without_the_body(void **state)
{
    struct arena *a = arena_new(0);
    struct block_reader r;
    struct matrix m;
    struct err e;
    struct str head, body;
    struct symbols_values rows[300];
    struct sums sums = {&m, arena_array(a, NODES * 6, sizeof(int64_t))};
    int64_t total = 0, right = 0;
    state_of_random = 9;
    assert_int_equal(block_reader_init(&r, a, &e), 0);
    make_rows(a, CPU, 300, 2, rows);
    for (int i = 0; i < 300; i++)
        for (uint32_t j = 0; j < rows[i].n; j++)
            right += rows[i].values[rows[i].n + j];
    packed(a, rows, 300, &head, &body);
    matrix_open(&m, &r, head, 300, NODES * 3);
    assert_true(matrix_has_sums(&m, 1));
    assert_true(matrix_sums(&m, 1, NULL, give, &sums));
    for (int i = 0; i < NODES * 6; i++)
        total += sums.of[i];
    assert_true(total == right);
    packed(a, rows, 255, &head, &body);
    matrix_open(&m, &r, head, 255, NODES * 3);
    assert_false(m.bad);
    assert_false(matrix_has_sums(&m, 1));
    block_reader_fini(&r);
    arena_free(a);
}

// Past codes of every shift, long ones and escapes among them, to the code behind them.
static void test_codes_are_skipped(void **state)
{
    struct arena *a = arena_new(0);
    uint64_t *v = arena_array(a, 3000, sizeof *v);
    state_of_random = 21;
    for (unsigned k = 0; k <= 20; k++)
        for (int try = 0; try < 40; try++) {
            struct pack of[2] = {{.arena = a}, {.arena = a}};
            struct bits b[2] = {{.to = &of[0]}, {.to = &of[1]}};
            uint32_t n[2];
            for (int s = 0; s < 2; s++) {
                n[s] = (uint32_t)(profile_random(&state_of_random) % 1000);
                uint64_t before = profile_random(&state_of_random) % 9;
                bits_put(&b[s], profile_random(&state_of_random) & ((1u << before) - 1),
                         (unsigned)before);
                v[s] = before;
                for (uint32_t i = 0; i < n[s]; i++) {
                    uint64_t r = profile_random(&state_of_random);
                    bits_put_code(&b[s],
                                  r % 50 == 0   ? r >> (r >> 8 & 63)
                                  : r % 10 == 1 ? ((r >> 8) % 24) << k
                                                : (r >> 8) % (2u << k),
                                  k);
                }
                bits_put_code(&b[s], 12345 + (uint64_t)s, 10);
                bits_end(&b[s]);
            }
            struct unbits from[2];
            for (int s = 0; s < 2; s++) {
                from[s] = unbits_of((struct str){(const char *)of[s].p, of[s].n});
                unbits_fill(&from[s]);
                unbits_take(&from[s], (unsigned)v[s]);
            }
            unbits_skip((struct unbits_skip){&from[0], n[0], k},
                        (struct unbits_skip){&from[1], n[1], k});
            for (int s = 0; s < 2; s++) {
                assert_int_equal(unbits_code(&from[s], 10), 12345 + s);
                assert_false(unbits_over(&from[s]));
            }
            // Beyond the end: noticed, not read.
            from[0] = unbits_of((struct str){(const char *)of[0].p, of[0].n / 2});
            unbits_skip((struct unbits_skip){&from[0], 100000, k},
                        (struct unbits_skip){.b = &from[1]});
            assert_true(unbits_over(&from[0]));
        }
    arena_free(a);
}

// Whatever the bytes are, with a checksum that is right: no crash, and no node that does not exist.
static void test_damage(void **state)
{
    struct arena *a = arena_new(0);
    struct err e;
    struct str head, body;
    struct symbols_values rows[30];
    state_of_random = 11;
    make_rows(a, SIGNED, 30, 2, rows);
    packed(a, rows, 30, &head, &body);
    for (int i = 0; i < 3000; i++) {
        struct arena *b = arena_new(64 << 20);
        struct block_reader r;
        struct matrix m;
        char *bad_head = arena_copy(b, head.p, head.n), *bad_body = arena_copy(b, body.p, body.n);
        const uint32_t *start, *index;
        const int64_t *values;
        for (uint64_t n = 1 + draw(3); n; n--) {
            bad_head[4 + draw(head.n - 4)] ^= (char)draw(256);
            bad_body[4 + draw(body.n - 4)] ^= (char)draw(256);
        }
        uint32_t check = htole32(matrix_check((struct str){bad_head + 4, head.n - 4}));
        memcpy(bad_head, &check, 4);
        check = htole32(matrix_check((struct str){bad_body + 4, body.n - 4}));
        memcpy(bad_body, &check, 4);
        assert_int_equal(block_reader_init(&r, b, &e), 0);
        matrix_open(&m, &r, (struct str){bad_head, head.n - draw(2)}, 30, NODES * 3);
        if (!m.bad && matrix_body(&m, (struct str){bad_body, body.n}) &&
            matrix_rows(&m, &start, &index, &values))
            for (uint64_t j = 0; j < m.n; j++)
                assert_in_range(r.dictionary[index[j]], 0, NODES * 3 - 1);
        block_reader_fini(&r);
        arena_free(b);
    }
    arena_free(a);
}

// Lists of every length and magnitude, mixed with numbers of any.
static void test_lists_of_bits(void **state)
{
    enum { MOST = 700 };
    uint64_t v[MOST];
    state_of_random = 5;
    for (int i = 0; i < 2000; i++) {
        struct arena *a = arena_new(0);
        struct pack to = {.arena = a};
        struct bits b = {.to = &to};
        size_t n = draw(i % 2 ? 20 : MOST);
        unsigned bits = (unsigned)draw(65), odd = (unsigned)draw(4) ? 0 : 1 + (unsigned)draw(50);
        for (size_t j = 0; j < n; j++) {
            v[j] = bits ? profile_random(&state_of_random) >> (64 - bits) : 0;
            if (odd && j % odd == 0)
                v[j] = profile_random(&state_of_random) >> draw(64);
        }
        bits_put_list(&b, v, n);
        bits_put_code(&b, 11, 3);
        bits_end(&b);
        struct unbits from = unbits_of((struct str){(const char *)to.p, to.n});
        struct unbits_list list = unbits_list(&from);
        for (size_t j = 0; j < n; j++)
            assert_true(unbits_next(&from, list) == v[j]);
        assert_int_equal(unbits_code(&from, 3), 11);
        assert_false(unbits_over(&from));
        arena_free(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_packed_is_read), cmocka_unit_test(test_codes_are_skipped),
        cmocka_unit_test(test_sums_without_the_body),   cmocka_unit_test(test_damage),
        cmocka_unit_test(test_lists_of_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
