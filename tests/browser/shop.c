// A program with something to see: a function in which most time goes, one inlined into it.
#include <stdint.h>
#include <time.h>

static volatile uint64_t sink;

static inline __attribute__((always_inline)) uint64_t mix(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdu;
    return x ^ x >> 33;
}

__attribute__((noinline)) uint64_t hash_orders(uint64_t n)
{
    uint64_t sum = n;
    for (int i = 0; i < 5000; i++)
        sum = mix(sum + (uint64_t)i);
    return sum;
}

int main(void)
{
    for (clock_t end = clock() + CLOCKS_PER_SEC / 2; clock() < end;)
        sink += hash_orders(sink);
    return 0;
}
