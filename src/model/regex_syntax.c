#include "model/regex_syntax.h"

enum { MOST_REPEATS = 1000 };

struct scan {
    struct str s;
    size_t at;
    struct str where;
};

static int peek(const struct scan *c, size_t ahead)
{
    return c->at + ahead < c->s.n ? (unsigned char)c->s.p[c->at + ahead] : -1;
}

static bool is_digit(int ch)
{
    return ch >= '0' && ch <= '9';
}

static bool is_letter(int ch)
{
    return (ch | 32) >= 'a' && (ch | 32) <= 'z';
}

static const char *wrong(struct scan *c, const char *what, size_t from, size_t to)
{
    c->where = str_from_to(c->s, from, to < c->s.n ? to : c->s.n);
    return what;
}

// At a backslash. Leaves the position behind what it escapes.
static const char *skip_escape(struct scan *c)
{
    size_t from = c->at;
    int ch = peek(c, 1);
    if (ch < 0)
        return wrong(c, "trailing backslash at end of expression", c->s.n, c->s.n);
    c->at += 2;
    if (ch == 'Q') {
        size_t end = str_find(c->s, STR("\\E"), c->at);
        c->at = end == SIZE_MAX ? c->s.n : end + 2;
        return NULL;
    }
    bool octal = ch >= '1' && ch <= '7' && peek(c, 0) >= '0' && peek(c, 0) <= '7';
    bool known = is_letter(ch) ? strchr("AbBdDsSwWpPzafnrtvx", ch) != NULL
                               : ch == '0' || octal || (!is_digit(ch) && ch < 0x80);
    return known ? NULL : wrong(c, "invalid escape sequence", from, c->at);
}

// At an opening bracket.
static const char *skip_class(struct scan *c)
{
    size_t from = c->at++;
    if (peek(c, 0) == '^')
        c->at++;
    for (bool first = true; first || peek(c, 0) != ']'; first = false) {
        if (peek(c, 0) < 0)
            return wrong(c, "missing closing ]", from, c->s.n);
        if (peek(c, 0) == '[' && peek(c, 1) == ':') {
            size_t end = str_find(c->s, STR(":]"), c->at + 2);
            c->at = end == SIZE_MAX ? c->at + 1 : end + 2;
        } else if (peek(c, 0) == '\\') {
            const char *error = skip_escape(c);
            if (error)
                return error;
        } else {
            c->at++;
        }
    }
    c->at++;
    return NULL;
}

// At "(?". Flags alone, "(?i)", open no group.
static const char *skip_group_start(struct scan *c, bool *opens)
{
    size_t from = c->at;
    c->at += 2;
    *opens = true;
    bool named = peek(c, 0) == 'P' && peek(c, 1) == '<';
    if (named || (peek(c, 0) == '<' && peek(c, 1) != '=' && peek(c, 1) != '!')) {
        size_t end = str_find(c->s, STR(">"), c->at);
        size_t name = c->at + (named ? 2 : 1);
        if (end == SIZE_MAX || end == name)
            return wrong(c, "invalid named capture", from, end == SIZE_MAX ? c->s.n : end + 1);
        c->at = end + 1;
        return NULL;
    }
    for (;; c->at++) {
        int ch = peek(c, 0);
        if (ch < 0)
            return wrong(c, "invalid or unsupported Perl syntax", from, c->s.n);
        if (ch == ':' || ch == ')') {
            *opens = ch == ':';
            c->at++;
            return NULL;
        }
        if (!strchr("imsU-", ch))
            return wrong(c, "invalid or unsupported Perl syntax", from, c->at + 1);
    }
}

// {n}, {n,} or {n,m}: its length, 0 if the brace is nothing but a brace.
static size_t repeat_length(const struct scan *c, bool *too_many)
{
    size_t i = 1;
    int64_t least = 0, most = 0;
    for (; is_digit(peek(c, i)); i++)
        least = least > MOST_REPEATS ? least : least * 10 + (peek(c, i) - '0');
    if (i == 1)
        return 0;
    most = least;
    if (peek(c, i) == ',') {
        size_t from = ++i;
        for (most = 0; is_digit(peek(c, i)); i++)
            most = most > MOST_REPEATS ? most : most * 10 + (peek(c, i) - '0');
        if (i == from)
            most = least;
    }
    if (peek(c, i) != '}')
        return 0;
    *too_many = least > MOST_REPEATS || most > MOST_REPEATS || least > most;
    return i + 1;
}

const char *regex_syntax_error(struct str pattern, struct str *where)
{
    struct scan c = {.s = pattern};
    const char *error = NULL;
    size_t depth = 0, last_repeat = SIZE_MAX; // where the operator before this place stood
    bool repeatable = false;
    while (!error && c.at < pattern.n) {
        size_t from = c.at, length = 0;
        bool too_many = false;
        int ch = peek(&c, 0);
        if (ch == '*' || ch == '+' || ch == '?')
            length = 1;
        else if (ch == '{')
            length = repeat_length(&c, &too_many);
        if (length) {
            c.at += length;
            if (peek(&c, 0) == '?')
                c.at++;
            if (too_many)
                error = wrong(&c, "invalid repeat count", from, from + length);
            else if (last_repeat != SIZE_MAX)
                error = wrong(&c, "invalid nested repetition operator", last_repeat, c.at);
            else if (!repeatable)
                error = wrong(&c, "missing argument to repetition operator", from, c.at);
            last_repeat = from;
            continue;
        }
        last_repeat = SIZE_MAX;
        repeatable = ch != '(' && ch != '|';
        if (ch == '\\') {
            error = skip_escape(&c);
        } else if (ch == '[') {
            error = skip_class(&c);
        } else if (ch == '(' && peek(&c, 1) == '?') {
            bool opens;
            error = skip_group_start(&c, &opens);
            depth += opens;
        } else {
            depth += ch == '(';
            if (ch == ')' && depth-- == 0)
                error = wrong(&c, "unexpected )", 0, pattern.n);
            c.at++;
        }
    }
    if (!error && depth)
        error = wrong(&c, "missing closing )", 0, pattern.n);
    *where = c.where;
    return error;
}
