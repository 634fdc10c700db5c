#include "base/str.h"

#include <stdlib.h>

int str_compare(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

size_t str_find(struct str s, struct str needle, size_t from)
{
    if (from > s.n)
        return SIZE_MAX;
    if (needle.n == 0)
        return from;
    if (needle.n > s.n - from)
        return SIZE_MAX;
    const char *hit = memmem(s.p + from, s.n - from, needle.p, needle.n);
    return hit ? (size_t)(hit - s.p) : SIZE_MAX;
}

void str_hex(char *text, const uint8_t *bytes, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
}

// Returns the length of the UTF-8 character at p; 1 for an invalid byte.
static size_t character_length(const unsigned char *p, size_t n)
{
    size_t length = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (length < 2 || length > n || p[0] > 0xf4)
        return 1;
    for (size_t i = 1; i < length; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 1;
    bool overlong = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
    bool surrogate = p[0] == 0xed && p[1] >= 0xa0, beyond = p[0] == 0xf4 && p[1] >= 0x90;
    return overlong || surrogate || beyond ? 1 : length;
}

size_t str_columns(struct str s)
{
    size_t columns = 0;
    for (size_t i = 0; i < s.n; columns++)
        i += character_length((const unsigned char *)s.p + i, s.n - i);
    return columns;
}

static bool is_str_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

struct str str_trim(struct str s)
{
    while (s.n && is_str_space(s.p[0])) {
        s.p++;
        s.n--;
    }
    while (s.n && is_str_space(s.p[s.n - 1]))
        s.n--;
    return s;
}

bool str_next_line(struct str *rest, struct str *line)
{
    if (rest->n == 0)
        return false;
    const char *end = memchr(rest->p, '\n', rest->n);
    size_t n = end ? (size_t)(end - rest->p) : rest->n;
    *line = (struct str){rest->p, n};
    if (line->n && line->p[line->n - 1] == '\r')
        line->n--;
    size_t eaten = end ? n + 1 : n;
    rest->p += eaten;
    rest->n -= eaten;
    return true;
}

static int str_digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'Z')
        return c - 'A' + 10;
    return 99;
}

bool str_to_u64(struct str s, int base, uint64_t *value)
{
    if (s.n == 0)
        return false;
    uint64_t v = 0;
    for (size_t i = 0; i < s.n; i++) {
        int d = str_digit_value(s.p[i]);
        if (d >= base || __builtin_mul_overflow(v, (uint64_t)base, &v) ||
            __builtin_add_overflow(v, (uint64_t)d, &v))
            return false;
    }
    *value = v;
    return true;
}

bool str_to_i64(struct str s, int64_t *value)
{
    bool negative = s.n && s.p[0] == '-';
    if (s.n && (s.p[0] == '-' || s.p[0] == '+')) {
        s.p++;
        s.n--;
    }
    uint64_t v;
    if (!str_to_u64(s, 10, &v) || v > (uint64_t)INT64_MAX + negative)
        return false;
    *value = negative ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

bool str_to_double(struct str s, double *value)
{
    char text[64];
    if (s.n == 0 || s.n >= sizeof text || is_str_space(s.p[0]))
        return false;
    memcpy(text, s.p, s.n);
    text[s.n] = '\0';
    char *end;
    *value = strtod(text, &end);
    return *end == '\0' && end == text + s.n;
}
