// Values of const generic arguments in v0 names.
#include <stdio.h>

#include "symbol/demangle_v0_internal.h"

static bool v0_const_is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static bool hex_nibbles(struct v0 *v, const char **hex, size_t *n)
{
    if (v0_gone(v))
        return false;
    size_t start = v->at.next;
    for (;;) {
        if (v->at.next >= v->n)
            return v0_fail(v, INVALID);
        char c = v->sym[v->at.next++];
        if (c == '_')
            break;
        if (!v0_const_is_digit(c) && !(c >= 'a' && c <= 'f'))
            return v0_fail(v, INVALID);
    }
    *hex = v->sym + start;
    *n = v->at.next - 1 - start;
    return true;
}

static unsigned hex_nibble(char c)
{
    return v0_const_is_digit(c) ? (unsigned)(c - '0') : 10 + (unsigned)(c - 'a');
}

static bool v0_hex_value(const char *hex, size_t n, uint64_t *value)
{
    *value = 0;
    while (n && *hex == '0')
        hex++, n--;
    if (n > 16)
        return false;
    for (size_t i = 0; i < n; i++)
        *value = *value << 4 | hex_nibble(hex[i]);
    return true;
}

static void print_uint(struct v0 *v)
{
    const char *hex = "";
    size_t n = 0;
    uint64_t value;
    if (!hex_nibbles(v, &hex, &n))
        return;
    if (v0_hex_value(hex, n, &value)) {
        v0_print_number(v, value);
    } else if (v->out) {
        v0_print(v, "0x");
        text_add(v->out, hex, n);
    }
}

// Escapes like char::escape_debug, for characters that occur in names.
static void print_escaped(struct v0 *v, uint32_t quote, uint32_t c)
{
    char code[16];
    if (!v->out)
        return;
    if ((c == '\'' || c == '"') && c != quote) {
        text_char(v->out, c);
        return;
    }
    switch (c) {
    case 0:
        v0_print(v, "\\0");
        return;
    case '\t':
        v0_print(v, "\\t");
        return;
    case '\n':
        v0_print(v, "\\n");
        return;
    case '\r':
        v0_print(v, "\\r");
        return;
    case '\'':
    case '"':
    case '\\':
        v0_print(v, "\\");
        text_char(v->out, c);
        return;
    }
    bool shown = c >= 0x20 && !(c >= 0x7f && c < 0xa0) && c != 0xad && !(c >= 0x300 && c < 0x370) &&
                 !(c >= 0x200b && c < 0x2010) && !(c >= 0x2028 && c < 0x202f) &&
                 !(c >= 0x2060 && c < 0x2070) && !(c >= 0xe000 && c < 0xf900) &&
                 !(c >= 0xfe00 && c < 0xfe10) && c != 0xfeff && c < 0xe0000;
    if (shown) {
        text_char(v->out, c);
        return;
    }
    snprintf(code, sizeof code, "\\u{%x}", c);
    v0_print(v, code);
}

// Decodes one UTF-8 character given in hexadecimal. Returns its length in bytes, or 0 if it is
// invalid.
static size_t hex_char(const char *hex, size_t n, uint32_t *c)
{
    unsigned first = hex_nibble(hex[0]) << 4 | hex_nibble(hex[1]);
    size_t len = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (len == 0 || first > 0xf4 || n < 2 * len)
        return 0;
    *c = len == 1 ? first : first & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        unsigned b = hex_nibble(hex[2 * i]) << 4 | hex_nibble(hex[2 * i + 1]);
        if ((b & 0xc0) != 0x80)
            return 0;
        *c = *c << 6 | (b & 0x3f);
    }
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    return is_scalar(*c) && *c >= least[len] ? len : 0;
}

static void print_str(struct v0 *v)
{
    const char *hex = "";
    size_t n = 0;
    if (!hex_nibbles(v, &hex, &n))
        return;
    bool valid = n % 2 == 0;
    for (size_t i = 0, len; valid && i < n; i += 2 * len) {
        uint32_t c;
        len = hex_char(hex + i, n - i, &c);
        valid = len > 0;
    }
    if (!valid) {
        v0_fail(v, INVALID);
        return;
    }
    v0_print(v, "\"");
    for (size_t i = 0; i < n;) {
        uint32_t c;
        i += 2 * hex_char(hex + i, n - i, &c);
        print_escaped(v, '"', c);
    }
    v0_print(v, "\"");
}

static void print_const_in_value(struct v0 *v)
{
    v0_print_const(v, true);
}

static void print_field(struct v0 *v)
{
    uint64_t dis;
    struct ident name;
    if (!v0_opt_integer_62(v, 's', &dis) || !v0_ident(v, &name))
        return;
    v0_print_ident(v, &name);
    v0_print(v, ": ");
    v0_print_const(v, true);
}

// Prints an enum or struct value. On false the caller must give up too.
static bool print_variant(struct v0 *v)
{
    char kind;
    v0_print_path(v, true);
    if (!v0_next(v, &kind))
        return false;
    switch (kind) {
    case 'U':
        break;
    case 'T':
        v0_print(v, "(");
        v0_print_list(v, print_const_in_value, ", ");
        v0_print(v, ")");
        break;
    case 'S':
        v0_print(v, " { ");
        v0_print_list(v, print_field, ", ");
        v0_print(v, " }");
        break;
    default:
        return v0_fail(v, INVALID);
    }
    return true;
}

void v0_print_const(struct v0 *v, bool in_value)
{
    char tag;
    const char *hex = "";
    size_t n = 0;
    uint64_t value;
    struct place back;
    if (v0_full(v) || !v0_next(v, &tag) || !v0_push_depth(v))
        return;
    // As a generic argument, everything except a literal needs braces.
    bool brace = !in_value && (tag == 'e' || tag == 'A' || tag == 'T' || tag == 'V' || tag == 'Q' ||
                               (tag == 'R' && v0_peek(v) != 'e'));
    if (brace)
        v0_print(v, "{");
    switch (tag) {
    case 'p':
        v0_print(v, "_");
        break;
    case 'a':
    case 's':
    case 'l':
    case 'x':
    case 'n':
    case 'i':
        if (v0_eat(v, 'n'))
            v0_print(v, "-");
        print_uint(v);
        break;
    case 'h':
    case 't':
    case 'm':
    case 'y':
    case 'o':
    case 'j':
        print_uint(v);
        break;
    case 'b':
        if (!hex_nibbles(v, &hex, &n))
            return;
        if (!v0_hex_value(hex, n, &value) || value > 1) {
            v0_fail(v, INVALID);
            return;
        }
        v0_print(v, value ? "true" : "false");
        break;
    case 'c':
        if (!hex_nibbles(v, &hex, &n))
            return;
        if (!v0_hex_value(hex, n, &value) || !is_scalar(value)) {
            v0_fail(v, INVALID);
            return;
        }
        v0_print(v, "'");
        print_escaped(v, '\'', (uint32_t)value);
        v0_print(v, "'");
        break;
    case 'e':
        v0_print(v, "*");
        print_str(v);
        break;
    case 'R':
    case 'Q':
        if (tag == 'R' && v0_eat(v, 'e')) {
            print_str(v);
        } else {
            v0_print(v, tag == 'R' ? "&" : "&mut ");
            v0_print_const(v, true);
        }
        break;
    case 'A':
        v0_print(v, "[");
        v0_print_list(v, print_const_in_value, ", ");
        v0_print(v, "]");
        break;
    case 'T':
        v0_print(v, "(");
        v0_print(v, v0_print_list(v, print_const_in_value, ", ") == 1 ? ",)" : ")");
        break;
    case 'V':
        if (!print_variant(v))
            return;
        break;
    case 'B':
        if (v0_backref(v, &back)) {
            v0_print_const(v, in_value);
            v->at = back;
        }
        break;
    default:
        v0_fail(v, INVALID);
        return;
    }
    if (brace)
        v0_print(v, "}");
    v0_pop_depth(v);
}
