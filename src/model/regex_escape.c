#include "model/regex_escape.h"

static int byte_at(struct str s, size_t at)
{
    return at < s.n ? (unsigned char)s.p[at] : -1;
}

// Returns the length of the character at the start of s, or 0 if it is invalid.
static size_t char_length(struct str s)
{
    const unsigned char *p = (const unsigned char *)s.p;
    unsigned c = p[0];
    size_t n = c < 0x80                ? 1
               : c >= 0xc2 && c < 0xe0 ? 2
               : c >= 0xe0 && c < 0xf0 ? 3
               : c >= 0xf0 && c < 0xf5 ? 4
                                       : 0;
    if (n > s.n)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    // Overlong, a surrogate, or too large.
    if (n >= 3 && ((c == 0xe0 && p[1] < 0xa0) || (c == 0xed && p[1] >= 0xa0) ||
                   (c == 0xf0 && p[1] < 0x90) || (c == 0xf4 && p[1] >= 0x90)))
        return 0;
    return n;
}

bool regex_is_utf8(struct str s)
{
    while (s.n) {
        size_t n = char_length(s);
        if (n == 0)
            return false;
        s = str_from_to(s, n, s.n);
    }
    return true;
}

size_t regex_as_utf8(struct str s, char *to)
{
    size_t length = 0;
    while (s.n) {
        size_t n = char_length(s);
        memcpy(to + length, n ? s.p : "\xef\xbf\xbd", n ? n : 3);
        length += n ? n : 3;
        s = str_from_to(s, n ? n : 1, s.n);
    }
    return length;
}

uint32_t regex_next_char(struct str s, size_t *at)
{
    int c = byte_at(s, *at);
    if (c < 0)
        return 0xfffd;
    size_t n = c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    uint32_t value = n == 1 ? (uint32_t)c : (uint32_t)c & (0xffu >> (n + 1));
    for (size_t i = 1; i < n && *at + i < s.n; i++)
        value = value << 6 | ((unsigned char)s.p[*at + i] & 0x3f);
    *at = *at + n < s.n ? *at + n : s.n;
    return value;
}

static int regex_hex_value(uint32_t c)
{
    if (c >= '0' && c <= '9')
        return (int)c - '0';
    if ((c | 32) >= 'a' && (c | 32) <= 'f')
        return (int)(c | 32) - 'a' + 10;
    return -1;
}

// Parses the rest of an escape after \x.
static bool regex_hex_escape(struct str s, size_t *at, uint32_t *c)
{
    if (*at >= s.n)
        return false;
    uint32_t first = regex_next_char(s, at);
    if (first != '{') {
        int high = regex_hex_value(first), low = regex_hex_value(regex_next_char(s, at));
        *c = (uint32_t)(high * 16 + low);
        return high >= 0 && low >= 0;
    }
    *c = 0;
    for (size_t digits = 0; *at < s.n; digits++) {
        uint32_t next = regex_next_char(s, at);
        if (next == '}')
            return digits > 0;
        int value = regex_hex_value(next);
        *c = *c * 16 + (uint32_t)value;
        if (value < 0 || *c > 0x10ffff)
            return false;
    }
    return false;
}

bool regex_escape(struct str s, size_t *at, uint32_t *c)
{
    static const char letters[] = "afnrtv", meanings[] = "\a\f\n\r\t\v";
    size_t digits = 1;
    ++*at;
    *c = regex_next_char(s, at);
    if (*c == 'x')
        return regex_hex_escape(s, at, c);
    if (*c >= '0' && *c <= '7') {
        // Except for 0, a single digit would be a back reference, which Go does not have.
        bool refers = *c != '0' && (byte_at(s, *at) < '0' || byte_at(s, *at) > '7');
        for (*c -= '0'; digits < 3 && byte_at(s, *at) >= '0' && byte_at(s, *at) <= '7'; digits++)
            *c = *c * 8 + (uint32_t)(s.p[(*at)++] - '0');
        return !refers;
    }
    for (int i = 0; letters[i]; i++) {
        if (*c == (uint32_t)letters[i]) {
            *c = (uint32_t)meanings[i];
            return true;
        }
    }
    bool is_alphanumeric = (*c >= '0' && *c <= '9') || ((*c | 32) >= 'a' && (*c | 32) <= 'z');
    return *c < 0x80 && !is_alphanumeric;
}

bool regex_class_char(struct str s, size_t *at, uint32_t *c)
{
    if (byte_at(s, *at) == '\\')
        return regex_escape(s, at, c);
    *c = regex_next_char(s, at);
    return true;
}

size_t regex_class_name(struct str s, size_t at)
{
    if (at + 2 >= s.n || s.p[at] != '[' || s.p[at + 1] != ':')
        return SIZE_MAX;
    size_t end = str_find(s, STR(":]"), at + 2);
    return end == SIZE_MAX ? SIZE_MAX : end + 2;
}

size_t regex_property(struct str s, size_t at, struct str *name)
{
    size_t from = at + 2, end;
    if (byte_at(s, from) == '{') {
        end = str_find(s, STR("}"), ++from);
        if (end == SIZE_MAX)
            return SIZE_MAX;
        *name = str_from_to(s, from, end++);
    } else {
        end = from;
        regex_next_char(s, &end);
        *name = str_from_to(s, from, end);
    }
    if (name->n && name->p[0] == '^' && byte_at(s, at + 2) == '{')
        *name = str_from_to(*name, 1, name->n);
    return end;
}
