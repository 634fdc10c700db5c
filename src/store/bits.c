#include "store/bits.h"

#include <pthread.h>

// Codes are skipped a byte at a time, by a table for each shift: what state the reader is in when
// a byte begins, and the byte, tell how many codes' ones end in it and what the next state is. A
// state is how many bits are still to be passed before the next code (of the last one, or of a
// byte that begins in its middle); 0: among the ones of a code.
enum {
    MAX_SHIFT = 7,
    STATES = 10,
    AFTER_ONES = 8, // as 0, and the byte before was all ones: a second such byte may be an escape
    ESCAPED = 9,
    MANY = 0xffff, // codes: more than are skipped by the table
};

// codes << 16 | state << 8, by state << 8 | byte.
static uint32_t skips[MAX_SHIFT + 1][STATES << 8];
static pthread_once_t skips_made = PTHREAD_ONCE_INIT;

static uint32_t skip_of(unsigned k, unsigned state, unsigned byte)
{
    if (byte == 255 && state == AFTER_ONES)
        return (uint32_t)MANY << 16 | ESCAPED << 8;
    if (byte == 255 && state == 0)
        return AFTER_ONES << 8;
    unsigned left = state == AFTER_ONES ? 0 : state, codes = 0;
    for (unsigned bit = 0; bit < 8; bit++) {
        if (left) {
            left--;
        } else if (!(byte >> bit & 1)) {
            codes++;
            left = k;
        }
    }
    return codes << 16 | left << 8;
}

static void make_skips(void)
{
    for (unsigned k = 0; k <= MAX_SHIFT; k++)
        for (unsigned state = 0; state < ESCAPED; state++)
            for (unsigned byte = 0; byte < 256; byte++)
                skips[k][state << 8 | byte] = skip_of(k, state, byte);
}

struct skipping {
    struct unbits_skip of;
    const uint32_t *table; // NULL: none is needed, or of use
    const uint8_t *at;
    uint32_t entry, left;
};

static struct skipping begin_skipping(struct unbits_skip of)
{
    struct skipping s = {.of = of, .left = of.n};
    const struct unbits *b = of.b;
    if (of.n < 4 || of.n >= MANY || of.k > MAX_SHIFT || b->over)
        return s;
    // The next bit is in this byte, behind some that were taken.
    s.at = b->p - (b->n + 7) / 8;
    s.entry = (8 - b->n % 8) % 8 << 8;
    s.table = skips[of.k];
    return s;
}

// While bytes of both are passed. In variables of its own, which are in registers.
static void skip_in_turns(struct skipping *a, struct skipping *b)
{
    const uint8_t *p = a->at, *q = b->at;
    const uint32_t *table_a = a->table, *table_b = b->table;
    uint32_t entry_a = a->entry, entry_b = b->entry, left_a = a->left, left_b = b->left;
    size_t n_a = (size_t)(a->of.b->end - p), n_b = (size_t)(b->of.b->end - q);
    for (size_t n = n_a < n_b ? n_a : n_b; n > 0; n--) {
        uint32_t next_a = table_a[(entry_a & 0xff00) | *p];
        uint32_t next_b = table_b[(entry_b & 0xff00) | *q];
        if (next_a >> 16 >= left_a || next_b >> 16 >= left_b)
            break;
        left_a -= next_a >> 16;
        left_b -= next_b >> 16;
        entry_a = next_a;
        entry_b = next_b;
        p++;
        q++;
    }
    *a = (struct skipping){a->of, table_a, p, entry_a, left_a};
    *b = (struct skipping){b->of, table_b, q, entry_b, left_b};
}

static void skip_alone(struct skipping *s)
{
    const uint8_t *p = s->at, *end = s->of.b->end;
    const uint32_t *table = s->table;
    uint32_t entry = s->entry, left = s->left;
    for (; p < end; p++) {
        uint32_t next = table[(entry & 0xff00) | *p];
        if (next >> 16 >= left)
            break;
        left -= next >> 16;
        entry = next;
    }
    *s = (struct skipping){s->of, table, p, entry, left};
}

static void end_skipping(struct skipping *s)
{
    struct unbits *b = s->of.b;
    unsigned k = s->of.k;
    if (s->table)
        skip_alone(s);
    if (!s->table || s->at == b->end || s->table[(s->entry & 0xff00) | *s->at] >> 16 == MANY) {
        for (uint32_t i = 0; i < s->of.n; i++)
            unbits_code(b, k);
        return;
    }
    // The last code's ones end in this byte; its lower bits follow.
    unsigned state = s->entry >> 8 & 255, bit = state == AFTER_ONES ? 0 : state;
    for (uint32_t left = s->left;; bit++) {
        if (*s->at >> bit & 1)
            continue;
        bit += 1 + k;
        if (!--left)
            break;
        bit--;
    }
    b->p = s->at + bit / 8;
    b->word = 0;
    b->n = 0;
    unbits_fill(b);
    unbits_take(b, bit % 8);
}

void unbits_skip(struct unbits_skip first, struct unbits_skip second)
{
    pthread_once(&skips_made, make_skips);
    struct skipping a = begin_skipping(first), b = begin_skipping(second);
    if (a.table && b.table)
        skip_in_turns(&a, &b);
    end_skipping(&a);
    end_skipping(&b);
}
