#include "net/hmac.h"

#include <string.h>

enum { BLOCK = 64 };

struct sha256_state {
    uint32_t h[8];
    uint64_t n; // bytes so far
    uint8_t block[BLOCK];
};

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t sha256_rotate(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void sha256_block(uint32_t h[8], const uint8_t *p)
{
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
               (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = sha256_rotate(w[i - 15], 7) ^ sha256_rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t b = sha256_rotate(w[i - 2], 17) ^ sha256_rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    memcpy(s, h, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t e = sha256_rotate(s[4], 6) ^ sha256_rotate(s[4], 11) ^ sha256_rotate(s[4], 25);
        uint32_t first = s[7] + e + ((s[4] & s[5]) ^ (~s[4] & s[6])) + K[i] + w[i];
        uint32_t a = sha256_rotate(s[0], 2) ^ sha256_rotate(s[0], 13) ^ sha256_rotate(s[0], 22);
        uint32_t second = a + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += first;
        s[0] = first + second;
    }
    for (int i = 0; i < 8; i++)
        h[i] += s[i];
}

static void sha256_begin(struct sha256_state *s)
{
    *s = (struct sha256_state){.h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                     0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

static void sha256_add(struct sha256_state *s, const void *data, size_t n)
{
    const uint8_t *p = data;
    while (n) {
        size_t at = s->n % BLOCK, take = n < BLOCK - at ? n : BLOCK - at;
        memcpy(s->block + at, p, take);
        s->n += take;
        p += take;
        n -= take;
        if (at + take == BLOCK)
            sha256_block(s->h, s->block);
    }
}

static void sha256_end(struct sha256_state *s, uint8_t digest[SHA256_SIZE])
{
    static const uint8_t padding[BLOCK] = {0x80};
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(s->n * 8 >> (56 - 8 * i));
    sha256_add(s, padding, 1 + (2 * BLOCK - 9 - s->n % BLOCK) % BLOCK);
    sha256_add(s, length, sizeof length);
    for (int i = 0; i < SHA256_SIZE; i++)
        digest[i] = (uint8_t)(s->h[i / 4] >> (24 - 8 * (i % 4)));
}

void sha256(struct str text, uint8_t digest[SHA256_SIZE])
{
    struct sha256_state s;
    sha256_begin(&s);
    sha256_add(&s, text.p, text.n);
    sha256_end(&s, digest);
}

void hmac_sha256(struct str key, const struct str *parts, size_t n, uint8_t digest[SHA256_SIZE])
{
    uint8_t inner[BLOCK] = {0}, outer[BLOCK];
    struct sha256_state s;
    if (key.n > BLOCK)
        sha256(key, inner);
    else if (key.n)
        memcpy(inner, key.p, key.n);
    for (int i = 0; i < BLOCK; i++) {
        outer[i] = inner[i] ^ 0x5c;
        inner[i] ^= 0x36;
    }
    sha256_begin(&s);
    sha256_add(&s, inner, sizeof inner);
    for (size_t i = 0; i < n; i++)
        sha256_add(&s, parts[i].p, parts[i].n);
    sha256_end(&s, digest);
    sha256_begin(&s);
    sha256_add(&s, outer, sizeof outer);
    sha256_add(&s, digest, SHA256_SIZE);
    sha256_end(&s, digest);
}
