#include <stdio.h>
#include <strings.h>

#include "base/out.h"
#include "query/query.h"

struct parser {
    struct str text;
    size_t at;
    struct arena *arena;
    struct err *e;
};

// Also skips comments, from # to the end of the line.
static void skip_selector_space(struct parser *p)
{
    bool comment = false;
    for (; p->at < p->text.n; p->at++) {
        char c = p->text.p[p->at];
        comment = comment ? c != '\n' : c == '#';
        if (!comment && !(c && strchr(" \t\r\n", c)))
            return;
    }
}

static bool next_is(struct parser *p, const char *token)
{
    size_t n = strlen(token);
    if (p->text.n - p->at < n || memcmp(p->text.p + p->at, token, n) != 0)
        return false;
    p->at += n;
    return true;
}

static int selector_error(struct parser *p, const char *expected)
{
    char found[32] = "the end";
    if (p->at < p->text.n)
        snprintf(found, sizeof found, "'%c'", p->text.p[p->at]);
    err_set(p->e, "selector %.*s: expected %s at byte %zu, found %s",
            (int)(p->text.n < 200 ? p->text.n : 200), p->text.p, expected, p->at + 1, found);
    return STORE_BAD_INPUT;
}

// Reads an unquoted name of letters, digits, _ and the character `also`; empty if there is none.
static struct str plain_name(struct parser *p, char also)
{
    size_t start = p->at;
    for (; p->at < p->text.n; p->at++) {
        char c = p->text.p[p->at];
        if (c != '_' && c != also && !((c | 32) >= 'a' && (c | 32) <= 'z') &&
            !(p->at > start && c >= '0' && c <= '9'))
            break;
    }
    size_t n = p->at - start;
    return (struct str){n ? arena_copy(p->arena, p->text.p + start, n) : NULL, n};
}

static void put_char(struct out *out, uint32_t c)
{
    if (c < 0x80) {
        out_char(out, (char)c);
    } else if (c < 0x800) {
        out_char(out, (char)(0xc0 | (c >> 6)));
        out_char(out, (char)(0x80 | (c & 63)));
    } else if (c < 0x10000) {
        out_char(out, (char)(0xe0 | (c >> 12)));
        out_char(out, (char)(0x80 | ((c >> 6) & 63)));
        out_char(out, (char)(0x80 | (c & 63)));
    } else {
        out_char(out, (char)(0xf0 | (c >> 18)));
        out_char(out, (char)(0x80 | ((c >> 12) & 63)));
        out_char(out, (char)(0x80 | ((c >> 6) & 63)));
        out_char(out, (char)(0x80 | (c & 63)));
    }
}

// Reads n digits at p->at in base 8 or 16.
static bool parse_escape_digits(struct parser *p, size_t n, int base, uint32_t *value)
{
    uint64_t v = 0;
    if (p->text.n - p->at < n)
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = p->text.p[p->at + i];
        int digit = c >= '0' && c <= '9'                 ? c - '0'
                    : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                         : 99;
        if (digit >= base)
            return false;
        v = v * (uint64_t)base + (uint64_t)digit;
    }
    p->at += n;
    *value = (uint32_t)v;
    return true;
}

// Decodes the escape sequence after a backslash.
static bool parse_escape(struct parser *p, char quote, struct out *out)
{
    static const char from[] = "abfnrtv\\", to[] = "\a\b\f\n\r\t\v\\";
    if (p->at == p->text.n)
        return false;
    char c = p->text.p[p->at++];
    const char *found = c ? strchr(from, c) : NULL;
    uint32_t value;
    if (found) {
        out_char(out, to[found - from]);
    } else if (c == quote) {
        out_char(out, c);
    } else if (c == 'x') {
        if (!parse_escape_digits(p, 2, 16, &value))
            return false;
        out_char(out, (char)value);
    } else if (c == 'u' || c == 'U') {
        if (!parse_escape_digits(p, c == 'u' ? 4 : 8, 16, &value) || value > 0x10ffff ||
            (value >= 0xd800 && value < 0xe000))
            return false;
        put_char(out, value);
    } else if (c >= '0' && c <= '7') {
        p->at--;
        if (!parse_escape_digits(p, 3, 8, &value) || value > 255)
            return false;
        out_char(out, (char)value);
    } else {
        return false;
    }
    return true;
}

static int parse_quoted(struct parser *p, struct str *value)
{
    char quote = p->at < p->text.n ? p->text.p[p->at] : 0;
    if (quote != '"' && quote != '\'' && quote != '`')
        return selector_error(p, "a quoted value");
    struct out out;
    out_init_arena(&out, p->arena);
    for (p->at++; p->at < p->text.n && p->text.p[p->at] != quote;) {
        char c = p->text.p[p->at++];
        size_t after = p->at;
        if (c == '\n' && quote != '`') {
            p->at--;
            return selector_error(p, "the quote that ends the value, on the same line");
        }
        if (c != '\\' || quote == '`')
            out_char(&out, c);
        else if (!parse_escape(p, quote, &out)) {
            p->at = after;
            return selector_error(p, "an escape such as \\n, \\\" or \\x41");
        }
    }
    if (p->at == p->text.n)
        return selector_error(p, "the quote that ends the value");
    p->at++;
    *value = out_result(&out);
    return 0;
}

static struct store_matcher name_matcher(struct str name)
{
    return (struct store_matcher){.name = STR("__name__"), .op = STORE_EQ, .value = name};
}

// A quoted name without an operator is the profile's name.
static int parse_matcher(struct parser *p, struct store_matcher *m)
{
    m->name = plain_name(p, '_');
    bool is_quoted = !m->name.n && p->at < p->text.n && strchr("\"'`", p->text.p[p->at]);
    if (is_quoted) {
        int code = parse_quoted(p, &m->name);
        if (code)
            return code;
    } else if (!m->name.n) {
        return selector_error(p, "a label's name");
    }
    skip_selector_space(p);
    if (is_quoted && p->at < p->text.n && strchr(",}", p->text.p[p->at])) {
        *m = name_matcher(m->name);
        return 0;
    }
    if (next_is(p, "=~"))
        m->op = STORE_RE;
    else if (next_is(p, "!~"))
        m->op = STORE_NRE;
    else if (next_is(p, "!="))
        m->op = STORE_NE;
    else if (next_is(p, "="))
        m->op = STORE_EQ;
    else
        return selector_error(p, "=, !=, =~ or !~");
    skip_selector_space(p);
    int code = parse_quoted(p, &m->value);
    if (code || m->op == STORE_EQ || m->op == STORE_NE)
        return code;
    char *name =
        arena_printf(p->arena, "label %.*s", (int)(m->name.n < 100 ? m->name.n : 100), m->name.p);
    // Compile it unanchored first, so that an error quotes the user's text.
    if (!model_regex_new(p->arena, name, m->value, p->e))
        return STORE_BAD_INPUT;
    char *anchored = arena_printf(p->arena, "\\A(?s:%.*s)\\z", (int)m->value.n, m->value.p);
    m->regex = model_regex_new(p->arena, name, str_from(anchored), p->e);
    return m->regex ? 0 : STORE_BAD_INPUT;
}

// Words that PromQL reserves.
static bool is_reserved(struct str name)
{
    static const char *const words[] = {"atan2",    "bool", "group_left", "group_right",
                                        "ignoring", "inf",  "nan",        "on"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == name.n && strncasecmp(words[i], name.p, name.n) == 0)
            return true;
    return false;
}

static struct store_matcher *add_matcher(struct parser *p, struct query_selector *s, size_t *cap)
{
    s->matchers = arena_push(p->arena, s->matchers, s->n, cap, sizeof *s->matchers);
    return &s->matchers[s->n];
}

static int parse_selector(struct parser *p, struct query_selector *s)
{
    size_t cap = 0;
    skip_selector_space(p);
    if (p->at == p->text.n) {
        err_set(p->e, "the selector is empty; {} selects everything");
        return STORE_BAD_INPUT;
    }
    struct str name = plain_name(p, ':');
    if (is_reserved(name)) {
        p->at -= name.n;
        return selector_error(p, "a name other than PromQL's keywords, or '{',");
    }
    skip_selector_space(p);
    bool braces = next_is(p, "{");
    if (!braces && !name.n)
        return selector_error(p, "'{'");
    for (bool first = true; braces; first = false) {
        skip_selector_space(p);
        if (next_is(p, "}"))
            break;
        if (first && p->at == p->text.n)
            return selector_error(p, "a label's name or '}'");
        if (s->n == QUERY_MAX_MATCHERS) {
            err_set(p->e, "the selector has more than %d matchers", QUERY_MAX_MATCHERS);
            return STORE_BAD_INPUT;
        }
        int code = parse_matcher(p, add_matcher(p, s, &cap));
        if (code)
            return code;
        s->n++;
        skip_selector_space(p);
        if (next_is(p, "}"))
            break;
        if (!next_is(p, ","))
            return selector_error(p, "',' or '}'");
    }
    skip_selector_space(p);
    if (p->at < p->text.n)
        return selector_error(p, "the end");
    if (name.n) {
        *add_matcher(p, s, &cap) = name_matcher(name);
        s->n++;
    }
    return 0;
}

int query_selector(struct str text, struct arena *arena, struct query_selector *selector,
                   struct err *e)
{
    struct parser p = {.text = text, .arena = arena, .e = e};
    struct arena_trap trap;
    *selector = (struct query_selector){0};
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BAD_INPUT;
    }
    int code = parse_selector(&p, selector);
    arena_try_end(arena);
    return code;
}

int query_type(struct str *id, struct err *e)
{
    size_t colons = 0, end = id->n;
    for (size_t i = 0; i < id->n; i++)
        if (id->p[i] == ':' && ++colons == 5)
            end = i;
    if (colons == 4 || colons == 5) {
        id->n = end;
        return 0;
    }
    err_set(e,
            "profile type \"%.*s\" is not name:type:unit:period_type:period_unit, as in "
            "process_cpu:cpu:nanoseconds:cpu:nanoseconds",
            (int)(id->n < 200 ? id->n : 200), id->p);
    return STORE_BAD_INPUT;
}

struct str query_count_type(struct str id, struct arena *arena)
{
    size_t colons[4], n = 0;
    for (size_t i = 0; i < id.n && n < 4; i++)
        if (id.p[i] == ':')
            colons[n++] = i;
    if (n < 4)
        return STR("");
    struct str kind = str_from_to(id, colons[0] + 1, colons[2]);
    if (str_eq(kind, STR("samples:count")))
        return id;
    if (!str_ends(kind, STR(":nanoseconds")))
        return STR("");
    return str_from(arena_printf(arena, "%.*s:samples:count%.*s", (int)colons[0], id.p,
                                 (int)(id.n - colons[2]), id.p + colons[2]));
}

bool query_type_is_cpu(struct str id)
{
    size_t colon = str_find(id, STR(":"), 0);
    return colon != SIZE_MAX && str_starts(str_from_to(id, colon, id.n), STR(":cpu:nanoseconds:"));
}
