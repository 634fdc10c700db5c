#include "model/regex_translate.h"

#include "model/regex_escape.h"

struct reader {
    struct str s;
    size_t at;
    struct out *out;
};

static int translate_peek(const struct reader *r, size_t ahead)
{
    return r->at + ahead < r->s.n ? (unsigned char)r->s.p[r->at + ahead] : -1;
}

static void translate_copy(struct reader *r, size_t n)
{
    out_str(r->out, str_from_to(r->s, r->at, r->at + n));
    r->at += n;
}

// Translates \p or \P. Uses the sc: prefix because PCRE2 would otherwise include script extensions.
static void translate_property(struct reader *r)
{
    struct str name;
    size_t end = regex_property(r->s, r->at, &name);
    bool negated = translate_peek(r, 2) == '{' && translate_peek(r, 3) == '^';
    bool is_script = name.n > 2 && !str_eq(name, STR("Any"));
    out_printf(r->out, "\\%c{%s%s", r->s.p[r->at + 1], negated ? "^" : "", is_script ? "sc:" : "");
    out_str(r->out, name);
    out_char(r->out, '}');
    r->at = end;
}

// Translates \d, \s, \w, \p or their negations. In Go, \s does not match a vertical tab. Returns
// false if there is no set.
static bool translate_set(struct reader *r, bool in_class)
{
    int kind = translate_peek(r, 0) == '\\' ? translate_peek(r, 1) : -1;
    if (kind < 0 || !strchr("dDsSwWpP", kind))
        return false;
    if (kind == 'p' || kind == 'P') {
        translate_property(r);
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

// Translates a class. Writes members by number, so that none is special.
static void translate_class(struct reader *r)
{
    translate_copy(r, translate_peek(r, 1) == '^' ? 2 : 1);
    for (bool first = true; translate_peek(r, 0) >= 0 && (first || translate_peek(r, 0) != ']');
         first = false) {
        size_t end = regex_class_name(r->s, r->at);
        if (end != SIZE_MAX) {
            translate_copy(r, end - r->at);
            continue;
        }
        if (translate_set(r, true))
            continue;
        uint32_t c;
        regex_class_char(r->s, &r->at, &c);
        out_printf(r->out, "\\x{%x}", c);
        if (translate_peek(r, 0) == '-' && translate_peek(r, 1) >= 0 &&
            translate_peek(r, 1) != ']') {
            r->at++;
            regex_class_char(r->s, &r->at, &c);
            out_printf(r->out, "-\\x{%x}", c);
        }
    }
    translate_copy(r, translate_peek(r, 0) >= 0 ? 1 : 0);
}

// Translates \Q: the text up to \E is literal.
static void translate_quoted(struct reader *r)
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

// Translates "(?". Drops the names of groups, because Go allows names that PCRE2 rejects.
static void translate_group(struct reader *r)
{
    bool named =
        (translate_peek(r, 2) == 'P' && translate_peek(r, 3) == '<') || translate_peek(r, 2) == '<';
    size_t end = named ? str_find(r->s, STR(">"), r->at) : SIZE_MAX;
    if (end == SIZE_MAX) {
        translate_copy(r, 2);
        return;
    }
    out_text(r->out, "(?:");
    r->at = end + 1;
}

// Whether this is a group of flags only, "(?i)". Sets *end after it.
static bool is_flag_group(const struct reader *r, size_t *end)
{
    size_t i = 2;
    if (translate_peek(r, 0) != '(' || translate_peek(r, 1) != '?')
        return false;
    while (translate_peek(r, i) >= 0 && strchr("imsU-", translate_peek(r, i)))
        i++;
    *end = r->at + i + 1;
    return translate_peek(r, i) == ')';
}

static bool is_counted_repeat(const struct reader *r)
{
    size_t i = 1;
    while (translate_peek(r, i) >= '0' && translate_peek(r, i) <= '9')
        i++;
    if (i == 1)
        return false;
    if (translate_peek(r, i) == ',')
        for (i++; translate_peek(r, i) >= '0' && translate_peek(r, i) <= '9';)
            i++;
    return translate_peek(r, i) == '}';
}

// Returns the length of an assertion: ^ $ \A \z \b \B. Go allows repeating them, so they are put
// into a group.
static size_t assertion_length(const struct reader *r)
{
    int c = translate_peek(r, 0), next = translate_peek(r, 1);
    if (c == '^' || c == '$')
        return 1;
    return c == '\\' && next >= 0 && strchr("AzbB", next) ? 2 : 0;
}

// Translates flags. An operator after them applies to the item before them, so it is written first.
static void translate_flags(struct reader *r)
{
    size_t from = r->at, end;
    while (is_flag_group(r, &end))
        r->at = end;
    struct str flags = str_from_to(r->s, from, r->at);
    int c = translate_peek(r, 0);
    if (c == '{' && is_counted_repeat(r))
        translate_copy(r, str_find(r->s, STR("}"), r->at) + 1 - r->at);
    else if (c == '*' || c == '+' || c == '?')
        translate_copy(r, 1);
    if (r->at > from + flags.n && translate_peek(r, 0) == '?')
        translate_copy(r, 1);
    out_str(r->out, flags);
}

void regex_translate(struct str pattern, struct out *out)
{
    struct reader r = {pattern, 0, out};
    while (r.at < pattern.n) {
        int c = translate_peek(&r, 0);
        size_t ignored;
        size_t assertion = assertion_length(&r);
        if (assertion) {
            out_text(out, "(?:");
            translate_copy(&r, assertion);
            out_char(out, ')');
        } else if (c == '\\' && translate_peek(&r, 1) == 'Q') {
            translate_quoted(&r);
        } else if (c == '\\' && !translate_set(&r, false)) {
            uint32_t value;
            regex_escape(pattern, &r.at, &value);
            out_printf(out, "\\x{%x}", value);
        } else if (c == '\\') {
            continue;
        } else if (c == '[') {
            translate_class(&r);
        } else if (is_flag_group(&r, &ignored)) {
            translate_flags(&r);
        } else if (c == '(' && translate_peek(&r, 1) == '?') {
            translate_group(&r);
        } else if (c == '{' && !is_counted_repeat(&r)) {
            out_char(out, '\\');
            translate_copy(&r, 1);
        } else {
            translate_copy(&r, 1);
        }
    }
}
