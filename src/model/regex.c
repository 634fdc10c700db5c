#include "model/regex.h"

#include "model/regex_escape.h"
#include "model/regex_syntax.h"
#include "model/regex_translate.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

// PCRE2 counts steps from each position where a match may begin, and one step may read the text to
// its end. If there is a budget (in a server), the deadline must be checked in time. Therefore one
// call of PCRE2 gets only so many positions and steps that it reads at most FAST_BYTES. Expressions
// that need more are compiled again with callouts, which check the deadline.
enum {
    STEPS_FEW = 2000, // patterns that need more are tried without backtracking
    STEPS_LEAST = 20,
    STEPS_MOST = 2000000,
    STEPS_MOST_BUDGET = 50000,
    HEAP_KIB = 256 << 10, // for backtracking points
    HEAP_KIB_BUDGET = 16 << 10,
    // For matching without backtracking: about 320 states, half of them callouts.
    WORKSPACE = 2000,
    FAST_BYTES = 16 << 20,
    PLACES_BYTES = 16 << 10,
    // A call may search the whole text for the first byte of a match. A call per position would be
    // quadratic.
    PLACES_LEAST = 16,
    PATTERN_MOST_BUDGET = 64 << 10,
    CALLOUT_BYTES = 64, // bytes read per unit of arena_spend
};

struct model_regex {
    struct arena *arena;
    struct str pattern;
    const char *name;
    pcre2_code *code;
    pcre2_match_data *data;
    pcre2_match_context *limits;
    int *workspace; // NULL until a text needed too many steps; then slow matching is enabled
    size_t read;    // bytes that may have been read since the last deadline check
    bool multiline;
    uint8_t *known; // per string id: 0 unknown, 1 no, 2 yes
    size_t n_known;
};

static void *regex_allocate(size_t size, void *arena)
{
    return arena_alloc(arena, size);
}

static void regex_no_free(void *p, void *arena)
{
}

static pcre2_compile_context *compile_context(struct arena *arena)
{
    pcre2_general_context *memory =
        pcre2_general_context_create(regex_allocate, regex_no_free, arena);
    pcre2_compile_context *how = pcre2_compile_context_create(memory);
    pcre2_set_newline(how, PCRE2_NEWLINE_LF);
    pcre2_set_parens_nest_limit(how, 4000);
    return how;
}

static pcre2_code *regex_compile(struct str pattern, pcre2_compile_context *how, uint32_t options,
                                 int *code, struct arena *arena)
{
    struct out out;
    PCRE2_SIZE at;
    out_init_arena(&out, arena);
    regex_translate(pattern, &out);
    struct str text = out_result(&out);
    return pcre2_compile((PCRE2_SPTR)text.p, text.n,
                         PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_CIRCUMFLEX |
                             PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT | options,
                         code, &at, how);
}

// Returns the first \p{Name} of the pattern that PCRE2 does not know.
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
        if (end != SIZE_MAX && !regex_compile(property, how, 0, &code, arena))
            return property;
        at++;
    }
    return pattern;
}

// Whether (?m) occurs. Without backtracking, PCRE2 would still match $ only at the end of the text.
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
    if (arena_budget(arena) && pattern.n > PATTERN_MOST_BUDGET) {
        err_set(e, "parsing %s regexp: it has %zu bytes; limit %d", name, pattern.n,
                PATTERN_MOST_BUDGET);
        return NULL;
    }
    pcre2_general_context *memory =
        pcre2_general_context_create(regex_allocate, regex_no_free, arena);
    pcre2_compile_context *how = compile_context(arena);
    struct str where;
    int code = 0;
    const char *wrong = regex_syntax_error(regex->pattern, &where);
    if (!wrong)
        regex->code = regex_compile(regex->pattern, how, 0, &code, arena);
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
    pcre2_set_heap_limit(regex->limits, arena_budget(arena) ? HEAP_KIB_BUDGET : HEAP_KIB);
    return regex;
}

// Sets the limits of the next call, which starts at from, and returns where its part of the text
// ends. With a budget, long texts are tried in parts.
static size_t limit_part(struct model_regex *regex, struct str text, size_t from)
{
    size_t left = text.n - from + 1, places = PLACES_BYTES / left + PLACES_LEAST;
    bool last = places >= left || regex->workspace || !arena_budget(regex->arena);
    pcre2_set_offset_limit(regex->limits, last ? PCRE2_UNSET : from + places - 1);
    if (regex->workspace)
        return SIZE_MAX;
    size_t steps = FAST_BYTES / left / (places < left ? places : left);
    pcre2_set_match_limit(regex->limits, !arena_budget(regex->arena) || steps > STEPS_FEW
                                             ? STEPS_FEW
                                         : steps < STEPS_LEAST ? STEPS_LEAST
                                                               : (uint32_t)steps);
    if (last)
        return SIZE_MAX;
    size_t end = from + places;
    while (end < text.n && (text.p[end] & 0xc0) == 0x80)
        end++;
    return end;
}

// Called before each item of the expression, which may read the text to its end.
static int regex_check_budget(pcre2_callout_block *at, void *context)
{
    struct model_regex *regex = context;
    regex->read += at->subject_length - at->current_position + CALLOUT_BYTES;
    if (regex->read < (size_t)CALLOUT_BYTES << 12)
        return 0;
    regex->read = 0;
    return budget_yield(arena_budget(regex->arena)) == BUDGET_OK ? 0 : PCRE2_ERROR_CALLOUT;
}

// Switches to matching without backtracking first, and to many steps. Returns false if the
// expression with callouts would be too large for PCRE2.
static bool enable_slow_matching(struct model_regex *regex)
{
    struct arena *arena = regex->arena;
    int code;
    regex->workspace = arena_array(arena, WORKSPACE, sizeof *regex->workspace);
    pcre2_set_match_limit(regex->limits, arena_budget(arena) ? STEPS_MOST_BUDGET : STEPS_MOST);
    pcre2_set_offset_limit(regex->limits, PCRE2_UNSET);
    if (!arena_budget(arena))
        return true;
    pcre2_code *slow =
        regex_compile(regex->pattern, compile_context(arena), PCRE2_AUTO_CALLOUT, &code, arena);
    if (!slow)
        return false;
    regex->code = slow;
    pcre2_set_callout(regex->limits, regex_check_budget, regex);
    return true;
}

static bool is_limit(int r)
{
    return r == PCRE2_ERROR_MATCHLIMIT || r == PCRE2_ERROR_DEPTHLIMIT || r == PCRE2_ERROR_HEAPLIMIT;
}

// Finds a match that begins in the part at from. A pattern that needs many steps with backtracking
// usually needs few without it, unless there are too many states. Then it is matched with
// backtracking and more steps.
static int match_part(struct model_regex *regex, struct str text, size_t from)
{
    PCRE2_SPTR subject = (PCRE2_SPTR)(text.n ? text.p : "");
    int r = PCRE2_ERROR_MATCHLIMIT;
    if (!regex->workspace)
        r = pcre2_match(regex->code, subject, text.n, from, PCRE2_NO_UTF_CHECK, regex->data,
                        regex->limits);
    if (!is_limit(r) || (!regex->workspace && !enable_slow_matching(regex)))
        return r;
    if (!regex->multiline)
        r = pcre2_dfa_match(regex->code, subject, text.n, from,
                            PCRE2_NO_UTF_CHECK | PCRE2_DFA_SHORTEST, regex->data, regex->limits,
                            regex->workspace, WORKSPACE);
    if (r >= 0 || r == PCRE2_ERROR_NOMATCH || r == PCRE2_ERROR_CALLOUT)
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
        if (regex->workspace) // the call covered the rest of the text
            break;
    }
    if (r == PCRE2_ERROR_CALLOUT)
        arena_check(regex->arena);
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
