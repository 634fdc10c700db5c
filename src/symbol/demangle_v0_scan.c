// The scanner of v0 names: numbers, identifiers (including punycode), back references.
#include <stdio.h>

#include "symbol/demangle_v0_internal.h"

enum { PUNYCODE_MAX = 128 };

void v0_print(struct v0 *v, const char *s)
{
    if (v->out)
        text_puts(v->out, s);
}

void v0_print_number(struct v0 *v, uint64_t x)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)x);
    v0_print(v, digits);
}

bool v0_fail(struct v0 *v, int error)
{
    if (v->at.error == FINE) {
        v0_print(v, error == TOO_DEEP ? "{recursion limit reached}" : "{invalid syntax}");
        v->at.error = error;
    }
    return false;
}

bool v0_gone(struct v0 *v)
{
    if (v->at.error != FINE) {
        v0_print(v, "?");
        return true;
    }
    return false;
}

bool v0_full(const struct v0 *v)
{
    return v->out && v->out->full;
}

int v0_peek(const struct v0 *v)
{
    return v->at.error == FINE && v->at.next < v->n ? (unsigned char)v->sym[v->at.next] : -1;
}

bool v0_eat(struct v0 *v, char c)
{
    if (v0_peek(v) != c)
        return false;
    v->at.next++;
    return true;
}

bool v0_next(struct v0 *v, char *c)
{
    if (v0_gone(v))
        return false;
    if (v->at.next >= v->n)
        return v0_fail(v, INVALID);
    *c = v->sym[v->at.next++];
    return true;
}

bool v0_push_depth(struct v0 *v)
{
    if (v0_gone(v))
        return false;
    return ++v->at.depth > V0_DEPTH_MAX ? v0_fail(v, TOO_DEEP) : true;
}

void v0_pop_depth(struct v0 *v)
{
    if (v->at.error == FINE)
        v->at.depth--;
}

// Parses a base-62 number without printing errors. Returns false if it is invalid.
static bool scan_62(struct v0 *v, uint64_t *x)
{
    *x = 0;
    if (v0_eat(v, '_'))
        return true;
    while (!v0_eat(v, '_')) {
        int c = v0_peek(v);
        unsigned d;
        if (c >= '0' && c <= '9')
            d = (unsigned)(c - '0');
        else if (c >= 'a' && c <= 'z')
            d = 10 + (unsigned)(c - 'a');
        else if (c >= 'A' && c <= 'Z')
            d = 36 + (unsigned)(c - 'A');
        else
            return false;
        v->at.next++;
        if (__builtin_mul_overflow(*x, 62, x) || __builtin_add_overflow(*x, d, x))
            return false;
    }
    return !__builtin_add_overflow(*x, 1, x);
}

bool v0_integer_62(struct v0 *v, uint64_t *x)
{
    if (v0_gone(v))
        return false;
    return scan_62(v, x) || v0_fail(v, INVALID);
}

bool v0_opt_integer_62(struct v0 *v, char tag, uint64_t *x)
{
    if (v0_gone(v))
        return false;
    *x = 0;
    if (!v0_eat(v, tag))
        return true;
    return (scan_62(v, x) && !__builtin_add_overflow(*x, 1, x)) || v0_fail(v, INVALID);
}

static bool v0_scan_is_digit(int c)
{
    return c >= '0' && c <= '9';
}

bool v0_ident(struct v0 *v, struct ident *id)
{
    if (v0_gone(v))
        return false;
    bool punycode = v0_eat(v, 'u');
    if (!v0_scan_is_digit(v0_peek(v)))
        return v0_fail(v, INVALID);
    size_t len = (size_t)(v->sym[v->at.next++] - '0');
    while (len && v0_scan_is_digit(v0_peek(v)))
        if (__builtin_mul_overflow(len, 10, &len) ||
            __builtin_add_overflow(len, (size_t)(v->sym[v->at.next++] - '0'), &len))
            return v0_fail(v, INVALID);
    v0_eat(v, '_');
    if (len > v->n - v->at.next)
        return v0_fail(v, INVALID);
    *id = (struct ident){.ascii = v->sym + v->at.next, .n_ascii = len};
    v->at.next += len;
    if (!punycode)
        return true;
    const char *split = memrchr(id->ascii, '_', len);
    if (split) {
        id->n_ascii = (size_t)(split - id->ascii);
        id->punycode = split + 1;
        id->n_punycode = len - id->n_ascii - 1;
    } else {
        id->punycode = id->ascii;
        id->n_punycode = len;
        id->n_ascii = 0;
    }
    return id->n_punycode ? true : v0_fail(v, INVALID);
}

// Decodes punycode (RFC 3492). Returns false for names longer than PUNYCODE_MAX.
static bool punycode_decode(const struct ident *id, uint32_t *out, size_t *n_out)
{
    const uint64_t base = 36, t_min = 1, t_max = 26, skew = 38;
    uint64_t damp = 700, bias = 72, i = 0, code = 0x80;
    size_t len = id->n_ascii, at = 0;
    if (len > PUNYCODE_MAX)
        return false;
    for (size_t k = 0; k < len; k++)
        out[k] = (unsigned char)id->ascii[k];
    for (;;) {
        uint64_t delta = 0, w = 1, k = 0;
        for (;;) {
            k += base;
            uint64_t t = k > bias ? k - bias : 0;
            t = t < t_min ? t_min : t > t_max ? t_max : t;
            if (at == id->n_punycode)
                return false;
            char c = id->punycode[at++];
            uint64_t d, part;
            if (c >= 'a' && c <= 'z')
                d = (uint64_t)(c - 'a');
            else if (v0_scan_is_digit(c))
                d = 26 + (uint64_t)(c - '0');
            else
                return false;
            if (__builtin_mul_overflow(d, w, &part) || __builtin_add_overflow(delta, part, &delta))
                return false;
            if (d < t)
                break;
            if (__builtin_mul_overflow(w, base - t, &w))
                return false;
        }
        len++;
        if (__builtin_add_overflow(i, delta, &i) || __builtin_add_overflow(code, i / len, &code))
            return false;
        i %= len;
        if (!is_scalar(code) || len > PUNYCODE_MAX)
            return false;
        memmove(out + i + 1, out + i, (len - 1 - i) * sizeof *out);
        out[i++] = (uint32_t)code;
        if (at == id->n_punycode)
            break;
        delta /= damp;
        damp = 2;
        delta += delta / len;
        for (k = 0; delta > ((base - t_min) * t_max) / 2; k += base)
            delta /= base - t_min;
        bias = k + ((base - t_min + 1) * delta) / (delta + skew);
    }
    *n_out = len;
    return true;
}

void v0_print_ident(struct v0 *v, const struct ident *id)
{
    if (!v->out)
        return;
    if (!id->n_punycode) {
        text_add(v->out, id->ascii, id->n_ascii);
        return;
    }
    uint32_t chars[PUNYCODE_MAX];
    size_t n;
    if (punycode_decode(id, chars, &n)) {
        for (size_t i = 0; i < n; i++)
            text_char(v->out, chars[i]);
        return;
    }
    v0_print(v, "punycode{");
    if (id->n_ascii) {
        text_add(v->out, id->ascii, id->n_ascii);
        v0_print(v, "-");
    }
    text_add(v->out, id->punycode, id->n_punycode);
    v0_print(v, "}");
}

bool v0_backref(struct v0 *v, struct place *back)
{
    if (v0_gone(v))
        return false;
    size_t start = v->at.next - 1;
    uint64_t i;
    if (!scan_62(v, &i) || i >= start)
        return v0_fail(v, INVALID);
    struct place there = {(size_t)i, v->at.depth + 1, FINE};
    if (there.depth > V0_DEPTH_MAX)
        return v0_fail(v, TOO_DEEP);
    if (!v->out)
        return false;
    *back = v->at;
    v->at = there;
    return true;
}
