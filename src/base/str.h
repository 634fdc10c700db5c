// A borrowed byte string: not NUL-terminated, may contain any byte.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct str {
    const char *p;
    size_t n;
};

#define STR(literal) ((struct str){(literal), sizeof(literal) - 1})

static inline struct str str_from(const char *text)
{
    return (struct str){text, strlen(text)};
}

// The ending of a noun after a number.
static inline const char *str_plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

static inline bool str_eq(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

// Compares bytewise; a prefix sorts first. Same order as Go's strings.
static inline int str_cmp(struct str a, struct str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int c = n ? memcmp(a.p, b.p, n) : 0;
    return c ? c : (a.n > b.n) - (a.n < b.n);
}

// str_cmp for qsort over an array of struct str.
int str_compare(const void *a, const void *b);

static inline bool str_starts(struct str s, struct str prefix)
{
    return s.n >= prefix.n && (prefix.n == 0 || memcmp(s.p, prefix.p, prefix.n) == 0);
}

static inline bool str_ends(struct str s, struct str suffix)
{
    return s.n >= suffix.n &&
           (suffix.n == 0 || memcmp(s.p + s.n - suffix.n, suffix.p, suffix.n) == 0);
}

static inline struct str str_from_to(struct str s, size_t from, size_t to)
{
    return (struct str){s.p + from, to - from};
}

// Returns the position of the first occurrence of needle at or after from; SIZE_MAX if none.
size_t str_find(struct str s, struct str needle, size_t from);

// Returns the number of UTF-8 characters. Each invalid byte counts as one, as in Go.
size_t str_columns(struct str s);
// Writes the 2 * n lowercase digits of n bytes, without a NUL.
void str_hex(char *text, const uint8_t *bytes, size_t n);

// Returns s without leading and trailing white space.
struct str str_trim(struct str s);

// Removes the next line from the front of *rest and returns it in *line without its "\n" or "\r\n".
// Returns false if *rest is empty.
bool str_next_line(struct str *rest, struct str *line);

// Parses all of s as a number. Returns false if it is invalid or does not fit. str_to_u64 accepts
// no sign and no prefix; base is 10 or 16.
bool str_to_i64(struct str s, int64_t *value);
bool str_to_u64(struct str s, int base, uint64_t *value);
// Parses all of s as strtod does, without leading white space. Also accepts hexadecimal numbers,
// "inf" and "nan".
bool str_to_double(struct str s, double *value);
