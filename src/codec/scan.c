#include "codec/scan.h"

#include <math.h>

bool scan_next(struct scan_lines *lines)
{
    if (!str_next_line(&lines->rest, &lines->line)) {
        lines->line = STR("");
        return false;
    }
    lines->number++;
    return true;
}

static bool is_address_char(char c)
{
    return c == ' ' || c == 'x' || scan_is_lower_hex(c);
}

struct str scan_addresses(struct scan *s)
{
    return scan_run(s, is_address_char);
}

int scan_address(struct str *rest, uint64_t *address)
{
    for (size_t at = 0; (at = str_find(*rest, STR("0x"), at)) != SIZE_MAX; at++) {
        struct scan s = scan_from(*rest, at + 2);
        struct str digits = scan_run(&s, scan_is_lower_hex);
        if (digits.n == 0)
            continue;
        *rest = (struct str){s.at, (size_t)(s.end - s.at)};
        return str_to_u64(digits, 16, address) ? 1 : -1;
    }
    return 0;
}

// Returns the length of the white-space character at the start of s, or 0.
static size_t space_at_start(struct str s)
{
    if (s.n == 0)
        return 0;
    const unsigned char *p = (const unsigned char *)s.p;
    if (p[0] < 0x80)
        return p[0] == ' ' || (p[0] >= '\t' && p[0] <= '\r');
    if (s.n >= 2 && p[0] == 0xc2 && (p[1] == 0x85 || p[1] == 0xa0))
        return 2;
    if (s.n < 3)
        return 0;
    uint32_t code = (uint32_t)(p[0] << 16 | p[1] << 8 | p[2]);
    bool is_space = code == 0xe19a80 || (code >= 0xe28080 && code <= 0xe2808a) ||
                    code == 0xe280a8 || code == 0xe280a9 || code == 0xe280af || code == 0xe2819f ||
                    code == 0xe38080;
    return is_space ? 3 : 0;
}

static size_t space_at_end(struct str s)
{
    for (size_t n = 1; n <= 3 && n <= s.n; n++)
        if (space_at_start((struct str){s.p + s.n - n, n}) == n)
            return n;
    return 0;
}

struct str scan_trim(struct str s)
{
    for (size_t n; (n = space_at_start(s)) > 0;)
        s = (struct str){s.p + n, s.n - n};
    for (size_t n; (n = space_at_end(s)) > 0;)
        s.n -= n;
    return s;
}

bool scan_contains(struct str s, struct str part)
{
    return str_find(s, part, 0) != SIZE_MAX;
}

bool scan_is_blank_or_comment(struct str line)
{
    struct str trimmed = scan_trim(line);
    return trimmed.n == 0 || trimmed.p[0] == '#';
}

static char ascii_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static int scan_digit_value(char c)
{
    c = ascii_lower(c);
    if (scan_is_digit(c))
        return c - '0';
    return c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;
}

// Parses digits with separators. Each _ must follow a digit or a base prefix (is_prefixed) and
// precede a digit.
static bool parse_digits(struct str s, unsigned base, bool is_prefixed, uint64_t *value)
{
    uint64_t v = 0;
    bool after_digit = is_prefixed;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '_') {
            if (!after_digit)
                return false;
            after_digit = false;
            continue;
        }
        unsigned d = (unsigned)scan_digit_value(s.p[i]);
        if (d >= base || __builtin_mul_overflow(v, (uint64_t)base, &v) ||
            __builtin_add_overflow(v, (uint64_t)d, &v))
            return false;
        after_digit = true;
    }
    *value = v;
    return s.n == 0 || s.p[s.n - 1] != '_';
}

bool scan_int(struct str s, int64_t *value)
{
    bool negative = s.n && s.p[0] == '-';
    if (s.n && (s.p[0] == '-' || s.p[0] == '+'))
        s = str_from_to(s, 1, s.n);
    if (s.n == 0)
        return false;
    unsigned base = 10;
    bool is_prefixed = false;
    if (s.p[0] == '0') {
        char kind = s.n >= 3 ? ascii_lower(s.p[1]) : '\0';
        is_prefixed = true;
        base = kind == 'x' ? 16 : kind == 'b' ? 2 : 8;
        s = str_from_to(s, kind == 'x' || kind == 'b' || kind == 'o' ? 2 : 1, s.n);
    }
    uint64_t v;
    if (!parse_digits(s, base, is_prefixed, &v) || v > (uint64_t)INT64_MAX + negative)
        return false;
    *value = negative ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

int64_t scan_truncate(double value)
{
    return value >= -0x1p63 && value < 0x1p63 ? (int64_t)value : INT64_MIN;
}

bool scan_round(double value, int64_t *result)
{
    double rounded = round(value);
    if (!(rounded >= -0x1p63 && rounded < 0x1p63))
        return false;
    *result = (int64_t)rounded;
    return true;
}

struct str scan_basename(struct str path)
{
    if (path.n == 0)
        return STR(".");
    while (path.n > 1 && path.p[path.n - 1] == '/')
        path.n--;
    if (path.n == 1)
        return path;
    const char *slash = memrchr(path.p, '/', path.n);
    return slash ? str_from_to(path, (size_t)(slash + 1 - path.p), path.n) : path;
}

struct scan_quote scan_quote(struct str s)
{
    struct scan_quote q;
    size_t room = sizeof q.text - 4, n = s.n < room ? s.n : room;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        q.text[i] = c < 0x20 || c >= 0x7f ? '?' : (char)c;
    }
    memcpy(q.text + n, s.n > room ? "..." : "\0\0\0", 4);
    return q;
}
