// The library of work.c.
#include <stddef.h>

__attribute__((noinline, used)) int library_padding(int x)
{
    int y = x;
    for (int i = 0; i < x; i++)
        y = (y * 31 + i) % 1009 + (y << 3) % 17 + (y >> 2) % 5 + y / 7 + y / 11 + y / 13;
    return y;
}

static unsigned step(unsigned sum, unsigned char c)
{
    return (sum << 5 | sum >> 27) + c;
}

unsigned library_checksum(const unsigned char *p, size_t n)
{
    unsigned sum = 0;
    for (size_t i = 0; i < n; i++)
        sum = step(sum, p[i]) % 1000003;
    return sum;
}
