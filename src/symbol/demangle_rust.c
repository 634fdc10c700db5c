// Demangles legacy Rust names and selects between the two manglings. The output equals the
// alternate form of the crate rustc-demangle.
#include "symbol/demangle.h"
#include "symbol/demangle_v0.h"

static bool rust_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool rust_is_hex(char c)
{
    return rust_is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// Parses the next `<length><text>`. Returns false if there is none.
static bool next_legacy_element(const char **p, const char *end, const char **text, size_t *n)
{
    *n = 0;
    if (*p == end || !rust_is_digit(**p))
        return false;
    while (*p < end && rust_is_digit(**p))
        if (__builtin_mul_overflow(*n, 10, n) ||
            __builtin_add_overflow(*n, (size_t)(*(*p)++ - '0'), n))
            return false;
    if (*n >= (size_t)(end - *p))
        return false;
    *text = *p;
    *p += *n;
    return true;
}

static bool is_hash(const char *s, size_t n)
{
    if (n == 0 || s[0] != 'h')
        return false;
    for (size_t i = 1; i < n; i++)
        if (!rust_is_hex(s[i]))
            return false;
    return true;
}

static bool is_ascii(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] & 0x80)
            return false;
    return true;
}

// Decodes the text between two $. Returns false if it is unknown; then the rest is copied
// unchanged.
static bool rust_unescape(const char *s, size_t n, struct text *out)
{
    static const struct {
        char escape[3], c;
    } table[] = {{"SP", '@'}, {"BP", '*'}, {"RF", '&'}, {"LT", '<'},
                 {"GT", '>'}, {"LP", '('}, {"RP", ')'}, {"C", ','}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strlen(table[i].escape) == n && memcmp(table[i].escape, s, n) == 0) {
            text_add(out, &table[i].c, 1);
            return true;
        }
    }
    if (n < 2 || s[0] != 'u')
        return false;
    uint64_t c = 0;
    for (size_t i = 1; i < n; i++) {
        if (!rust_is_hex(s[i]) || (s[i] >= 'A' && s[i] <= 'F') || c > UINT32_MAX)
            return false;
        c = c << 4 | (uint64_t)(rust_is_digit(s[i]) ? s[i] - '0' : s[i] - 'a' + 10);
    }
    if (!is_scalar(c) || c < 0x20 || (c >= 0x7f && c < 0xa0))
        return false;
    text_char(out, (uint32_t)c);
    return true;
}

static void print_legacy_element(const char *s, size_t n, struct text *out)
{
    const char *end = s + n;
    if (n >= 2 && s[0] == '_' && s[1] == '$')
        s++;
    while (s < end) {
        if (*s == '.') {
            bool twice = s + 1 < end && s[1] == '.';
            text_puts(out, twice ? "::" : ".");
            s += twice ? 2 : 1;
        } else if (*s == '$') {
            const char *close = memchr(s + 1, '$', (size_t)(end - s - 1));
            if (!close || !rust_unescape(s + 1, (size_t)(close - s - 1), out))
                break;
            s = close + 1;
        } else {
            size_t plain = 0;
            while (s + plain < end && s[plain] != '$' && s[plain] != '.')
                plain++;
            text_add(out, s, plain);
            s += plain;
        }
    }
    text_add(out, s, (size_t)(end - s));
}

static void print_legacy(const char *p, const char *end, size_t elements, struct text *out)
{
    for (size_t i = 0; i < elements; i++) {
        const char *text;
        size_t n;
        if (!next_legacy_element(&p, end, &text, &n) || (i + 1 == elements && is_hash(text, n)))
            return;
        if (i)
            text_puts(out, "::");
        print_legacy_element(text, n, out);
    }
}

// Counts the elements after _ZN up to the E. Zero elements are valid.
static bool check_legacy(const char *p, const char *end, size_t *elements, const char **rest)
{
    *elements = 0;
    if (!is_ascii(p, (size_t)(end - p)))
        return false;
    while (p < end && *p != 'E') {
        const char *text;
        size_t n;
        if (!next_legacy_element(&p, end, &text, &n))
            return false;
        ++*elements;
    }
    *rest = p + 1;
    return p < end;
}

static const char *skip_rust_prefix(const char *name, const char *end, const char *prefix)
{
    size_t n = strlen(prefix);
    return (size_t)(end - name) >= n && memcmp(name, prefix, n) == 0 ? name + n : NULL;
}

// LLVM appends its own suffix last, so strip it first.
static const char *without_llvm(const char *name)
{
    const char *end = name + strlen(name), *mark = strstr(name, ".llvm.");
    if (!mark)
        return end;
    for (const char *p = mark + 6; p < end; p++)
        if (!rust_is_digit(*p) && !(*p >= 'A' && *p <= 'F') && *p != '@')
            return end;
    return mark;
}

// Suffixes that compilers append after a period are kept. Any other rest means that this is not a
// Rust name.
static bool is_compiler_suffix(const char *s, const char *end)
{
    if (s == end)
        return true;
    if (*s != '.')
        return false;
    for (; s < end; s++)
        if (*s <= ' ' || *s >= 0x7f)
            return false;
    return true;
}

char *demangle_rust(const char *name)
{
    const char *end = without_llvm(name), *rest, *p;
    struct text out = {0};
    size_t n;
    if (!(p = skip_rust_prefix(name, end, "_ZN")) && !(p = skip_rust_prefix(name, end, "ZN")))
        p = skip_rust_prefix(name, end, "__ZN");
    if (p && check_legacy(p, end, &n, &rest)) {
        if (!is_compiler_suffix(rest, end))
            return NULL;
        print_legacy(p, end, n, &out);
    } else {
        if (!(p = skip_rust_prefix(name, end, "_R")) && !(p = skip_rust_prefix(name, end, "R")))
            p = skip_rust_prefix(name, end, "__R");
        if (!p || p == end || *p < 'A' || *p > 'Z' || !is_ascii(p, (size_t)(end - p)))
            return NULL;
        if (!demangle_v0_check(p, (size_t)(end - p), &n) || !is_compiler_suffix(p + n, end))
            return NULL;
        rest = p + n;
        demangle_v0_print(p, (size_t)(end - p), &out);
    }
    if (out.full) {
        out.full = false;
        if (text_reserve(&out, 32)) {
            memcpy(out.p + out.n, "{size limit reached}", 20);
            out.n += 20;
        }
    }
    if (text_reserve(&out, (size_t)(end - rest))) {
        memcpy(out.p + out.n, rest, (size_t)(end - rest));
        out.n += (size_t)(end - rest);
    }
    return text_take(&out);
}
