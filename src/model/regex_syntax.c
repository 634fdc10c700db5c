#include "model/regex_syntax.h"

#include "model/regex_escape.h"

enum { MOST_REPEATS = 1000, DEEPEST = 1000 };

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

static const char *wrong(struct scan *c, const char *what, size_t from, size_t to)
{
    c->where = str_from_to(c->s, from, to < c->s.n ? to : c->s.n);
    return what;
}

// At \d, \p{Greek} and the like, which stand for several characters; false if it is none.
static bool skip_set(struct scan *c, const char **error)
{
    int ch = peek(c, 0) == '\\' ? peek(c, 1) : -1;
    struct str name;
    size_t from = c->at;
    *error = NULL;
    if (ch == 'p' || ch == 'P') {
        size_t end = regex_property(c->s, from, &name);
        c->at = end == SIZE_MAX ? c->s.n : end;
        if (end == SIZE_MAX || name.n == 0) // which names there are PCRE2 knows
            *error = wrong(c, "invalid character class range", from, c->at);
        return true;
    }
    if (ch < 0 || !strchr("dDsSwW", ch))
        return false;
    c->at += 2;
    return true;
}

// At a backslash outside of classes. Leaves the position behind what it escapes.
static const char *skip_escape(struct scan *c)
{
    size_t from = c->at;
    int ch = peek(c, 1);
    const char *error;
    uint32_t value;
    if (ch < 0)
        return wrong(c, "trailing backslash at end of expression", c->s.n, c->s.n);
    if (ch == 'Q') {
        size_t end = str_find(c->s, STR("\\E"), c->at + 2);
        c->at = end == SIZE_MAX ? c->s.n : end + 2;
        return NULL;
    }
    if (strchr("AbBz", ch)) {
        c->at += 2;
        return NULL;
    }
    if (skip_set(c, &error))
        return error;
    if (regex_escape(c->s, &c->at, &value))
        return NULL;
    return wrong(c, "invalid escape sequence", from, c->at);
}

static bool is_class_name(struct str name)
{
    static const char *const names[] = {"alnum", "alpha", "ascii", "blank", "cntrl",
                                        "digit", "graph", "lower", "print", "punct",
                                        "space", "upper", "word",  "xdigit"};
    name = str_from_to(name, 2, name.n - 2);
    if (name.n && name.p[0] == '^')
        name = str_from_to(name, 1, name.n);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (str_eq(name, str_from(names[i])))
            return true;
    return false;
}

// One character of a class that begins at class.
static const char *skip_member(struct scan *c, size_t class, uint32_t *value)
{
    size_t from = c->at;
    if (peek(c, 0) < 0)
        return wrong(c, "missing closing ]", class, c->s.n);
    if (peek(c, 0) == '\\' && peek(c, 1) < 0)
        return wrong(c, "trailing backslash at end of expression", c->s.n, c->s.n);
    return regex_class_char(c->s, &c->at, value) ? NULL
                                                 : wrong(c, "invalid escape sequence", from, c->at);
}

// At an opening bracket.
static const char *skip_class(struct scan *c)
{
    size_t class = c->at++;
    if (peek(c, 0) == '^')
        c->at++;
    for (bool first = true; first || peek(c, 0) != ']'; first = false) {
        size_t from = c->at, end = regex_class_name(c->s, from);
        const char *error = NULL;
        uint32_t low, high;
        if (end != SIZE_MAX) {
            c->at = end;
            if (!is_class_name(str_from_to(c->s, from, end)))
                return wrong(c, "invalid character class range", from, end);
        } else if (!skip_set(c, &error)) {
            error = skip_member(c, class, &low);
            if (!error && peek(c, 0) == '-' && peek(c, 1) >= 0 && peek(c, 1) != ']') {
                c->at++;
                error = skip_member(c, class, &high);
                if (!error && high < low)
                    error = wrong(c, "invalid character class range", from, c->at);
            }
        }
        if (error)
            return error;
    }
    c->at++;
    return NULL;
}

static bool is_group_name(struct str name)
{
    for (size_t i = 0; i < name.n; i++) {
        char ch = name.p[i];
        if (ch != '_' && !is_digit(ch) && !((ch | 32) >= 'a' && (ch | 32) <= 'z'))
            return false;
    }
    return name.n > 0;
}

// At "(?". Flags alone, "(?i)", open no group.
static const char *skip_group_start(struct scan *c, bool *opens)
{
    size_t from = c->at;
    c->at += 2;
    *opens = true;
    size_t left = c->s.n - from;
    bool named = left > 4 && peek(c, 0) == 'P' && peek(c, 1) == '<';
    if (named || (left > 3 && peek(c, 0) == '<')) {
        size_t end = str_find(c->s, STR(">"), c->at);
        size_t name = c->at + (named ? 2 : 1);
        if (end == SIZE_MAX || end < name || !is_group_name(str_from_to(c->s, name, end)))
            return wrong(c, "invalid named capture", from, end == SIZE_MAX ? c->s.n : end + 1);
        c->at = end + 1;
        return NULL;
    }
    bool negated = false, any = true;
    for (;; c->at++) {
        int ch = peek(c, 0);
        if (ch < 0)
            return wrong(c, "invalid or unsupported Perl syntax", from, c->s.n);
        if ((ch == ':' || ch == ')') && any) {
            *opens = ch == ':';
            c->at++;
            return NULL;
        }
        bool is_flag = strchr("imsU", ch) != NULL;
        if (!is_flag && (ch != '-' || negated)) {
            regex_next_char(c->s, &c->at);
            return wrong(c, "invalid or unsupported Perl syntax", from, c->at);
        }
        any = is_flag || (any && ch != '-');
        negated |= ch == '-';
    }
}

struct repeat {
    size_t length; // 0: a brace that is nothing but a brace
    int64_t least, most;
};

// {n}, {n,} or {n,m}.
static struct repeat read_repeat(const struct scan *c)
{
    struct repeat r = {1, 0, 0};
    for (; is_digit(peek(c, r.length)); r.length++)
        r.least = r.least > MOST_REPEATS ? r.least : r.least * 10 + (peek(c, r.length) - '0');
    if (r.length == 1)
        return (struct repeat){0};
    r.most = r.least;
    if (peek(c, r.length) == ',') {
        size_t from = ++r.length;
        for (; is_digit(peek(c, r.length)); r.length++) {
            r.most = r.length == from ? 0 : r.most;
            r.most = r.most > MOST_REPEATS ? r.most : r.most * 10 + (peek(c, r.length) - '0');
        }
    }
    if (peek(c, r.length) != '}')
        return (struct repeat){0};
    r.length++;
    return r;
}

// Groups that are open: how often the innermost thing in each is repeated by counts in counts.
struct nesting {
    size_t depth;
    uint32_t most[DEEPEST + 1];
    uint32_t last; // of what a repetition would apply to
};

static void end_item(struct nesting *n, uint32_t times)
{
    n->last = times;
    if (times > n->most[n->depth])
        n->most[n->depth] = times;
}

// At an operator of length bytes at from; a count in *r if it is one.
static const char *check_repeat(struct scan *c, struct nesting *n, const struct repeat *r,
                                size_t from, size_t last_repeat, bool repeatable)
{
    size_t end = c->at;
    if (peek(c, 0) == '?')
        c->at++;
    if (r && (r->least > MOST_REPEATS || r->most > MOST_REPEATS || r->least > r->most))
        return wrong(c, "invalid repeat count", from, end);
    if (last_repeat != SIZE_MAX)
        return wrong(c, "invalid nested repetition operator", last_repeat, c->at);
    if (!repeatable)
        return wrong(c, "missing argument to repetition operator", from, c->at);
    if (r && r->most == 0) {
        n->last = 1;
    } else if (r && (uint64_t)n->last * (uint64_t)r->most > MOST_REPEATS && r->most >= 2) {
        return wrong(c, "invalid repeat count", from, c->at);
    } else if (r) {
        end_item(n, n->last * (uint32_t)r->most);
    }
    return NULL;
}

static const char *skip_item(struct scan *c, struct nesting *n, bool *repeatable)
{
    int ch = peek(c, 0);
    const char *error = NULL;
    bool opens = ch == '(', was_repeatable = *repeatable;
    *repeatable = ch != '(' && ch != '|';
    if (ch == '(' && peek(c, 1) == '?') {
        error = skip_group_start(c, &opens);
        // Flags are no item: a repetition behind them is of what stands before them.
        *repeatable = !opens && was_repeatable;
        if (!opens)
            return error;
    } else if (ch == '\\') {
        error = skip_escape(c);
    } else if (ch == '[') {
        error = skip_class(c);
    } else {
        c->at++;
    }
    if (error)
        return error;
    if (ch == ')') {
        if (n->depth == 0)
            return wrong(c, "unexpected )", 0, c->s.n);
        uint32_t inner = n->most[n->depth--];
        end_item(n, inner);
    } else if (opens) {
        if (n->depth == DEEPEST)
            return wrong(c, "expression nests too deeply", 0, c->s.n);
        n->most[++n->depth] = 1;
    } else {
        end_item(n, 1);
    }
    return NULL;
}

const char *regex_syntax_error(struct str pattern, struct str *where)
{
    struct scan c = {.s = pattern};
    struct nesting n = {.most = {1}, .last = 1};
    const char *error = NULL;
    size_t last_repeat = SIZE_MAX; // where the operator before this place stood
    bool repeatable = false;
    if (!regex_is_utf8(pattern))
        error = wrong(&c, "invalid UTF-8", 0, pattern.n);
    while (!error && c.at < pattern.n) {
        size_t from = c.at;
        int ch = peek(&c, 0);
        struct repeat r = {0};
        if (ch == '{')
            r = read_repeat(&c);
        if (ch == '*' || ch == '+' || ch == '?' || r.length) {
            c.at += r.length ? r.length : 1;
            error = check_repeat(&c, &n, r.length ? &r : NULL, from, last_repeat, repeatable);
            last_repeat = from;
            repeatable = false;
        } else {
            last_repeat = SIZE_MAX;
            error = skip_item(&c, &n, &repeatable);
        }
    }
    if (!error && n.depth)
        error = wrong(&c, "missing closing )", 0, pattern.n);
    *where = c.where;
    return error;
}
