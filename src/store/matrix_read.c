#include "store/matrix.h"
#include "store/matrix_format.h"

static bool strip_checksum(struct str *bytes)
{
    uint32_t check;
    if (bytes->n < sizeof check)
        return false;
    memcpy(&check, bytes->p, sizeof check);
    bytes->p += sizeof check;
    bytes->n -= sizeof check;
    return le32toh(check) == matrix_check(*bytes);
}

// Reserves zeroed memory, reused by the next matrix; everything that carve returns must fit.
static void reserve_matrix(struct block_reader *r, size_t n)
{
    r->room = block_scratch(r, r->room, n, &r->cap_room, 1);
    memset(r->room, 0, n);
    r->room_used = 0;
}

static void *carve_matrix(struct block_reader *r, size_t n, size_t size)
{
    void *p = r->room + r->room_used;
    r->room_used += (n * size + 15) / 16 * 16;
    return p;
}

static void read_shifts(struct matrix *m, struct matrix_column *c, struct unbits *b)
{
    struct unbits_list list = unbits_list(b);
    for (uint32_t i = 0; i < m->n_nodes; i++) {
        uint64_t shift =
            c->sum && !c->delta[i] ? bits_shift(m->count[i], c->sum[i]) : unbits_next(b, list);
        m->bad |= shift > BITS_MAX_SHIFT;
        c->shift[i] = m->bad ? 0 : (uint8_t)shift;
    }
}

static uint64_t *read_numbers(struct matrix *m, struct unbits *b, const uint8_t *only)
{
    struct unbits_list list = unbits_list(b);
    uint64_t *v = carve_matrix(m->r, m->n_nodes, sizeof *v);
    for (uint32_t i = 0; i < m->n_nodes; i++)
        if (!only || only[i])
            v[i] = unbits_next(b, list);
    return v;
}

static void read_column(struct matrix *m, struct matrix_column *c, struct unbits *b)
{
    if (c->flags & MATRIX_DIVISORS)
        c->divisor = read_numbers(m, b, NULL);
    c->delta = carve_matrix(m->r, m->n_nodes, sizeof *c->delta);
    for (uint32_t i = 0; i < m->n_nodes && c->flags & MATRIX_DELTAS; i++) {
        unbits_fill(b);
        c->delta[i] = (uint8_t)unbits_take(b, 1);
    }
    if (c->flags & MATRIX_SUMS)
        c->sum = read_numbers(m, b, NULL);
    c->shift = carve_matrix(m->r, m->n_nodes, sizeof *c->shift);
    read_shifts(m, c, b);
    c->first = read_numbers(m, b, c->delta);
}

static void read_kinds(struct matrix *m, struct unpack *b)
{
    for (uint32_t i = 0; i < m->k && !b->bad; i++) {
        struct matrix_column *c = &m->columns[i];
        c->kind = unpack_varint(b);
        if (c->kind >= MATRIX_MULTIPLE) {
            uint64_t of = c->kind - MATRIX_MULTIPLE;
            c->num = unpack_signed(b);
            c->den = (int64_t)unpack_varint(b);
            m->bad |= of >= i || c->den <= 0 || m->columns[of].kind >= MATRIX_MULTIPLE;
            continue;
        }
        c->common = unpack_varint(b);
        c->flags = c->common ? (unsigned)unpack_varint(b) : 0;
    }
    m->bad |= b->bad;
}

void matrix_open(struct matrix *m, struct block_reader *r, struct str head, uint64_t n_rows,
                 uint32_t n_nodes)
{
    *m = (struct matrix){.r = r};
    m->bad = n_rows > MATRIX_ROWS || !strip_checksum(&head);
    struct unpack b = {(const uint8_t *)head.p, (const uint8_t *)head.p + head.n, m->bad};
    uint64_t k = m->bad ? 0 : unpack_varint(&b), d = m->bad ? 0 : unpack_varint(&b);
    // Each node takes at least one bit.
    if (m->bad || b.bad || k > MATRIX_COLUMNS || d > head.n * 8) {
        m->bad = true;
        return;
    }
    m->k = (uint32_t)k;
    m->n_rows = (uint32_t)n_rows;
    m->n_nodes = (uint32_t)d;
    r->dictionary =
        block_scratch(r, r->dictionary, m->n_nodes, &r->cap_dictionary, sizeof *r->dictionary);
    read_kinds(m, &b);
    size_t n_own = 0, d_room = (size_t)d + 16;
    for (uint32_t i = 0; i < m->k; i++)
        n_own += m->columns[i].common != 0;
    reserve_matrix(r, d_room * sizeof *m->count + ((size_t)m->n_rows + 16) * sizeof *m->at +
                          n_own * d_room * (3 * sizeof(uint64_t) + 2));
    m->count = carve_matrix(r, m->n_nodes, sizeof *m->count);
    m->at = carve_matrix(r, (size_t)m->n_rows, sizeof *m->at);
    struct unbits bits = unbits_of((struct str){(const char *)b.p, (size_t)(b.end - b.p)});
    struct unbits_list list = unbits_list(&bits);
    uint64_t node = 0;
    for (uint32_t i = 0; i < m->n_nodes; i++, node++) {
        uint64_t gap = unbits_next(&bits, list);
        node += gap;
        if (gap >= n_nodes || node >= n_nodes) {
            node = 0;
            m->bad = true;
        }
        r->dictionary[i] = (uint32_t)node;
    }
    list = unbits_list(&bits);
    for (uint32_t i = 0; i < m->n_nodes; i++) {
        uint64_t n = unbits_next(&bits, list);
        m->bad |= n >= m->n_rows;
        m->count[i] = m->bad ? 0 : (uint32_t)n + 1;
        m->n += m->count[i];
    }
    m->bad |= m->n_rows > 1 && m->n > MATRIX_ENTRIES;
    for (uint32_t i = 0; i < m->k && !m->bad; i++)
        if (m->columns[i].common)
            read_column(m, &m->columns[i], &bits);
    m->bad |= unbits_over(&bits);
}

static const struct matrix_column *source_column(const struct matrix *m, uint32_t column)
{
    const struct matrix_column *c = &m->columns[column];
    return c->kind >= MATRIX_MULTIPLE ? &m->columns[c->kind - MATRIX_MULTIPLE] : c;
}

bool matrix_has_sums(const struct matrix *m, uint32_t column)
{
    if (m->bad || column >= m->k)
        return true;
    const struct matrix_column *c = source_column(m, column);
    return !c->common || c->sum;
}

bool matrix_body(struct matrix *m, struct str body)
{
    m->bad |= !strip_checksum(&body);
    if (m->bad)
        return false;
    struct unpack b = {(const uint8_t *)body.p, (const uint8_t *)body.p + body.n, false};
    size_t n = unpack_count(&b), lengths[MATRIX_COLUMNS];
    for (uint32_t i = 0; i < m->k; i++)
        lengths[i] = m->columns[i].common ? unpack_count(&b) : 0;
    m->rows = unpack_bytes(&b, n);
    for (uint32_t i = 0; i < m->k; i++)
        m->columns[i].bits = unpack_bytes(&b, lengths[i]);
    m->bad = b.bad;
    return !m->bad;
}

// Reads the rows of the next node: n of them, ascending. Returns false if they are damaged.
static inline bool next_rows(struct unbits *b, uint32_t n, uint32_t n_rows, uint32_t *at)
{
    uint32_t rest = n_rows - n, row = 0, end = 0;
    if (n <= rest) {
        unsigned k = bits_shift(n, rest);
        for (uint32_t i = 0; i < n; i++, row++) {
            uint64_t gap = unbits_code(b, k);
            if (gap >= n_rows - row)
                return false;
            row += (uint32_t)gap;
            at[i] = row;
        }
        return true;
    }
    unsigned k = bits_shift(rest, n);
    for (uint32_t i = 0; i < rest; i++, row++) {
        uint64_t gap = unbits_code(b, k);
        if (gap >= n_rows - row)
            return false;
        for (uint32_t to = row + (uint32_t)gap; row < to; row++)
            at[end++] = row;
    }
    for (; row < n_rows; row++)
        at[end++] = row;
    return true;
}

struct scale {
    uint64_t factor, add;
    int64_t num, den;
};

static struct scale scale_of(const struct matrix *m, uint32_t column)
{
    const struct matrix_column *c = &m->columns[column], *from = source_column(m, column);
    return (struct scale){from->common, from->flags & MATRIX_FROM_ONE ? 1 : 0,
                          c->kind >= MATRIX_MULTIPLE ? c->num : 1,
                          c->kind >= MATRIX_MULTIPLE ? c->den : 1};
}

static int64_t scale_value(const struct scale *s, int64_t v)
{
    return s->den == 1 ? (int64_t)((uint64_t)v * (uint64_t)s->num)
                       : (int64_t)((__int128)v * s->num / s->den);
}

// The value of a code, before the column's common factor is applied.
static inline uint64_t decode_number(const struct matrix_column *c, uint64_t v, uint64_t add)
{
    return c->kind == MATRIX_SIGNED ? (v >> 1) ^ -(v & 1) : v + add;
}

static inline uint64_t next_code(struct unbits *b, unsigned shift, bool delta, bool first,
                                 uint64_t *last)
{
    if (!delta)
        return unbits_code(b, shift);
    if (!first) {
        uint64_t v = unbits_code(b, shift);
        *last += (v >> 1) ^ -(v & 1);
    }
    return *last;
}

// Scales a sum of coded numbers. Numbers times their factor, and values, have 64 bits each, so sums
// overflow only if the data is damaged.
static __int128 scale_sum(__int128 sum, uint64_t factor, const struct scale *s)
{
    sum = (__int128)((unsigned __int128)sum * factor);
    __int128 den = s->den, num = s->num;
    if (den == 1 && num == 1)
        return sum;
    return (__int128)((unsigned __int128)(sum / den) * (unsigned __int128)num +
                      (unsigned __int128)(sum % den * num / den));
}

// The sum over consecutive rows of one owner.
struct run {
    matrix_give_fn *give;
    void *ctx;
    const uint32_t *owners;
    uint32_t place, owner;
    __int128 sum;
    uint64_t factor;
    const struct scale *scale;
};

static void end_run(struct run *r)
{
    if (r->owner != MATRIX_NOBODY)
        r->give(r->ctx, r->place, r->owner, scale_sum(r->sum, r->factor, r->scale));
    r->sum = 0;
}

static inline void run_add(struct run *r, uint32_t owner, uint64_t v)
{
    if (__builtin_expect(owner != r->owner, 0)) {
        end_run(r);
        r->owner = owner;
    }
    r->sum += (int64_t)v;
}

static inline void add_to_owner(void *ctx, uint32_t row, uint64_t v)
{
    struct run *r = ctx;
    run_add(r, r->owners[row], v);
}

// The most common case, and the most expensive one: rows and numbers are read alternately, so that
// neither waits for the other. Inlined together with the callback.
__attribute__((always_inline)) static inline bool
read_in_turns(struct unbits *rows, struct unbits *numbers, uint32_t n, uint32_t n_rows,
              unsigned shift, uint64_t add, void (*to)(void *ctx, uint32_t row, uint64_t v),
              void *ctx)
{
    unsigned k = bits_shift(n, n_rows - n);
    uint32_t row = 0;
    for (uint32_t i = 0; i < n; i++, row++) {
        uint64_t gap = unbits_code(rows, k), v = unbits_code(numbers, shift);
        if (__builtin_expect(gap >= n_rows - row, 0))
            return false;
        row += (uint32_t)gap;
        to(ctx, row, v + add);
    }
    return true;
}

bool matrix_sums(struct matrix *m, uint32_t column, const uint32_t *owner, matrix_give_fn *give,
                 void *ctx)
{
    if (m->bad || column >= m->k)
        return false;
    const struct matrix_column *c = source_column(m, column);
    struct scale s = scale_of(m, column);
    struct unbits rows = unbits_of(m->rows), b = unbits_of(c->bits);
    for (uint32_t i = 0; i < m->n_nodes && c->common && !m->bad; i++) {
        uint32_t n = m->count[i];
        struct run run = {give, ctx, owner, i, owner ? MATRIX_NOBODY : 0, 0, s.factor, &s};
        uint64_t last = c->first[i];
        unsigned shift = c->shift[i];
        if (c->divisor)
            run.factor *= c->divisor[i] + 1;
        if (!owner && c->sum) {
            run.sum = (__int128)c->sum[i] + n * s.add;
        } else if (!owner) {
            for (uint32_t j = 0; j < n; j++)
                run_add(&run, 0,
                        decode_number(c, next_code(&b, shift, c->delta[i], j == 0, &last), s.add));
        } else if (n <= m->n_rows - n && !c->delta[i] && c->kind == MATRIX_UNSIGNED) {
            m->bad = !read_in_turns(&rows, &b, n, m->n_rows, shift, s.add, add_to_owner, &run);
        } else {
            m->bad = !next_rows(&rows, n, m->n_rows, m->at);
            for (uint32_t j = 0; j < n && !m->bad; j++)
                run_add(&run, owner[m->at[j]],
                        decode_number(c, next_code(&b, shift, c->delta[i], j == 0, &last), s.add));
        }
        end_run(&run);
    }
    m->bad |= unbits_over(&rows) || unbits_over(&b);
    return !m->bad;
}

// --- selected nodes, by runs of rows ---

// Skips the numbers of the next node, and its rows if in_rows.
static void skip_node(const struct matrix *m, uint32_t n, bool in_rows, unsigned shift, bool delta,
                      struct unbits *rows, struct unbits *numbers)
{
    uint32_t rest = m->n_rows - n;
    struct unbits_skip of_rows = {.b = rows};
    if (in_rows && n <= rest)
        of_rows = (struct unbits_skip){rows, n, bits_shift(n, rest)};
    else if (in_rows)
        of_rows = (struct unbits_skip){rows, rest, bits_shift(rest, n)};
    unbits_skip(of_rows, (struct unbits_skip){numbers, delta ? n - 1 : n, shift});
}

struct run_sums {
    const uint32_t *run; // NULL: all rows are in run 0
    __int128 *sums;
    int64_t factor;
};

static inline void add_to_run(void *ctx, uint32_t row, uint64_t v)
{
    const struct run_sums *to = ctx;
    to->sums[to->run[row]] += (__int128)(int64_t)v * to->factor;
}

bool matrix_runs(struct matrix *m, uint32_t column, const uint8_t *classes, const uint32_t *run,
                 uint32_t n_runs, __int128 *const sums[], unsigned n_classes)
{
    if (m->bad || column >= m->k)
        return false;
    const struct matrix_column *c = source_column(m, column);
    struct scale s = scale_of(m, column);
    struct unbits rows = unbits_of(m->rows), b = unbits_of(c->bits);
    for (uint32_t i = 0; i < m->n_nodes && c->common && !m->bad; i++) {
        uint32_t n = m->count[i];
        unsigned shift = c->shift[i];
        struct run_sums to = {run, sums[classes[i]], c->divisor ? (int64_t)c->divisor[i] + 1 : 1};
        if (!run && c->sum) {
            if (classes[i])
                to.sums[0] += ((__int128)c->sum[i] + n * s.add) * to.factor;
        } else if (!classes[i]) {
            skip_node(m, n, run, shift, c->delta[i], &rows, &b);
        } else if (run && n <= m->n_rows - n && !c->delta[i] && c->kind == MATRIX_UNSIGNED) {
            m->bad = !read_in_turns(&rows, &b, n, m->n_rows, shift, s.add, add_to_run, &to);
        } else {
            uint64_t last = c->first[i];
            m->bad = run && !next_rows(&rows, n, m->n_rows, m->at);
            for (uint32_t j = 0; j < n && !m->bad; j++) {
                uint64_t v = next_code(&b, shift, c->delta[i], j == 0, &last);
                to.sums[run ? run[m->at[j]] : 0] +=
                    (__int128)(int64_t)decode_number(c, v, s.add) * to.factor;
            }
        }
    }
    for (unsigned i = 1; i < n_classes; i++)
        for (uint32_t k = 0; k < n_runs; k++)
            sums[i][k] = scale_sum(sums[i][k], s.factor, &s);
    m->bad |= unbits_over(&rows) || unbits_over(&b);
    return !m->bad;
}

// Fills a column of all rows. next[row]: index of the row's next entry.
static bool scatter_column(struct matrix *m, uint32_t column, uint32_t *next, uint32_t *index,
                           int64_t *values)
{
    const struct matrix_column *c = &m->columns[column];
    struct scale s = scale_of(m, column);
    struct unbits rows = unbits_of(m->rows), b = unbits_of(c->bits);
    for (uint32_t i = 0; i < m->n_nodes; i++) {
        if (!next_rows(&rows, m->count[i], m->n_rows, m->at))
            return false;
        uint64_t factor = s.factor * (c->divisor ? c->divisor[i] + 1 : 1);
        uint64_t last = c->common ? c->first[i] : 0;
        for (uint32_t j = 0; j < m->count[i]; j++) {
            uint32_t to = next[m->at[j]]++;
            index[to] = i;
            if (c->common)
                values[to] =
                    (int64_t)(decode_number(c,
                                            next_code(&b, c->shift[i], c->delta[i], j == 0, &last),
                                            s.add) *
                              factor);
        }
    }
    return !unbits_over(&rows) && !unbits_over(&b);
}

bool matrix_rows(struct matrix *m, const uint32_t **start, const uint32_t **index,
                 const int64_t **values)
{
    struct block_reader *r = m->r;
    if (m->bad)
        return false;
    size_t n_rows = (size_t)m->n_rows + 1;
    uint32_t *from = r->row_start = block_scratch(r, r->row_start, n_rows, &r->cap_row_start, 4);
    uint32_t *next = r->row_next = block_scratch(r, r->row_next, n_rows, &r->cap_row_next, 4);
    uint32_t *places = r->index = block_scratch(r, r->index, m->n + 1, &r->cap_index, 4);
    int64_t *v = r->value = block_scratch(r, r->value, m->n * m->k + 1, &r->cap_value, 8);
    memset(from, 0, n_rows * sizeof *from);
    for (uint64_t i = 0; i < m->n * m->k; i++)
        v[i] = 0;
    struct unbits rows = unbits_of(m->rows);
    for (uint32_t i = 0; i < m->n_nodes && !m->bad; i++) {
        m->bad = !next_rows(&rows, m->count[i], m->n_rows, m->at);
        for (uint32_t j = 0; j < m->count[i] && !m->bad; j++)
            from[m->at[j] + 1]++;
    }
    for (uint32_t i = 0; i < m->n_rows; i++)
        from[i + 1] += from[i];
    for (uint32_t c = 0; c < m->k && !m->bad; c++) {
        int64_t *to = v + c * m->n;
        memcpy(next, from, m->n_rows * sizeof *next);
        if (m->columns[c].kind < MATRIX_MULTIPLE) {
            m->bad = !scatter_column(m, c, next, places, to);
            continue;
        }
        struct scale s = scale_of(m, c);
        const int64_t *of = v + (m->columns[c].kind - MATRIX_MULTIPLE) * m->n;
        for (uint64_t i = 0; i < m->n; i++)
            to[i] = scale_value(&s, of[i]);
    }
    *start = from;
    *index = places;
    *values = v;
    return !m->bad;
}
