#include "store/id.h"

#include <stdlib.h>
#include <string.h>

struct sip {
    uint64_t a, b, c, d;
};

static inline uint64_t rotate_left_64(uint64_t v, unsigned by)
{
    return v << by | v >> (64 - by);
}

static inline void sip_round(struct sip *s)
{
    s->a += s->b;
    s->c += s->d;
    s->b = rotate_left_64(s->b, 13) ^ s->a;
    s->d = rotate_left_64(s->d, 16) ^ s->c;
    s->a = rotate_left_64(s->a, 32);
    s->c += s->b;
    s->a += s->d;
    s->b = rotate_left_64(s->b, 17) ^ s->c;
    s->d = rotate_left_64(s->d, 21) ^ s->a;
    s->c = rotate_left_64(s->c, 32);
}

static inline void sip_word(struct sip *s, uint64_t word)
{
    s->d ^= word;
    sip_round(s);
    s->a ^= word;
}

static uint64_t sip_end(struct sip *s)
{
    for (int i = 0; i < 3; i++)
        sip_round(s);
    return s->a ^ s->b ^ s->c ^ s->d;
}

struct id id_hash(struct id key, const void *data, size_t n)
{
    struct sip s = {key.a ^ 0x736f6d6570736575u, key.b ^ 0x646f72616e646f6du ^ 0xee,
                    key.a ^ 0x6c7967656e657261u, key.b ^ 0x7465646279746573u};
    const unsigned char *p = data;
    uint64_t word, last = (uint64_t)n << 56;
    size_t left = n;
    for (; left >= 8; p += 8, left -= 8) {
        memcpy(&word, p, sizeof word);
        sip_word(&s, word);
    }
    for (size_t i = 0; i < left; i++)
        last |= (uint64_t)p[i] << (8 * i);
    sip_word(&s, last);
    s.c ^= 0xee;
    struct id id = {.a = sip_end(&s)};
    s.b ^= 0xdd;
    id.b = sip_end(&s);
    return id;
}

static int id_order(const void *a, const void *b)
{
    return id_cmp(*(const struct id *)a, *(const struct id *)b);
}

size_t id_distinct(struct id *ids, size_t n)
{
    size_t kept = 0;
    if (n)
        qsort(ids, n, sizeof *ids, id_order);
    for (size_t i = 0; i < n; i++)
        if (!kept || !id_eq(ids[kept - 1], ids[i]))
            ids[kept++] = ids[i];
    return kept;
}

bool id_is_among(struct id id, const struct id *ids, size_t n)
{
    return n && bsearch(&id, ids, n, sizeof id, id_order);
}
