#include "symbol/demangle.h"
#include "symbol/demangle_text.h"

// A legacy Rust name differs from a C++ name by the hash at its end: 17h, 16 digits, E.
static bool is_rust(const char *name)
{
    if (name[0] == '_' && name[1] == 'R')
        return true;
    if (strncmp(name, "_ZN", 3) != 0)
        return false;
    for (const char *p = name; (p = strstr(p, "17h")); p += 3) {
        size_t n = strspn(p + 3, "0123456789abcdef");
        if (n == 16 && p[19] == 'E' && (p[20] == '\0' || p[20] == '.'))
            return true;
    }
    return false;
}

// Whether the name looks like demangled C++. Excludes Java's `class.<init>` and Go's methods.
static bool looks_like_cxx(const char *name)
{
    if (strstr(name, ".<") || strstr(name, "])."))
        return false;
    return strpbrk(name, "<>[]") || strstr(name, "::");
}

// Removes the text between open and close, including nested pairs. Changes nothing if they do not
// match. Takes name and returns malloced text.
static char *remove_bracketed(char *name, char open, char close)
{
    size_t depth = 0, first = 0, kept = 0;
    char *copy = strdup(name);
    if (!copy)
        return name;
    for (size_t i = 0; name[i]; i++) {
        if (name[i] == open && depth++ == 0)
            first = kept;
        else if (name[i] == close && depth == 0) {
            free(copy);
            return name;
        }
        copy[kept++] = name[i];
        if (name[i] == close && --depth == 0)
            kept = first;
    }
    copy[kept] = '\0';
    free(name);
    return copy;
}

static char *simplify_shown(const char *name, enum demangle_mode mode)
{
    char *copy = strdup(name);
    if (copy && mode != DEMANGLE_FULL)
        copy = remove_bracketed(copy, '(', ')');
    if (copy && mode == DEMANGLE_DEFAULT)
        copy = remove_bracketed(copy, '<', '>');
    if (copy && strcmp(copy, name) == 0) {
        free(copy);
        return NULL;
    }
    return copy;
}

// libiberty closes nested template arguments with `> >`, but with `>>` after an empty pack. Writes
// `> >` everywhere.
static char *space_out_brackets(char *text)
{
    size_t pairs = 0, n = strlen(text);
    for (size_t i = 1; i < n; i++)
        pairs += text[i] == '>' && text[i - 1] == '>';
    if (!pairs || strstr(text, "operator>>"))
        return text;
    char *wide = malloc(n + pairs + 1);
    if (!wide)
        return text;
    size_t k = 0;
    for (size_t i = 0; i <= n; i++) {
        if (i && text[i] == '>' && text[i - 1] == '>')
            wide[k++] = ' ';
        wide[k++] = text[i];
    }
    free(text);
    return wide;
}

static char *demangle_cxx(const char *name, enum demangle_mode mode, demangle_cxx_fn *cxx)
{
    char *whole = cxx(name, mode == DEMANGLE_FULL);
    char *clone = whole ? strstr(whole, " [clone ") : NULL;
    if (clone)
        *clone = '\0'; // .cold, .isra and .part are the same function
    if (!whole)
        return NULL;
    whole = space_out_brackets(whole);
    if (mode == DEMANGLE_FULL)
        return whole;
    char *simple = demangle_simplify(whole, false, mode == DEMANGLE_TEMPLATES);
    if (!simple)
        return whole;
    free(whole);
    return simple;
}

char *demangle(const char *name, enum demangle_mode mode, demangle_cxx_fn *cxx)
{
    if (mode == DEMANGLE_NONE || !name)
        return NULL;
    if (is_rust(name)) {
        char *rust = demangle_rust(name);
        if (rust)
            return rust;
    }
    if (cxx && (strncmp(name, "_Z", 2) == 0 || strncmp(name, "___Z", 4) == 0)) {
        char *text = demangle_cxx(name, mode, cxx);
        if (text)
            return text;
    }
    // Some symbol tables prepend an underscore.
    if (cxx && strncmp(name, "__Z", 3) == 0) {
        char *text = demangle_cxx(name + 1, mode, cxx);
        if (text)
            return text;
    }
    return looks_like_cxx(name) ? simplify_shown(name, mode) : NULL;
}
