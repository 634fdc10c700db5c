#include <stdlib.h>
#include <string.h>

#include "symbol/radix.h"

enum { BITS = 11, BUCKETS = 1 << BITS };

bool radix_sort(struct radix_pair *pairs, size_t n)
{
    uint64_t low = UINT64_MAX, high = 0;
    bool sorted = true;
    for (size_t i = 0; i < n; i++) {
        uint64_t key = pairs[i].key;
        sorted &= i == 0 || pairs[i - 1].key <= key;
        low = key < low ? key : low;
        high = key > high ? key : high;
    }
    if (sorted)
        return true;
    if (n < 32) {
        for (size_t i = 1; i < n; i++) {
            struct radix_pair x = pairs[i];
            size_t k = i;
            for (; k > 0 && pairs[k - 1].key > x.key; k--)
                pairs[k] = pairs[k - 1];
            pairs[k] = x;
        }
        return true;
    }
    struct radix_pair *other = malloc(n * sizeof *other);
    if (!other)
        return false;
    struct radix_pair *from = pairs, *to = other;
    for (unsigned shift = 0; shift < 64 && (high - low) >> shift; shift += BITS) {
        size_t count[BUCKETS] = {0}, at = 0;
        for (size_t i = 0; i < n; i++)
            count[(from[i].key - low) >> shift & (BUCKETS - 1)]++;
        for (size_t b = 0; b < BUCKETS; b++) {
            size_t here = count[b];
            count[b] = at;
            at += here;
        }
        for (size_t i = 0; i < n; i++)
            to[count[(from[i].key - low) >> shift & (BUCKETS - 1)]++] = from[i];
        struct radix_pair *swap = from;
        from = to;
        to = swap;
    }
    if (from != pairs)
        memcpy(pairs, from, n * sizeof *pairs);
    free(other);
    return true;
}
