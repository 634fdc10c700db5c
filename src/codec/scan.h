// Parses text exactly like the original readers of these formats, which use Go's regexp, strings
// and strconv packages. The rules for white space and numbers decide which inputs are accepted, so
// they follow Go, not libc.
#pragma once

#include "base/str.h"

// \s of a regular expression, which excludes the vertical tab.
static inline bool scan_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\f' || c == '\r';
}

static inline bool scan_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool scan_is_lower_hex(char c)
{
    return scan_is_digit(c) || (c >= 'a' && c <= 'f');
}

static inline bool scan_is_hex(char c)
{
    return scan_is_lower_hex(c) || (c >= 'A' && c <= 'F');
}

// Iterates over the lines of a text. After the last one, line stays empty.
struct scan_lines {
    struct str rest, line;
    size_t number; // of line, counting from 1
};

// Advances to the next line. Returns false at the end.
bool scan_next(struct scan_lines *lines);

// A position in a line. Each function advances it only past what it matched.
struct scan {
    const char *at, *end;
};

static inline struct scan scan_from(struct str s, size_t from)
{
    return (struct scan){s.p + from, s.p + s.n};
}

static inline bool scan_char(struct scan *s, char c)
{
    if (s->at == s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

static inline bool scan_text(struct scan *s, struct str text)
{
    if ((size_t)(s->end - s->at) < text.n || memcmp(s->at, text.p, text.n) != 0)
        return false;
    s->at += text.n;
    return true;
}

// Returns the longest run of characters of the class; it may be empty.
static inline struct str scan_run(struct scan *s, bool (*in_class)(char))
{
    const char *from = s->at;
    while (s->at < s->end && in_class(*s->at))
        s->at++;
    return (struct str){from, (size_t)(s->at - from)};
}

static inline struct str scan_blanks(struct scan *s)
{
    const char *from = s->at;
    while (s->at < s->end && *s->at == ' ')
        s->at++;
    return (struct str){from, (size_t)(s->at - from)};
}

// Scans [ x0-9a-f]*: the addresses at the end of a sample line.
struct str scan_addresses(struct scan *s);

// Finds the next address (0x and lowercase hexadecimal digits) in *rest and removes everything up
// to its end. Returns 1 if found, 0 if there is none, -1 if it exceeds 64 bits.
int scan_address(struct str *rest, uint64_t *address);

// Strips white space, including Unicode's, from both ends.
struct str scan_trim(struct str s);
bool scan_contains(struct str s, struct str part);
// Whether the line is blank or a comment that starts with #.
bool scan_is_blank_or_comment(struct str line);

// Parses an integer with Go's base prefixes (0x, 0o, 0b, a leading 0 for octal) and digit
// separators. Returns false if it is invalid or out of range.
bool scan_int(struct str s, int64_t *value);

// Truncates like the processor: NaN and out-of-range values become INT64_MIN.
int64_t scan_truncate(double value);
// Rounds to nearest. Returns false for NaN and out-of-range values.
bool scan_round(double value, int64_t *result);

static inline int64_t scan_mul(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

static inline int64_t scan_add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

// Returns the last component of a path, like Go's filepath.Base.
struct str scan_basename(struct str path);

// Quotes input in an error message: truncated, with control and non-ASCII characters replaced.
struct scan_quote {
    char text[72];
};
struct scan_quote scan_quote(struct str s);
