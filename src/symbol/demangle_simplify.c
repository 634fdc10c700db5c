// Shortens demangled C++ names: removes parameters, template arguments and return types.
#include "symbol/demangle.h"
#include "symbol/demangle_text.h"

struct simplifier {
    const char *p;
    struct text out;
    bool parameters, templates;
    bool special; // a thunk, a guard variable etc.: keep empty parentheses
};

static bool cxx_starts_with(const char *p, const char *prefix)
{
    return strncmp(p, prefix, strlen(prefix)) == 0;
}

static bool is_cxx_word_char(char c)
{
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Returns the length of the operator name at p (`operator<<`), or 0. The type after a conversion
// operator is not part of it.
static size_t operator_name(const char *p, const char *start)
{
    static const char *const signs[] = {"()", "[]", "<=>", "<<=", ">>=", "->*", "->",
                                        "<<", ">>", "<=",  ">=",  "<",   ">"};
    if (!cxx_starts_with(p, "operator") || (p > start && is_cxx_word_char(p[-1])))
        return 0;
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        if (cxx_starts_with(p + 8, signs[i]))
            return 8 + strlen(signs[i]);
    return 0;
}

// Returns the position after the bracket that closes the one at p, or NULL.
static const char *skip_bracketed(const char *p, const char *start)
{
    char stack[512];
    size_t depth = 0;
    while (*p) {
        size_t name = operator_name(p, start);
        if (name) {
            p += name;
            continue;
        }
        switch (*p) {
        case '<':
        case '(':
        case '[':
        case '{':
            if (depth == sizeof stack)
                return NULL;
            stack[depth++] = *p;
            break;
        case '>':
            if (p > start && p[-1] == '-')
                break;
            if (depth && stack[depth - 1] == '(')
                break; // a comparison inside parentheses
            if (depth == 0 || stack[--depth] != '<')
                return NULL;
            break;
        case ')':
            // An unmatched < before it was a comparison.
            while (depth && stack[depth - 1] == '<')
                depth--;
            if (depth == 0 || stack[--depth] != '(')
                return NULL;
            break;
        case ']':
        case '}':
            if (depth == 0 || stack[--depth] != (*p == ']' ? '[' : '{'))
                return NULL;
            break;
        }
        p++;
        if (depth == 0)
            return p;
    }
    return NULL;
}

// Skips the qualifiers that belong to the function's parameters.
static const char *past_qualifiers(const char *p)
{
    static const char *const words[] = {" const", " volatile", " &&", " &", " noexcept"};
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
            size_t n = strlen(words[i]);
            if (cxx_starts_with(p, words[i]) && !is_cxx_word_char(p[n])) {
                p += n;
                again = true;
            }
        }
    }
    return p;
}

// Inside template arguments, only remove parameters of a function that encloses another name.
static const char *skip_enclosing_parameters(const char *p, const char *start)
{
    const char *end = skip_bracketed(p, start);
    return end && cxx_starts_with(past_qualifiers(end), "::") ? end : NULL;
}

static bool simplify_step(struct simplifier *s, const char *start, size_t *braces, size_t *angles)
{
    const char *p = s->p, *end;
    size_t name = operator_name(p, start);
    if (name) {
        text_add(&s->out, p, name);
        s->p += name;
        // libiberty separates `operator<` and template arguments by a blank.
        if (!s->templates && cxx_starts_with(s->p, " <"))
            s->p++;
        return true;
    }
    if (cxx_starts_with(p, "(anonymous namespace)")) {
        text_add(&s->out, p, 21);
        s->p += 21;
        return true;
    }
    if (*p == '<' && !s->templates) {
        if (!(end = skip_bracketed(p, start)))
            return false;
        s->p = end;
        return true;
    }
    // The parameters of a lambda are part of its name.
    if (*p == '(' && !s->parameters && *braces == 0) {
        bool within = *angles > 0;
        if (!(end = within ? skip_enclosing_parameters(p, start) : skip_bracketed(p, start))) {
            text_add(&s->out, p, 1);
            s->p++;
            return within;
        }
        if (within || s->special)
            text_puts(&s->out, "()");
        s->p = within || s->special ? end : past_qualifiers(end);
        return true;
    }
    *braces += *p == '{';
    *braces -= *braces && *p == '}';
    *angles += *p == '<';
    *angles -= *angles && *p == '>' && p > start && p[-1] != '-';
    text_add(&s->out, p, 1);
    s->p++;
    return true;
}

static bool is_special(const char *name)
{
    static const char *const words[] = {"virtual thunk to ",
                                        "non-virtual thunk to ",
                                        "covariant return thunk",
                                        "guard variable for ",
                                        "typeinfo ",
                                        "vtable for ",
                                        "transaction clone for ",
                                        "reference temporary "};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (cxx_starts_with(name, words[i]))
            return true;
    return false;
}

char *demangle_simplify(const char *name, bool parameters, bool templates)
{
    struct simplifier s = {
        .p = name, .parameters = parameters, .templates = templates, .special = is_special(name)};
    size_t braces = 0, angles = 0;
    while (*s.p && simplify_step(&s, name, &braces, &angles))
        ;
    if (*s.p || s.out.n == 0) {
        free(s.out.p);
        return NULL;
    }
    char *text = text_take(&s.out);
    if (text && strcmp(text, name) == 0) {
        free(text);
        return NULL;
    }
    return text;
}
