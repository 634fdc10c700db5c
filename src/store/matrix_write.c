#include "store/matrix.h"
#include "store/matrix_format.h"

static void *matrix_room(struct arena *arena, void *items, size_t n, size_t *cap, size_t size)
{
    if (n <= *cap)
        return items;
    size_t larger = n + n / 2 + 64;
    items = arena_grow(arena, items, *cap * size, larger * size);
    *cap = larger;
    return items;
}

bool matrix_is_full(const struct matrix_writer *w, uint32_t n, uint32_t k)
{
    size_t limit = w->limit ? w->limit : MATRIX_ENTRIES;
    // More columns count as more entries, so that memory does not depend on the number of columns.
    limit = k > 4 ? limit * 4 / k : limit;
    return w->n_rows && (w->k != k || w->n + n > limit || w->n_rows == MATRIX_ROWS);
}

void matrix_add(struct matrix_writer *w, const struct symbols_values *v)
{
    w->k = v->k;
    w->nodes = matrix_room(w->arena, w->nodes, w->n + v->n, &w->cap_nodes, sizeof *w->nodes);
    w->rows = matrix_room(w->arena, w->rows, w->n + v->n, &w->cap_rows, sizeof *w->rows);
    w->values =
        matrix_room(w->arena, w->values, (w->n + v->n) * v->k, &w->cap_values, sizeof *w->values);
    for (uint32_t i = 0; i < v->n; i++) {
        w->nodes[w->n + i] = v->nodes[i];
        w->rows[w->n + i] = w->n_rows;
    }
    for (uint32_t c = 0; c < v->k; c++)
        for (uint32_t i = 0; i < v->n; i++)
            w->values[(w->n + i) * v->k + c] = v->values[(size_t)c * v->n + i];
    w->n += v->n;
    w->n_rows++;
}

// Transposed rows: entries sorted by node, then row.
struct transposed {
    struct arena *arena;
    size_t n;
    uint32_t n_nodes, n_rows;
    uint32_t *nodes, *start; // start[n_nodes]: n
    uint32_t *rows;
    int64_t *values; // values[column * n + entry]
};

static void transpose_matrix(struct matrix_writer *w, struct arena *a, struct transposed *t)
{
    uint32_t max = 0;
    *t = (struct transposed){.arena = a, .n = w->n, .n_rows = w->n_rows};
    for (size_t i = 0; i < w->n; i++)
        max = w->nodes[i] > max ? w->nodes[i] : max;
    w->place = matrix_room(w->arena, w->place, (size_t)max + 1, &w->cap_place, sizeof *w->place);
    t->nodes = arena_array(a, w->n, sizeof *t->nodes);
    for (size_t i = 0; i < w->n; i++)
        if (w->place[w->nodes[i]]++ == 0)
            t->nodes[t->n_nodes++] = w->nodes[i];
    pack_sort(t->nodes, t->n_nodes, arena_array(a, t->n_nodes, sizeof *t->nodes));
    t->start = arena_array(a, (size_t)t->n_nodes + 1, sizeof *t->start);
    t->rows = arena_array(a, t->n, sizeof *t->rows);
    t->values = arena_array(a, t->n * w->k, sizeof *t->values);
    uint32_t at = 0;
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        uint32_t n = w->place[t->nodes[i]];
        t->start[i] = at;
        w->place[t->nodes[i]] = at;
        at += n;
    }
    t->start[t->n_nodes] = at;
    for (size_t i = 0; i < w->n; i++) {
        uint32_t to = w->place[w->nodes[i]]++;
        t->rows[to] = w->rows[i];
        for (uint32_t c = 0; c < w->k; c++)
            t->values[c * t->n + to] = w->values[i * w->k + c];
    }
    // Reset to zero: the cost depends on the number of entries, not on the number of nodes.
    for (uint32_t i = 0; i < t->n_nodes; i++)
        w->place[t->nodes[i]] = 0;
}

static void put_matrix_rows(struct bits *b, const struct transposed *t)
{
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        const uint32_t *rows = t->rows + t->start[i];
        uint32_t n = t->start[i + 1] - t->start[i], rest = t->n_rows - n, last = 0;
        unsigned k = n > rest ? bits_shift(rest, n) : bits_shift(n, rest);
        for (uint32_t j = 0; j < n && n <= rest; j++) {
            bits_put_code(b, rows[j] - last, k);
            last = rows[j] + 1;
        }
        for (uint32_t j = 0, row = 0; row < t->n_rows && n > rest; row++) {
            if (j < n && rows[j] == row) {
                j++;
                continue;
            }
            bits_put_code(b, row - last, k);
            last = row + 1;
        }
    }
    bits_end(b);
}

// A column with numbers of its own: its values divided by their common divisor.
struct own {
    uint64_t common;
    bool is_signed;
    unsigned flags;
    uint64_t *v; // the numbers to encode, without their offset
    uint64_t *divisor, *sum;
    uint64_t *delta; // 1: differences
    uint64_t *first, *shift;
};

// Finds the common divisor of each node's values, if storing it saves space.
static void find_divisors(const struct transposed *t, const int64_t *column, struct own *o)
{
    o->divisor = arena_array(t->arena, t->n_nodes, sizeof *o->divisor);
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        uint64_t d = 0;
        for (uint32_t j = t->start[i]; j < t->start[i + 1] && d != 1; j++)
            d = pack_divisor(pack_magnitude(column[j]), d);
        o->divisor[i] = d > INT64_MAX ? 1 : d;
        o->common = pack_divisor(o->divisor[i], o->common);
    }
    uint64_t gain = 0, cost = 0;
    for (uint32_t i = 0; i < t->n_nodes && o->common; i++) {
        uint32_t n = t->start[i + 1] - t->start[i];
        uint64_t d = o->divisor[i] / o->common;
        // For two numbers, the divisor costs as much as it saves.
        o->divisor[i] = d && n > 2 ? d : 1;
        uint64_t bits = bits_length(o->divisor[i]) - 1;
        gain += n * bits;
        cost += 2 * bits + 1;
    }
    if (gain > cost)
        o->flags |= MATRIX_DIVISORS;
    for (uint32_t i = 0; i < t->n_nodes && gain <= cost; i++)
        o->divisor[i] = 1;
}

// Computes the sums; they are not stored if one of them is too large.
static void find_sums(const struct transposed *t, struct own *o)
{
    uint64_t low = o->flags & MATRIX_FROM_ONE ? 1 : 0;
    o->flags |= MATRIX_SUMS;
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        unsigned __int128 sum = 0;
        uint32_t n = t->start[i + 1] - t->start[i];
        for (uint32_t j = t->start[i]; j < t->start[i + 1]; j++)
            sum += o->v[j];
        o->sum[i] = sum > INT64_MAX ? INT64_MAX : (uint64_t)sum;
        unsigned __int128 whole = (sum + (unsigned __int128)low * n) * o->divisor[i];
        if (o->is_signed || whole > INT64_MAX / o->common || t->n_rows < MATRIX_SUMS_PAY)
            o->flags &= ~(unsigned)MATRIX_SUMS;
    }
}

// Uses differences where they are clearly smaller than the values.
static void find_deltas(const struct transposed *t, struct own *o)
{
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        uint32_t from = t->start[i], n = t->start[i + 1] - from;
        uint64_t cost = 0, other = 0;
        unsigned __int128 sum = 0;
        unsigned shift = bits_shift(n, o->sum[i]);
        o->shift[i] = shift;
        for (uint32_t j = 0; j < n; j++)
            cost += bits_cost(o->v[from + j], shift);
        for (uint32_t j = 1; j < n; j++)
            sum += pack_zigzag((int64_t)(o->v[from + j] - o->v[from + j - 1]));
        shift = bits_shift(n - 1, sum > INT64_MAX ? INT64_MAX : (uint64_t)sum);
        for (uint32_t j = 1; j < n; j++)
            other += bits_cost(pack_zigzag((int64_t)(o->v[from + j] - o->v[from + j - 1])), shift);
        if (n < 2 || other + 2 * bits_length(o->v[from]) + 8 >= cost)
            continue;
        o->delta[i] = 1;
        o->shift[i] = shift;
        o->first[i] = o->v[from];
        o->flags |= MATRIX_DELTAS;
    }
}

static void encode_column(const struct transposed *t, const int64_t *column, struct own *o)
{
    size_t d = t->n_nodes;
    *o = (struct own){0};
    find_divisors(t, column, o);
    if (!o->common)
        return;
    o->v = arena_array(t->arena, t->n, sizeof *o->v);
    o->sum = arena_array(t->arena, d, sizeof *o->sum);
    o->delta = arena_array(t->arena, d, sizeof *o->delta);
    o->first = arena_array(t->arena, d, sizeof *o->first);
    o->shift = arena_array(t->arena, d, sizeof *o->shift);
    bool from_one = true;
    for (size_t i = 0; i < t->n; i++)
        o->is_signed |= column[i] < 0;
    for (uint32_t i = 0; i < t->n_nodes; i++)
        for (uint32_t j = t->start[i]; j < t->start[i + 1]; j++) {
            int64_t v = column[j] / (int64_t)(o->common * o->divisor[i]);
            o->v[j] = o->is_signed ? pack_zigzag(v) : (uint64_t)v;
            from_one &= v > 0;
        }
    if (from_one)
        o->flags |= MATRIX_FROM_ONE;
    for (size_t i = 0; i < t->n && from_one; i++)
        o->v[i]--;
    find_sums(t, o);
    find_deltas(t, o);
}

static void put_matrix_head(struct bits *b, const struct transposed *t, const struct own *o)
{
    uint64_t *some = arena_array(t->arena, t->n_nodes, sizeof *some);
    size_t n = 0;
    if (o->flags & MATRIX_DIVISORS) {
        for (uint32_t i = 0; i < t->n_nodes; i++)
            some[i] = o->divisor[i] - 1;
        bits_put_list(b, some, t->n_nodes);
    }
    for (uint32_t i = 0; i < t->n_nodes && o->flags & MATRIX_DELTAS; i++)
        bits_put(b, o->delta[i], 1);
    if (o->flags & MATRIX_SUMS)
        bits_put_list(b, o->sum, t->n_nodes);
    for (uint32_t i = 0; i < t->n_nodes; i++)
        if (o->delta[i] || !(o->flags & MATRIX_SUMS))
            some[n++] = o->shift[i];
    bits_put_list(b, some, n);
    n = 0;
    for (uint32_t i = 0; i < t->n_nodes; i++)
        if (o->delta[i])
            some[n++] = o->first[i];
    bits_put_list(b, some, n);
}

static void put_matrix_values(struct bits *b, const struct transposed *t, const struct own *o)
{
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        unsigned shift = (unsigned)o->shift[i];
        for (uint32_t j = t->start[i]; j < t->start[i + 1]; j++)
            if (!o->delta[i])
                bits_put_code(b, o->v[j], shift);
            else if (j > t->start[i])
                bits_put_code(b, pack_zigzag((int64_t)(o->v[j] - o->v[j - 1])), shift);
    }
    bits_end(b);
}

// Appends bytes with their checksum in front.
static void put_checked(struct pack *to, const struct pack *bytes)
{
    uint32_t check = htole32(matrix_check((struct str){(const char *)bytes->p, bytes->n}));
    pack_bytes(to, &check, sizeof check);
    pack_bytes(to, bytes->p, bytes->n);
}

void matrix_pack(struct matrix_writer *w, struct arena *a, struct pack *head, struct pack *body)
{
    struct transposed t;
    transpose_matrix(w, a, &t);
    struct pack front = {.arena = a}, numbers = {.arena = a}, lengths = {.arena = a};
    struct pack data = {.arena = a}, back = {.arena = a};
    struct bits b = {.to = &numbers}, to = {.to = &data};
    uint64_t *some = arena_array(a, t.n_nodes, sizeof *some);
    pack_varint(&front, w->k);
    pack_varint(&front, t.n_nodes);
    for (uint32_t i = 0; i < t.n_nodes; i++)
        some[i] = t.nodes[i] - (i ? t.nodes[i - 1] + 1 : 0);
    bits_put_list(&b, some, t.n_nodes);
    for (uint32_t i = 0; i < t.n_nodes; i++)
        some[i] = t.start[i + 1] - t.start[i] - 1;
    bits_put_list(&b, some, t.n_nodes);
    put_matrix_rows(&to, &t);
    pack_varint(&lengths, data.n);
    bool is_own[MATRIX_COLUMNS] = {0};
    for (uint32_t c = 0; c < w->k; c++) {
        const int64_t *column = t.values + (size_t)c * t.n;
        int64_t num = 0, den = 1;
        uint32_t of = 0;
        while (of < c && !(is_own[of] &&
                           pack_is_multiple(t.values + (size_t)of * t.n, column, t.n, &num, &den)))
            of++;
        if (of < c) {
            pack_varint(&front, MATRIX_MULTIPLE + of);
            pack_signed(&front, num);
            pack_varint(&front, (uint64_t)den);
            continue;
        }
        struct own o;
        is_own[c] = true;
        encode_column(&t, column, &o);
        pack_varint(&front, o.is_signed ? MATRIX_SIGNED : MATRIX_UNSIGNED);
        pack_varint(&front, o.common);
        if (!o.common)
            continue;
        pack_varint(&front, o.flags);
        put_matrix_head(&b, &t, &o);
        size_t before = data.n;
        put_matrix_values(&to, &t, &o);
        pack_varint(&lengths, data.n - before);
    }
    bits_end(&b);
    pack_bytes(&front, numbers.p, numbers.n);
    put_checked(head, &front);
    pack_bytes(&back, lengths.p, lengths.n);
    pack_bytes(&back, data.p, data.n);
    put_checked(body, &back);
    w->n = 0;
    w->n_rows = 0;
}
