#include "model/regex.h"

#include "model/regex_syntax.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

struct model_regex {
    struct arena *arena;
    struct str pattern;
    const char *name;
    pcre2_code *code;
    pcre2_match_data *data;
    pcre2_match_context *limits;
    uint8_t *known; // per string id: 0 not tried, 1 no, 2 yes
    size_t n_known;
};

static void *allocate(size_t size, void *arena)
{
    return arena_alloc(arena, size);
}

static void leave_to_arena(void *p, void *arena)
{
}

// The part of the pattern that Go's "invalid character class range" would name, if that is
// what is wrong at offset at.
static struct str wrong_class(int code, struct str pattern, size_t at)
{
    size_t from = at, to = at;
    if (code == PCRE2_ERROR_CLASS_RANGE_ORDER && at >= 2 && at < pattern.n) {
        from = at - 2;
        to = at + 1;
    } else if (code == PCRE2_ERROR_UNKNOWN_POSIX_CLASS) {
        while (from > 0 && !str_starts(str_from_to(pattern, from, pattern.n), STR("[:")))
            from--;
        size_t end = str_find(pattern, STR(":]"), from);
        to = end == SIZE_MAX ? pattern.n : end + 2;
    } else if (code == PCRE2_ERROR_UNKNOWN_UNICODE_PROPERTY) {
        while (from > 0 && pattern.p[from] != '\\')
            from--;
    }
    return str_from_to(pattern, from, to);
}

struct model_regex *model_regex_new(struct arena *arena, const char *name, struct str pattern,
                                    struct err *e)
{
    struct model_regex *regex = arena_alloc(arena, sizeof *regex);
    *regex = (struct model_regex){.arena = arena, .name = name};
    regex->pattern = (struct str){arena_copy(arena, pattern.p, pattern.n), pattern.n};
    struct str where;
    const char *wrong = regex_syntax_error(pattern, &where);
    if (wrong) {
        err_set(e, "parsing %s regexp: error parsing regexp: %s: `%.*s`", name, wrong, (int)where.n,
                where.p);
        return NULL;
    }
    pcre2_general_context *memory = pcre2_general_context_create(allocate, leave_to_arena, arena);
    pcre2_compile_context *how = pcre2_compile_context_create(memory);
    pcre2_set_newline(how, PCRE2_NEWLINE_LF);
    int code;
    PCRE2_SIZE at;
    regex->code = pcre2_compile((PCRE2_SPTR)regex->pattern.p, pattern.n,
                                PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_DOLLAR_ENDONLY |
                                    PCRE2_NEVER_BACKSLASH_C | PCRE2_DUPNAMES,
                                &code, &at, how);
    if (!regex->code) {
        where = wrong_class(code, regex->pattern, at);
        if (where.n) {
            err_set(e,
                    "parsing %s regexp: error parsing regexp: invalid character class range: "
                    "`%.*s`",
                    name, (int)where.n, where.p);
            return NULL;
        }
        char why[200];
        pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
        err_set(e, "parsing %s regexp: %s at offset %zu of `%.*s`", name, why, (size_t)at,
                (int)pattern.n, pattern.p);
        return NULL;
    }
    regex->data = pcre2_match_data_create(1, memory);
    regex->limits = pcre2_match_context_create(memory);
    pcre2_set_match_limit(regex->limits, 2000000);
    return regex;
}

bool model_regex_match(struct model_regex *regex, struct str text)
{
    int r = pcre2_match(regex->code, (PCRE2_SPTR)(text.n ? text.p : ""), text.n, 0, 0, regex->data,
                        regex->limits);
    if (r < 0 && r != PCRE2_ERROR_NOMATCH)
        arena_fail(regex->arena, "the %s regexp `%.*s` takes too long on `%.*s`; simplify it",
                   regex->name, (int)regex->pattern.n, regex->pattern.p,
                   (int)(text.n < 80 ? text.n : 80), text.p);
    return r >= 0;
}

bool model_regex_match_id(struct model_regex *regex, const struct model_strings *strings,
                          uint32_t id)
{
    if (id >= regex->n_known) {
        size_t n = strings->n + 64;
        regex->known = arena_grow(regex->arena, regex->known, regex->n_known, n);
        regex->n_known = n;
    }
    if (!regex->known[id])
        regex->known[id] = model_regex_match(regex, strings->items[id]) ? 2 : 1;
    return regex->known[id] == 2;
}

struct str model_regex_pattern(const struct model_regex *regex)
{
    return regex->pattern;
}
