#include "codec/json_read.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codec/json.h"

enum { CHECK_BYTES = 1 << 20, LONG_NUMBER = 64 };

struct json_nest {
    uint32_t end;  // end of its text; while open: the enclosing nest + 1
    uint32_t next; // index of the first nest after it; while open: its start in the text
};

struct json_document {
    const char *text;
    uint32_t n;
    struct json_nest *nests;
    uint32_t n_nests;
    size_t cap_nests;
};

// --- checking ---

struct checker {
    struct arena *arena;
    struct json_document *d;
    struct err *e;
    uint32_t at, open, depth; // open: index of the innermost open nest + 1
    uint32_t checked;         // position of the last deadline check
};

static int json_wrong(struct checker *c, const char *expected)
{
    size_t line = 1, column = 1;
    for (uint32_t i = 0; i < c->at; i++) {
        column++;
        if (c->d->text[i] == '\n') {
            line++;
            column = 1;
        }
    }
    return err_set(c->e, "line %zu, column %zu: expected %s%s", line, column, expected,
                   c->at == c->d->n ? ", but the text ends" : "");
}

static int json_peek(const struct checker *c)
{
    return c->at < c->d->n ? (unsigned char)c->d->text[c->at] : -1;
}

static bool is_json_space(int c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static int json_peek_after_space(struct checker *c)
{
    while (is_json_space(json_peek(c)))
        c->at++;
    return json_peek(c);
}

static bool json_is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static uint32_t hex_digits(const char *p)
{
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) {
        unsigned char c = (unsigned char)p[i], lower = c | 32;
        if (json_is_digit(c))
            v = v << 4 | (c - '0');
        else if (lower >= 'a' && lower <= 'f')
            v = v << 4 | (lower - 'a' + 10u);
        else
            return UINT32_MAX;
    }
    return v;
}

// Expects c->at at the u of an escape.
static int check_unicode(struct checker *c)
{
    const char *p = c->d->text + c->at;
    size_t n = c->d->n - c->at;
    uint32_t first = n >= 5 ? hex_digits(p + 1) : UINT32_MAX;
    if (first == UINT32_MAX)
        return json_wrong(c, "four hexadecimal digits after \\u");
    if (first < 0xd800 || first > 0xdfff) {
        c->at += 5;
        return 0;
    }
    uint32_t second = n >= 11 && p[5] == '\\' && p[6] == 'u' ? hex_digits(p + 7) : UINT32_MAX;
    if (first > 0xdbff || second < 0xdc00 || second > 0xdfff)
        return json_wrong(c, "a pair of surrogates");
    c->at += 11;
    return 0;
}

static int check_string(struct checker *c)
{
    if (json_peek(c) != '"')
        return json_wrong(c, "a string");
    const unsigned char *text = (const unsigned char *)c->d->text;
    for (c->at++; c->at < c->d->n;) {
        unsigned char b = text[c->at];
        if (b == '"') {
            c->at++;
            return 0;
        }
        if (b < 0x20)
            return json_wrong(c, "an escape instead of a control character");
        if (b == '\\') {
            c->at++;
            int escaped = json_peek(c);
            if (escaped == 'u') {
                if (check_unicode(c))
                    return -1;
            } else if (escaped > 0 && strchr("\"\\/bfnrt", escaped)) {
                c->at++;
            } else {
                return json_wrong(c, "an escape such as \\n or \\u000a");
            }
        } else if (b < 0x80) {
            c->at++;
        } else {
            size_t length = json_utf8_length(text + c->at, c->d->n - c->at);
            if (!length)
                return json_wrong(c, "UTF-8");
            c->at += (uint32_t)length;
        }
    }
    return json_wrong(c, "the quote that ends the string");
}

static int check_digits(struct checker *c)
{
    if (!json_is_digit(json_peek(c)))
        return json_wrong(c, "a digit");
    while (json_is_digit(json_peek(c)))
        c->at++;
    return 0;
}

static int check_number(struct checker *c)
{
    if (json_peek(c) == '-')
        c->at++;
    if (json_peek(c) == '0')
        c->at++;
    else if (check_digits(c))
        return -1;
    if (json_peek(c) == '.') {
        c->at++;
        if (check_digits(c))
            return -1;
    }
    if (json_peek(c) == 'e' || json_peek(c) == 'E') {
        c->at++;
        if (json_peek(c) == '+' || json_peek(c) == '-')
            c->at++;
        return check_digits(c);
    }
    return 0;
}

static int check_word(struct checker *c, const char *word)
{
    size_t n = strlen(word);
    if (c->d->n - c->at < n || memcmp(c->d->text + c->at, word, n) != 0)
        return json_wrong(c, "a value");
    c->at += (uint32_t)n;
    return 0;
}

static int open_nest(struct checker *c)
{
    struct json_document *d = c->d;
    if (c->depth == JSON_MAX_DEPTH)
        return json_wrong(c, "at most 2048 arrays and objects inside of each other");
    d->nests = arena_push(c->arena, d->nests, d->n_nests, &d->cap_nests, sizeof *d->nests);
    d->nests[d->n_nests++] = (struct json_nest){.end = c->open, .next = c->at++};
    c->open = d->n_nests;
    c->depth++;
    return 0;
}

static void close_nest(struct checker *c)
{
    struct json_nest *nest = &c->d->nests[c->open - 1];
    c->open = nest->end;
    *nest = (struct json_nest){.end = ++c->at, .next = c->d->n_nests};
    c->depth--;
}

static bool is_in_object(const struct checker *c)
{
    return c->open && c->d->text[c->d->nests[c->open - 1].next] == '{';
}

static int check_name(struct checker *c)
{
    if (json_peek_after_space(c) != '"')
        return json_wrong(c, "a member's name in quotes");
    if (check_string(c))
        return -1;
    if (json_peek_after_space(c) != ':')
        return json_wrong(c, "':'");
    c->at++;
    return 0;
}

// Checks a value, or only the start of a nonempty array or object. *complete tells which.
static int check_value(struct checker *c, bool *complete)
{
    int first = json_peek_after_space(c);
    *complete = true;
    switch (first) {
    case '{':
    case '[':
        if (open_nest(c))
            return -1;
        if (json_peek_after_space(c) ==
            first + 2) // ASCII: the closing bracket is the opening one + 2
            close_nest(c);
        else
            *complete = false;
        return !*complete && first == '{' ? check_name(c) : 0;
    case '"':
        return check_string(c);
    case 't':
        return check_word(c, "true");
    case 'f':
        return check_word(c, "false");
    case 'n':
        return check_word(c, "null");
    default:
        return first == '-' || json_is_digit(first) ? check_number(c) : json_wrong(c, "a value");
    }
}

// Checks the text between a complete value and the next one. Sets *done after the last value.
static int check_after(struct checker *c, bool *done)
{
    while (c->open) {
        bool object = is_in_object(c);
        int next = json_peek_after_space(c);
        if (next == ',') {
            c->at++;
            return object ? check_name(c) : 0;
        }
        if (next != (object ? '}' : ']'))
            return json_wrong(c, object ? "',' or '}'" : "',' or ']'");
        close_nest(c);
    }
    *done = true;
    return json_peek_after_space(c) == -1 ? 0 : json_wrong(c, "the end of the text");
}

int json_parse(struct arena *arena, struct str text, struct json *root, struct err *e)
{
    *root = (struct json){0};
    if (text.n >= UINT32_MAX)
        return err_set(e, "4 GiB of text or more");
    struct json_document *d = arena_alloc(arena, sizeof *d);
    *d = (struct json_document){.text = text.p, .n = (uint32_t)text.n};
    struct checker c = {.arena = arena, .d = d, .e = e};
    json_peek_after_space(&c);
    uint32_t start = c.at;
    for (bool done = false; !done;) {
        bool complete;
        if (check_value(&c, &complete) || (complete && check_after(&c, &done)))
            return -1;
        if (c.at - c.checked > CHECK_BYTES) {
            c.checked = c.at;
            arena_check(arena);
        }
    }
    *root = (struct json){d, start, 0};
    return 0;
}

// --- values (the text is known to be valid) ---

static uint32_t json_skip_space(const struct json_document *d, uint32_t at)
{
    while (at < d->n && is_json_space(d->text[at]))
        at++;
    return at;
}

// at is the opening quote. Returns the position after the closing one.
static uint32_t json_skip_string(const struct json_document *d, uint32_t at)
{
    for (at++; d->text[at] != '"'; at++)
        if (d->text[at] == '\\')
            at++;
    return at + 1;
}

// Returns the end of the value. Sets *nest to the first nest after it.
static uint32_t json_skip_value(struct json v, uint32_t *nest)
{
    const struct json_document *d = v.document;
    *nest = v.nest;
    switch (d->text[v.at]) {
    case '{':
    case '[':
        *nest = d->nests[v.nest].next;
        return d->nests[v.nest].end;
    case '"':
        return json_skip_string(d, v.at);
    default:
        break;
    }
    uint32_t at = v.at;
    while (at < d->n && !is_json_space(d->text[at]) && d->text[at] != ',' && d->text[at] != ']' &&
           d->text[at] != '}')
        at++;
    return at;
}

enum json_kind json_kind(struct json v)
{
    if (!v.document)
        return JSON_ABSENT;
    switch (v.document->text[v.at]) {
    case '{':
        return JSON_OBJECT;
    case '[':
        return JSON_ARRAY;
    case '"':
        return JSON_STRING;
    case 't':
    case 'f':
        return JSON_BOOL;
    case 'n':
        return JSON_NULL;
    default:
        return JSON_NUMBER;
    }
}

struct str json_text(struct json v)
{
    uint32_t nest;
    return v.document ? (struct str){v.document->text + v.at, json_skip_value(v, &nest) - v.at}
                      : (struct str){NULL, 0};
}

struct json_each json_each(struct json v)
{
    enum json_kind kind = json_kind(v);
    if (kind != JSON_ARRAY && kind != JSON_OBJECT)
        return (struct json_each){0};
    return (struct json_each){.value = {v.document, v.at, v.nest},
                              .at = v.at + 1,
                              .nest = v.nest + 1,
                              .is_object = kind == JSON_OBJECT};
}

bool json_next(struct json_each *each)
{
    const struct json_document *d = each->value.document;
    if (!d)
        return false;
    if (each->is_started)
        each->at = json_skip_value(each->value, &each->nest);
    each->is_started = true;
    uint32_t at = json_skip_space(d, each->at);
    if (d->text[at] == ',')
        at = json_skip_space(d, at + 1);
    if (d->text[at] == ']' || d->text[at] == '}') {
        each->value.document = NULL;
        return false;
    }
    if (each->is_object) {
        uint32_t end = json_skip_string(d, at);
        each->key = (struct str){d->text + at + 1, end - at - 2};
        at = json_skip_space(d, end); // skip the colon
        at = json_skip_space(d, at + 1);
    }
    each->value = (struct json){d, at, each->nest};
    return true;
}

size_t json_size(struct json container)
{
    size_t n = 0;
    for (struct json_each i = json_each(container); json_next(&i);)
        n++;
    return n;
}

// --- strings ---

static size_t put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n - 1; i; i--, c >>= 6)
        to[i] = (char)(0x80 | (c & 63));
    to[0] = (char)(lead[n] | c);
    return n;
}

// Decodes the byte or escape at p into *n bytes at to. Returns how many bytes of p it used.
static size_t decode_one(const char *p, char to[4], size_t *n)
{
    static const char from[] = "bfnrt", meaning[] = "\b\f\n\r\t";
    *n = 1;
    to[0] = p[0];
    if (p[0] != '\\')
        return 1;
    const char *found = strchr(from, p[1]);
    to[0] = found ? meaning[found - from] : p[1];
    if (p[1] != 'u')
        return 2;
    uint32_t c = hex_digits(p + 2);
    bool pair = c >= 0xd800 && c <= 0xdfff;
    if (pair)
        c = 0x10000 + ((c - 0xd800) << 10) + (hex_digits(p + 8) - 0xdc00);
    *n = put_utf8(to, c);
    return pair ? 12 : 6;
}

static struct str json_decode(struct str raw, struct arena *arena)
{
    if (raw.n == 0 || !memchr(raw.p, '\\', raw.n))
        return raw;
    char *to = arena_alloc(arena, raw.n), bytes[4];
    size_t n = 0, n_bytes;
    for (size_t i = 0; i < raw.n;) {
        i += decode_one(raw.p + i, bytes, &n_bytes);
        memcpy(to + n, bytes, n_bytes);
        n += n_bytes;
    }
    return (struct str){to, n};
}

static bool decodes_to(struct str raw, struct str text)
{
    if (raw.n == 0 || !memchr(raw.p, '\\', raw.n))
        return str_eq(raw, text);
    char bytes[4];
    size_t n_bytes;
    for (size_t i = 0; i < raw.n;) {
        i += decode_one(raw.p + i, bytes, &n_bytes);
        if (text.n < n_bytes || memcmp(text.p, bytes, n_bytes) != 0)
            return false;
        text = str_from_to(text, n_bytes, text.n);
    }
    return text.n == 0;
}

static struct str raw_string(struct json v)
{
    struct str text = json_text(v);
    return str_from_to(text, 1, text.n - 1);
}

struct str json_string(struct json v, struct arena *arena)
{
    return json_kind(v) == JSON_STRING ? json_decode(raw_string(v), arena) : (struct str){NULL, 0};
}

bool json_is(struct json v, const char *text)
{
    return json_kind(v) == JSON_STRING && decodes_to(raw_string(v), str_from(text));
}

bool json_key_is(const struct json_each *each, const char *key)
{
    return decodes_to(each->key, str_from(key));
}

struct str json_key(const struct json_each *each, struct arena *arena)
{
    return json_decode(each->key, arena);
}

struct json json_get(struct json object, const char *key)
{
    struct json found = {0};
    if (json_kind(object) == JSON_OBJECT)
        for (struct json_each i = json_each(object); json_next(&i);)
            if (json_key_is(&i, key))
                found = i.value;
    return found;
}

// --- numbers ---

bool json_is_true(struct json v)
{
    return json_kind(v) == JSON_BOOL && v.document->text[v.at] == 't';
}

bool json_i64(struct json v, int64_t *number)
{
    return json_kind(v) == JSON_NUMBER && str_to_i64(json_text(v), number);
}

bool json_u64(struct json v, uint64_t *number)
{
    return json_kind(v) == JSON_NUMBER && str_to_u64(json_text(v), 10, number);
}

bool json_double(struct json v, double *number)
{
    if (json_kind(v) != JSON_NUMBER)
        return false;
    struct str text = json_text(v);
    if (text.n < LONG_NUMBER)
        return str_to_double(text, number) && isfinite(*number);
    // strtod may parse in place, because inside an array or object other text follows the number.
    if (v.at + text.n == v.document->n)
        return false;
    *number = strtod(text.p, NULL);
    return isfinite(*number);
}
