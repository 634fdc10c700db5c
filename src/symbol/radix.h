// Sorting of many 64-bit keys that carry two 32-bit payloads: stable, linear.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct radix_pair {
    uint64_t key;
    uint32_t item, extra;
};

// false: no memory for the second array, nothing was changed.
bool radix_sort(struct radix_pair *pairs, size_t n);
