#include "store/bits.h"

#include <pthread.h>

// Codes are skipped one byte at a time, with a table per shift. The state at the start of a byte
// and the byte itself determine how many codes have their terminating zero in it, and the next
// state. A state is the number of bits to skip before the next code begins; state 0 is within the
// ones of a code. All states of a byte are packed into one word, a field of FIELD bits each. The
// state is kept as the shift of its field, so no load depends on the previous byte's state.
enum {
    MAX_SHIFT = 7,
    FIELD = 6,
    STATES = 10,
    AFTER_ONES = 8, // like 0, after a byte of ones: another such byte may be an escape
    ESCAPED = 9,    // final; MANY ends the skipping soon
    MANY = 63,
};

static struct skip_table {
    uint64_t codes[256], next[256]; // next: multiplied by FIELD
} skip_tables[MAX_SHIFT + 1];
static pthread_once_t tables_made = PTHREAD_ONCE_INIT;

static unsigned skip_entry(unsigned k, unsigned state, unsigned byte, unsigned *next)
{
    if (state == ESCAPED || (byte == 255 && state == AFTER_ONES)) {
        *next = ESCAPED;
        return MANY;
    }
    if (byte == 255 && state == 0) {
        *next = AFTER_ONES;
        return 0;
    }
    unsigned codes = 0;
    *next = state == AFTER_ONES ? 0 : state;
    for (unsigned bit = 0; bit < 8; bit++) {
        if (*next) {
            --*next;
        } else if (!(byte >> bit & 1)) {
            codes++;
            *next = k;
        }
    }
    return codes;
}

static void make_skip_tables(void)
{
    for (unsigned k = 0; k <= MAX_SHIFT; k++)
        for (unsigned byte = 0; byte < 256; byte++)
            for (unsigned state = 0; state < STATES; state++) {
                unsigned next, codes = skip_entry(k, state, byte, &next);
                skip_tables[k].codes[byte] |= (uint64_t)codes << state * FIELD;
                skip_tables[k].next[byte] |= (uint64_t)next * FIELD << state * FIELD;
            }
}

static inline uint32_t state_field(uint64_t of, unsigned state)
{
    return of >> state & ((1u << FIELD) - 1);
}

struct skipping {
    struct unbits_skip of;
    const struct skip_table *table; // NULL: not needed, or too few codes
    const uint8_t *at;
    unsigned state; // multiplied by FIELD
    uint32_t left;
};

static struct skipping begin_skipping(struct unbits_skip of)
{
    struct skipping s = {.of = of, .left = of.n};
    const struct unbits *b = of.b;
    if (of.n < 4 || of.k > MAX_SHIFT || b->over)
        return s;
    // The next bit is in this byte, after some bits that were taken.
    s.at = b->p - (b->n + 7) / 8;
    s.state = (8 - b->n % 8) % 8 * FIELD;
    s.table = &skip_tables[of.k];
    return s;
}

// Advances while both streams have bytes. Local copies let the compiler use registers.
static void skip_in_turns(struct skipping *a, struct skipping *b)
{
    const uint8_t *p = a->at, *q = b->at;
    const struct skip_table *table_a = a->table, *table_b = b->table;
    unsigned state_a = a->state, state_b = b->state;
    uint32_t left_a = a->left, left_b = b->left;
    size_t n_a = (size_t)(a->of.b->end - p), n_b = (size_t)(b->of.b->end - q);
    for (size_t n = n_a < n_b ? n_a : n_b; n > 0; n--, p++, q++) {
        uint32_t codes_a = state_field(table_a->codes[*p], state_a);
        uint32_t codes_b = state_field(table_b->codes[*q], state_b);
        if (codes_a >= left_a || codes_b >= left_b)
            break;
        left_a -= codes_a;
        left_b -= codes_b;
        state_a = state_field(table_a->next[*p], state_a);
        state_b = state_field(table_b->next[*q], state_b);
    }
    *a = (struct skipping){a->of, table_a, p, state_a, left_a};
    *b = (struct skipping){b->of, table_b, q, state_b, left_b};
}

static void skip_alone(struct skipping *s)
{
    const uint8_t *p = s->at, *end = s->of.b->end;
    const struct skip_table *table = s->table;
    unsigned state = s->state;
    uint32_t left = s->left;
    for (; p < end; p++) {
        uint32_t codes = state_field(table->codes[*p], state);
        if (codes >= left)
            break;
        left -= codes;
        state = state_field(table->next[*p], state);
    }
    *s = (struct skipping){s->of, table, p, state, left};
}

static void end_skipping(struct skipping *s)
{
    struct unbits *b = s->of.b;
    unsigned k = s->of.k;
    if (s->table)
        skip_alone(s);
    if (!s->table || s->at == b->end || state_field(s->table->codes[*s->at], s->state) == MANY) {
        for (uint32_t i = 0; i < s->of.n; i++)
            unbits_code(b, k);
        return;
    }
    // The terminating zero of the last code is in this byte; its low bits follow.
    unsigned bit = s->state == AFTER_ONES * FIELD ? 0 : s->state / FIELD;
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
    pthread_once(&tables_made, make_skip_tables);
    struct skipping a = begin_skipping(first), b = begin_skipping(second);
    if (a.table && b.table)
        skip_in_turns(&a, &b);
    end_skipping(&a);
    end_skipping(&b);
}
