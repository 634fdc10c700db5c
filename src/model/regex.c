#include "model/regex.h"

#include "model/regex_escape.h"
#include "model/regex_syntax.h"
#include "model/regex_translate.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

// Steps count from each place of the text where a match may begin. Where there is a budget, others
// wait: a server.
enum {
    STEPS_FEW = 2000, // patterns that need more are tried without backtracking
    STEPS_MOST = 2000000,
    STEPS_MOST_BUDGET = 50000,
    HEAP_KIB = 256 << 10, // for the points to backtrack to
    HEAP_KIB_BUDGET = 16 << 10,
    WORKSPACE = 1000, // of matching without backtracking: room for some 160 states
    BYTES_BETWEEN_CHECKS = 1 << 16,
    PLACES_BETWEEN_CHECKS = 16,
};

struct model_regex {
    struct arena *arena;
    struct str pattern;
    const char *name;
    pcre2_code *code;
    pcre2_match_data *data;
    pcre2_match_context *limits;
    int *workspace; // set once a text took more than a few steps
    bool multiline;
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

static pcre2_code *compile(struct str pattern, pcre2_compile_context *how, int *code,
                           struct arena *arena)
{
    struct out out;
    PCRE2_SIZE at;
    out_init_arena(&out, arena);
    regex_translate(pattern, &out);
    struct str text = out_result(&out);
    return pcre2_compile((PCRE2_SPTR)text.p, text.n,
                         PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_CIRCUMFLEX |
                             PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT,
                         code, &at, how);
}

// The first \p{Name} of the pattern whose name PCRE2 does not know.
static struct str unknown_property(struct str pattern, pcre2_compile_context *how,
                                   struct arena *arena)
{
    for (size_t at = 0; at + 1 < pattern.n; at++) {
        struct str name;
        int code;
        if (pattern.p[at] != '\\')
            continue;
        bool is_property = (pattern.p[at + 1] | 32) == 'p';
        size_t end = is_property ? regex_property(pattern, at, &name) : SIZE_MAX;
        struct str property = str_from_to(pattern, at, end == SIZE_MAX ? at : end);
        if (end != SIZE_MAX && !compile(property, how, &code, arena))
            return property;
        at++;
    }
    return pattern;
}

// Whether (?m) occurs: without backtracking PCRE2 takes $ for the end of the text even then.
static bool is_multiline(struct str pattern)
{
    for (size_t at = 0; (at = str_find(pattern, STR("(?"), at)) != SIZE_MAX;)
        for (at += 2; at < pattern.n && pattern.p[at] && strchr("imsU-", pattern.p[at]); at++)
            if (pattern.p[at] == 'm')
                return true;
    return false;
}

struct model_regex *model_regex_new(struct arena *arena, const char *name, struct str pattern,
                                    struct err *e)
{
    struct model_regex *regex = arena_alloc(arena, sizeof *regex);
    *regex = (struct model_regex){.arena = arena, .name = name};
    regex->pattern = (struct str){arena_copy(arena, pattern.p, pattern.n), pattern.n};
    pcre2_general_context *memory = pcre2_general_context_create(allocate, leave_to_arena, arena);
    pcre2_compile_context *how = pcre2_compile_context_create(memory);
    pcre2_set_newline(how, PCRE2_NEWLINE_LF);
    pcre2_set_parens_nest_limit(how, 4000);
    struct str where;
    int code = 0;
    const char *wrong = regex_syntax_error(regex->pattern, &where);
    if (!wrong)
        regex->code = compile(regex->pattern, how, &code, arena);
    if (!wrong && code == PCRE2_ERROR_UNKNOWN_UNICODE_PROPERTY) {
        wrong = "invalid character class range";
        where = unknown_property(regex->pattern, how, arena);
    }
    if (wrong) {
        err_set(e, "parsing %s regexp: error parsing regexp: %s: `%.*s`", name, wrong, (int)where.n,
                where.p);
        return NULL;
    }
    if (!regex->code) {
        char why[200];
        pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
        err_set(e, "parsing %s regexp: %s: `%.*s`", name, why, (int)pattern.n, pattern.p);
        return NULL;
    }
    regex->data = pcre2_match_data_create(1, memory);
    regex->limits = pcre2_match_context_create(memory);
    regex->multiline = is_multiline(regex->pattern);
    pcre2_set_match_limit(regex->limits, STEPS_FEW);
    pcre2_set_heap_limit(regex->limits, arena_budget(arena) ? HEAP_KIB_BUDGET : HEAP_KIB);
    return regex;
}

// PCRE2 may look at all the rest of the text from each place: with a budget, long texts are tried
// in parts, so that the deadline is noticed. Returns where the part ends that begins at from.
static size_t limit_part(struct model_regex *regex, struct str text, size_t from)
{
    size_t left = text.n - from;
    size_t bytes = regex->workspace ? BYTES_BETWEEN_CHECKS / 8 : BYTES_BETWEEN_CHECKS;
    size_t places = bytes / (left + 1) + (regex->workspace ? 1 : PLACES_BETWEEN_CHECKS);
    bool last = places > left || !arena_budget(regex->arena);
    pcre2_set_offset_limit(regex->limits, last ? PCRE2_UNSET : from + places - 1);
    if (last)
        return SIZE_MAX;
    size_t end = from + places;
    while (end < text.n && (text.p[end] & 0xc0) == 0x80)
        end++;
    return end;
}

static bool is_limit(int r)
{
    return r == PCRE2_ERROR_MATCHLIMIT || r == PCRE2_ERROR_DEPTHLIMIT || r == PCRE2_ERROR_HEAPLIMIT;
}

// A match that begins in the part at from. What takes many steps by backtracking takes few without,
// unless there are too many states; then more steps are allowed.
static int match_part(struct model_regex *regex, struct str text, size_t from)
{
    PCRE2_SPTR subject = (PCRE2_SPTR)(text.n ? text.p : "");
    int r = PCRE2_ERROR_MATCHLIMIT;
    if (!regex->workspace)
        r = pcre2_match(regex->code, subject, text.n, from, PCRE2_NO_UTF_CHECK, regex->data,
                        regex->limits);
    if (!is_limit(r))
        return r;
    uint32_t most = arena_budget(regex->arena) ? STEPS_MOST_BUDGET : STEPS_MOST;
    if (!regex->workspace)
        regex->workspace = arena_array(regex->arena, WORKSPACE, sizeof *regex->workspace);
    pcre2_set_match_limit(regex->limits, most);
    if (!regex->multiline)
        r = pcre2_dfa_match(regex->code, subject, text.n, from,
                            PCRE2_NO_UTF_CHECK | PCRE2_DFA_SHORTEST, regex->data, regex->limits,
                            regex->workspace, WORKSPACE);
    if (r >= 0 || r == PCRE2_ERROR_NOMATCH)
        return r;
    return pcre2_match(regex->code, subject, text.n, from, PCRE2_NO_UTF_CHECK, regex->data,
                       regex->limits);
}

bool model_regex_match(struct model_regex *regex, struct str text)
{
    if (!regex_is_utf8(text)) {
        char *replaced = arena_alloc(regex->arena, 3 * text.n);
        text = (struct str){replaced, regex_as_utf8(text, replaced)};
    }
    int r = PCRE2_ERROR_NOMATCH;
    for (size_t from = 0, end; from <= text.n && r == PCRE2_ERROR_NOMATCH; from = end) {
        arena_check(regex->arena);
        end = limit_part(regex, text, from);
        r = match_part(regex, text, from);
    }
    if (r < 0 && r != PCRE2_ERROR_NOMATCH)
        arena_refuse(regex->arena, "the %s regexp `%.*s` takes too long on `%.*s`; simplify it",
                     regex->name, (int)(regex->pattern.n < 200 ? regex->pattern.n : 200),
                     regex->pattern.p, (int)(text.n < 80 ? text.n : 80), text.p);
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
