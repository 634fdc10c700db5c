// Work for profiles whose listings are compared: inlined calls, a macro of several lines, a
// function of another file (part.h), a library.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "part.h"

unsigned library_checksum(const unsigned char *p, size_t n);

// Keeps what follows away from the beginning of the text.
__attribute__((noinline, used)) int unused_switch(int x)
{
#define CASE(n) \
    case n:     \
        return x * (n + 3) + rand() % (n + 7)
    switch (x) {
        CASE(1);
        CASE(2);
        CASE(3);
        CASE(4);
        CASE(5);
        CASE(6);
        CASE(7);
        CASE(8);
        CASE(9);
        CASE(10);
    }
    return 0;
}

static inline unsigned mix(unsigned h, unsigned v)
{
    h ^= v;
    h *= 2654435761u;
    return h ^ (h >> 15);
}

#define ROUND(h, p)         \
    do {                    \
        h = mix(h, (p)[0]); \
        h += (p)[1];        \
    } while (0)

__attribute__((noinline)) unsigned hash_bytes(const unsigned char *p, size_t n)
{
    unsigned h = 1;
    for (size_t i = 0; i + 1 < n; i += 2)
        ROUND(h, p + i);
    return h;
}

static int compare(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    /* a tab and "quotes" & <angles> */
    return (x > y) - (x < y);
}

__attribute__((noinline)) static unsigned fibonacci(unsigned n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

int main(int argc, char **argv)
{
    static unsigned char buffer[1 << 16];
    static int numbers[4000];
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 0.3;
    unsigned sum = 0;
    while ((double)clock() / CLOCKS_PER_SEC < seconds) {
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
            numbers[i] = rand();
        qsort(numbers, sizeof numbers / sizeof *numbers, sizeof *numbers, compare);
        memset(buffer, numbers[0], sizeof buffer);
        sum += hash_bytes(buffer, sizeof buffer) + part_sum(numbers, 4000) + fibonacci(21);
        sum += library_checksum(buffer, sizeof buffer);
    }
    printf("%u\n", sum & 1);
    return 0;
}
