// Taking text apart the way the formats' first readers do: Go's regexp, strings and
// strconv packages. What counts as white space or as a number decides which inputs are
// accepted, so these helpers follow those rules and not libc's.
#pragma once

#include "base/str.h"

// \s of a regular expression: the vertical tab is not in it.
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

// The lines of a text. After the last one, line is empty and stays so.
struct scan_lines {
    struct str rest, line;
    size_t number; // of line, from 1
};

bool scan_next(struct scan_lines *lines);

// A position inside one line; every take function moves only over what it matched.
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

// As many characters of the class as there are, maybe none.
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

// [ x0-9a-f]*: the addresses at the end of a sample line.
struct str scan_addresses(struct scan *s);

// Finds the next address (0x and lower-case hexadecimal digits) in *rest and takes
// everything up to its end. 1: found, 0: there is none, -1: it does not fit 64 bits.
int scan_address(struct str *rest, uint64_t *address);

// Without white space, including Unicode's, at both ends.
struct str scan_trim(struct str s);
bool scan_contains(struct str s, struct str part);
// Nothing but white space, or a comment that starts with #.
bool scan_is_blank_or_comment(struct str line);

// An integer with Go's base prefixes (0x, 0o, 0b, a leading 0 for octal) and digit
// separators; false if it is none or does not fit.
bool scan_int(struct str s, int64_t *value);

// Truncates as the processor does; NaN and what does not fit become INT64_MIN.
int64_t scan_truncate(double value);
// Rounds to the nearest; false for NaN and what does not fit.
bool scan_round(double value, int64_t *result);

static inline int64_t scan_mul(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

static inline int64_t scan_add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

// The last component of a path, as Go's filepath.Base has it.
struct str scan_basename(struct str path);

// A piece of input for an error message: cut, and with nothing that could upset a terminal.
struct scan_quote {
    char text[72];
};
struct scan_quote scan_quote(struct str s);
