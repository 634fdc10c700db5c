// Stable linear-time sort of 64-bit keys with two 32-bit payloads.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct radix_pair {
    uint64_t key;
    uint32_t item, extra;
};

// Sorts by key. Returns false if out of memory; then nothing was changed.
bool radix_sort(struct radix_pair *pairs, size_t n);
