#include "model/regex_syntax.h"

#include "model/regex_escape.h"

enum { MOST_REPEATS = 1000, DEEPEST = 1000 };

struct scan {
    struct str s;
    size_t at;
    struct str where;
};

static int regex_peek(const struct scan *c, size_t ahead)
{
    return c->at + ahead < c->s.n ? (unsigned char)c->s.p[c->at + ahead] : -1;
}

static bool is_regex_digit(int ch)
{
    return ch >= '0' && ch <= '9';
}

static const char *regex_error(struct scan *c, const char *what, size_t from, size_t to)
{
    c->where = str_from_to(c->s, from, to < c->s.n ? to : c->s.n);
    return what;
}

// Skips \d, \p{Greek} and similar sets. Returns false if there is none.
static bool skip_set(struct scan *c, const char **error)
{
    int ch = regex_peek(c, 0) == '\\' ? regex_peek(c, 1) : -1;
    struct str name;
    size_t from = c->at;
    *error = NULL;
    if (ch == 'p' || ch == 'P') {
        size_t end = regex_property(c->s, from, &name);
        c->at = end == SIZE_MAX ? c->s.n : end;
        if (end == SIZE_MAX || name.n == 0) // PCRE2 checks the name
            *error = regex_error(c, "invalid character class range", from, c->at);
        return true;
    }
    if (ch < 0 || !strchr("dDsSwW", ch))
        return false;
    c->at += 2;
    return true;
}

// Skips an escape outside of classes. Expects the position at the backslash.
static const char *skip_escape(struct scan *c)
{
    size_t from = c->at;
    int ch = regex_peek(c, 1);
    const char *error;
    uint32_t value;
    if (ch < 0)
        return regex_error(c, "trailing backslash at end of expression", c->s.n, c->s.n);
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
    return regex_error(c, "invalid escape sequence", from, c->at);
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

// Skips one character of the class that begins at class.
static const char *skip_member(struct scan *c, size_t class, uint32_t *value)
{
    size_t from = c->at;
    if (regex_peek(c, 0) < 0)
        return regex_error(c, "missing closing ]", class, c->s.n);
    if (regex_peek(c, 0) == '\\' && regex_peek(c, 1) < 0)
        return regex_error(c, "trailing backslash at end of expression", c->s.n, c->s.n);
    return regex_class_char(c->s, &c->at, value)
               ? NULL
               : regex_error(c, "invalid escape sequence", from, c->at);
}

// Skips a class. Expects the position at the opening bracket.
static const char *skip_class(struct scan *c)
{
    size_t class = c->at++;
    if (regex_peek(c, 0) == '^')
        c->at++;
    for (bool first = true; first || regex_peek(c, 0) != ']'; first = false) {
        size_t from = c->at, end = regex_class_name(c->s, from);
        const char *error = NULL;
        uint32_t low, high;
        if (end != SIZE_MAX) {
            c->at = end;
            if (!is_class_name(str_from_to(c->s, from, end)))
                return regex_error(c, "invalid character class range", from, end);
        } else if (!skip_set(c, &error)) {
            error = skip_member(c, class, &low);
            if (!error && regex_peek(c, 0) == '-' && regex_peek(c, 1) >= 0 &&
                regex_peek(c, 1) != ']') {
                c->at++;
                error = skip_member(c, class, &high);
                if (!error && high < low)
                    error = regex_error(c, "invalid character class range", from, c->at);
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
        if (ch != '_' && !is_regex_digit(ch) && !((ch | 32) >= 'a' && (ch | 32) <= 'z'))
            return false;
    }
    return name.n > 0;
}

// Skips "(?" and what belongs to it. Flags alone, "(?i)", do not open a group.
static const char *skip_group_start(struct scan *c, bool *opens)
{
    size_t from = c->at;
    c->at += 2;
    *opens = true;
    size_t left = c->s.n - from;
    bool named = left > 4 && regex_peek(c, 0) == 'P' && regex_peek(c, 1) == '<';
    if (named || (left > 3 && regex_peek(c, 0) == '<')) {
        size_t end = str_find(c->s, STR(">"), c->at);
        size_t name = c->at + (named ? 2 : 1);
        if (end == SIZE_MAX || end < name || !is_group_name(str_from_to(c->s, name, end)))
            return regex_error(c, "invalid named capture", from,
                               end == SIZE_MAX ? c->s.n : end + 1);
        c->at = end + 1;
        return NULL;
    }
    bool negated = false, any = true;
    for (;; c->at++) {
        int ch = regex_peek(c, 0);
        if (ch < 0)
            return regex_error(c, "invalid or unsupported Perl syntax", from, c->s.n);
        if ((ch == ':' || ch == ')') && any) {
            *opens = ch == ':';
            c->at++;
            return NULL;
        }
        bool is_flag = strchr("imsU", ch) != NULL;
        if (!is_flag && (ch != '-' || negated)) {
            regex_next_char(c->s, &c->at);
            return regex_error(c, "invalid or unsupported Perl syntax", from, c->at);
        }
        any = is_flag || (any && ch != '-');
        negated |= ch == '-';
    }
}

struct repeat {
    size_t length; // 0: the brace is literal
    int64_t least, most;
};

// Parses {n}, {n,} or {n,m}.
static struct repeat read_repeat(const struct scan *c)
{
    struct repeat r = {1, 0, 0};
    for (; is_regex_digit(regex_peek(c, r.length)); r.length++)
        r.least = r.least > MOST_REPEATS ? r.least : r.least * 10 + (regex_peek(c, r.length) - '0');
    if (r.length == 1)
        return (struct repeat){0};
    r.most = r.least;
    if (regex_peek(c, r.length) == ',') {
        size_t from = ++r.length;
        for (; is_regex_digit(regex_peek(c, r.length)); r.length++) {
            r.most = r.length == from ? 0 : r.most;
            r.most = r.most > MOST_REPEATS ? r.most : r.most * 10 + (regex_peek(c, r.length) - '0');
        }
    }
    if (regex_peek(c, r.length) != '}')
        return (struct repeat){0};
    r.length++;
    return r;
}

// The open groups, and for each one how often its innermost item is repeated by counts.
struct nesting {
    size_t depth;
    uint32_t most[DEEPEST + 1];
    uint32_t last; // repetition of the item that an operator would apply to
};

static void count_item_repeats(struct nesting *n, uint32_t times)
{
    n->last = times;
    if (times > n->most[n->depth])
        n->most[n->depth] = times;
}

// Checks the repetition operator at from. *r is its count, if it has one.
static const char *check_repeat(struct scan *c, struct nesting *n, const struct repeat *r,
                                size_t from, size_t last_repeat, bool repeatable)
{
    size_t end = c->at;
    if (regex_peek(c, 0) == '?')
        c->at++;
    if (r && (r->least > MOST_REPEATS || r->most > MOST_REPEATS || r->least > r->most))
        return regex_error(c, "invalid repeat count", from, end);
    if (last_repeat != SIZE_MAX)
        return regex_error(c, "invalid nested repetition operator", last_repeat, c->at);
    if (!repeatable)
        return regex_error(c, "missing argument to repetition operator", from, c->at);
    if (r && r->most == 0) {
        n->last = 1;
    } else if (r && (uint64_t)n->last * (uint64_t)r->most > MOST_REPEATS && r->most >= 2) {
        return regex_error(c, "invalid repeat count", from, c->at);
    } else if (r) {
        count_item_repeats(n, n->last * (uint32_t)r->most);
    }
    return NULL;
}

static const char *skip_item(struct scan *c, struct nesting *n, bool *repeatable)
{
    int ch = regex_peek(c, 0);
    const char *error = NULL;
    bool opens = ch == '(', was_repeatable = *repeatable;
    *repeatable = ch != '(' && ch != '|';
    if (ch == '(' && regex_peek(c, 1) == '?') {
        error = skip_group_start(c, &opens);
        // Flags are not an item: an operator after them applies to the item before them.
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
            return regex_error(c, "unexpected )", 0, c->s.n);
        uint32_t inner = n->most[n->depth--];
        count_item_repeats(n, inner);
    } else if (opens) {
        if (n->depth == DEEPEST)
            return regex_error(c, "expression nests too deeply", 0, c->s.n);
        n->most[++n->depth] = 1;
    } else {
        count_item_repeats(n, 1);
    }
    return NULL;
}

const char *regex_syntax_error(struct str pattern, struct str *where)
{
    struct scan c = {.s = pattern};
    struct nesting n = {.most = {1}, .last = 1};
    const char *error = NULL;
    size_t last_repeat = SIZE_MAX; // position of the preceding operator
    bool repeatable = false;
    if (!regex_is_utf8(pattern))
        error = regex_error(&c, "invalid UTF-8", 0, pattern.n);
    while (!error && c.at < pattern.n) {
        size_t from = c.at;
        int ch = regex_peek(&c, 0);
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
        error = regex_error(&c, "missing closing )", 0, pattern.n);
    *where = c.where;
    return error;
}
