// Output buffer of the demanglers. It grows up to a limit that no real name reaches, and then
// stops.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { DEMANGLE_MAX = 1000000 };

struct text {
    char *p;
    size_t n, cap;
    bool full;
};

static inline bool text_reserve(struct text *t, size_t more)
{
    if (t->n + more + 1 <= t->cap)
        return true;
    size_t cap = (t->n + more + 1) * 2 + 128;
    char *p = realloc(t->p, cap);
    if (!p) {
        t->full = true;
        return false;
    }
    t->p = p;
    t->cap = cap;
    return true;
}

// Appends all n bytes or, at the limit, nothing.
static inline void text_add(struct text *t, const char *s, size_t n)
{
    if (t->full || t->n + n > DEMANGLE_MAX) {
        t->full = true;
        return;
    }
    if (n && text_reserve(t, n)) {
        memcpy(t->p + t->n, s, n);
        t->n += n;
    }
}

static inline void text_puts(struct text *t, const char *s)
{
    text_add(t, s, strlen(s));
}

// Appends a code point as UTF-8.
static inline void text_char(struct text *t, uint32_t c)
{
    char b[4];
    size_t n = 0;
    if (c < 0x80) {
        b[n++] = (char)c;
    } else {
        if (c < 0x800) {
            b[n++] = (char)(0xc0 | c >> 6);
        } else {
            if (c < 0x10000) {
                b[n++] = (char)(0xe0 | c >> 12);
            } else {
                b[n++] = (char)(0xf0 | c >> 18);
                b[n++] = (char)(0x80 | (c >> 12 & 0x3f));
            }
            b[n++] = (char)(0x80 | (c >> 6 & 0x3f));
        }
        b[n++] = (char)(0x80 | (c & 0x3f));
    }
    text_add(t, b, n);
}

// Returns the text with a NUL; the caller frees it. Returns NULL if the buffer could not be
// allocated.
static inline char *text_take(struct text *t)
{
    if (!t->p && !text_reserve(t, 0)) {
        free(t->p);
        return NULL;
    }
    t->p[t->n] = '\0';
    return t->p;
}

static inline bool is_scalar(uint64_t c)
{
    return c < 0xd800 || (c > 0xdfff && c < 0x110000);
}
