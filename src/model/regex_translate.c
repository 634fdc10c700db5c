#include "model/regex_translate.h"

#include "model/regex_escape.h"

struct reader {
    struct str s;
    size_t at;
    struct out *out;
};

static int peek(const struct reader *r, size_t ahead)
{
    return r->at + ahead < r->s.n ? (unsigned char)r->s.p[r->at + ahead] : -1;
}

static void copy(struct reader *r, size_t n)
{
    out_str(r->out, str_from_to(r->s, r->at, r->at + n));
    r->at += n;
}

// At \p or \P. PCRE2 would also count what scripts share.
static void put_property(struct reader *r)
{
    struct str name;
    size_t end = regex_property(r->s, r->at, &name);
    bool negated = peek(r, 2) == '{' && peek(r, 3) == '^';
    bool is_script = name.n > 2 && !str_eq(name, STR("Any"));
    out_printf(r->out, "\\%c{%s%s", r->s.p[r->at + 1], negated ? "^" : "", is_script ? "sc:" : "");
    out_str(r->out, name);
    out_char(r->out, '}');
    r->at = end;
}

// At \d, \s, \w, \p or one of their opposites. In Go \s does not match a vertical tab.
static bool put_set(struct reader *r, bool in_class)
{
    int kind = peek(r, 0) == '\\' ? peek(r, 1) : -1;
    if (kind < 0 || !strchr("dDsSwWpP", kind))
        return false;
    if (kind == 'p' || kind == 'P') {
        put_property(r);
        return true;
    }
    if (kind == 's')
        out_text(r->out, in_class ? "\\t\\n\\f\\r " : "[\\t\\n\\f\\r ]");
    else if (kind == 'S')
        out_text(r->out,
                 in_class ? "\\x{0}-\\x{8}\\x{b}\\x{e}-\\x{1f}!-\\x{10ffff}" : "[^\\t\\n\\f\\r ]");
    else
        out_printf(r->out, "\\%c", kind);
    r->at += 2;
    return true;
}

// At an opening bracket. Members are spelled by number: nothing among them is special.
static void put_class(struct reader *r)
{
    copy(r, peek(r, 1) == '^' ? 2 : 1);
    for (bool first = true; peek(r, 0) >= 0 && (first || peek(r, 0) != ']'); first = false) {
        size_t end = regex_class_name(r->s, r->at);
        if (end != SIZE_MAX) {
            copy(r, end - r->at);
            continue;
        }
        if (put_set(r, true))
            continue;
        uint32_t c;
        regex_class_char(r->s, &r->at, &c);
        out_printf(r->out, "\\x{%x}", c);
        if (peek(r, 0) == '-' && peek(r, 1) >= 0 && peek(r, 1) != ']') {
            r->at++;
            regex_class_char(r->s, &r->at, &c);
            out_printf(r->out, "-\\x{%x}", c);
        }
    }
    copy(r, peek(r, 0) >= 0 ? 1 : 0);
}

// At \Q: what follows is literal, up to \E.
static void put_quoted(struct reader *r)
{
    r->at += 2;
    size_t end = str_find(r->s, STR("\\E"), r->at), stop = end == SIZE_MAX ? r->s.n : end;
    for (; r->at < stop; r->at++) {
        unsigned char c = (unsigned char)r->s.p[r->at];
        bool is_special = c < 0x80 && c != '_' && !(c >= '0' && c <= '9') &&
                          !((c | 32) >= 'a' && (c | 32) <= 'z');
        out_text(r->out, is_special ? "\\" : "");
        out_char(r->out, (char)c);
    }
    r->at = end == SIZE_MAX ? stop : stop + 2;
}

// At "(?". Groups have no names here: Go allows some that PCRE2 does not.
static void put_group(struct reader *r)
{
    bool named = (peek(r, 2) == 'P' && peek(r, 3) == '<') || peek(r, 2) == '<';
    size_t end = named ? str_find(r->s, STR(">"), r->at) : SIZE_MAX;
    if (end == SIZE_MAX) {
        copy(r, 2);
        return;
    }
    out_text(r->out, "(?:");
    r->at = end + 1;
}

// Whether flags alone, "(?i)", stand here; *end is behind them.
static bool is_flags(const struct reader *r, size_t *end)
{
    size_t i = 2;
    if (peek(r, 0) != '(' || peek(r, 1) != '?')
        return false;
    while (peek(r, i) >= 0 && strchr("imsU-", peek(r, i)))
        i++;
    *end = r->at + i + 1;
    return peek(r, i) == ')';
}

static bool is_counted(const struct reader *r)
{
    size_t i = 1;
    while (peek(r, i) >= '0' && peek(r, i) <= '9')
        i++;
    if (i == 1)
        return false;
    if (peek(r, i) == ',')
        for (i++; peek(r, i) >= '0' && peek(r, i) <= '9';)
            i++;
    return peek(r, i) == '}';
}

// ^ $ \A \z \b \B may be repeated in Go: they are put into a group.
static size_t assertion_length(const struct reader *r)
{
    int c = peek(r, 0), next = peek(r, 1);
    if (c == '^' || c == '$')
        return 1;
    return c == '\\' && next >= 0 && strchr("AzbB", next) ? 2 : 0;
}

// At flags. A repetition behind them is of what stands before them, and must follow it here.
static void put_flags(struct reader *r)
{
    size_t from = r->at, end;
    while (is_flags(r, &end))
        r->at = end;
    struct str flags = str_from_to(r->s, from, r->at);
    int c = peek(r, 0);
    if (c == '{' && is_counted(r))
        copy(r, str_find(r->s, STR("}"), r->at) + 1 - r->at);
    else if (c == '*' || c == '+' || c == '?')
        copy(r, 1);
    if (r->at > from + flags.n && peek(r, 0) == '?')
        copy(r, 1);
    out_str(r->out, flags);
}

void regex_translate(struct str pattern, struct out *out)
{
    struct reader r = {pattern, 0, out};
    while (r.at < pattern.n) {
        int c = peek(&r, 0);
        size_t ignored;
        size_t assertion = assertion_length(&r);
        if (assertion) {
            out_text(out, "(?:");
            copy(&r, assertion);
            out_char(out, ')');
        } else if (c == '\\' && peek(&r, 1) == 'Q') {
            put_quoted(&r);
        } else if (c == '\\' && !put_set(&r, false)) {
            uint32_t value;
            regex_escape(pattern, &r.at, &value);
            out_printf(out, "\\x{%x}", value);
        } else if (c == '\\') {
            continue;
        } else if (c == '[') {
            put_class(&r);
        } else if (is_flags(&r, &ignored)) {
            put_flags(&r);
        } else if (c == '(' && peek(&r, 1) == '?') {
            put_group(&r);
        } else if (c == '{' && !is_counted(&r)) {
            out_char(out, '\\');
            copy(&r, 1);
        } else {
            copy(&r, 1);
        }
    }
}
