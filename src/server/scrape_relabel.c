#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/hash.h"
#include "base/out.h"
#include "server/scrape_discover.h"

struct labels {
    struct store_label *items;
    size_t n, cap;
    struct arena *arena;
    struct out *text; // for one text at a time
    bool too_long;    // a rule did not come to an end
};

// A text that was written into l->text, and takes no more than it needs.
static struct str keep_relabel_text(const struct labels *l)
{
    return (struct str){arena_copy(l->arena, l->text->p, l->text->n), l->text->n};
}

static struct str get_relabeled(const struct labels *l, struct str name)
{
    for (size_t i = 0; i < l->n; i++)
        if (str_eq(l->items[i].name, name))
            return l->items[i].value;
    return STR("");
}

// An empty value takes the label away.
static void set_relabeled(struct labels *l, struct str name, struct str value)
{
    size_t i = 0;
    while (i < l->n && !str_eq(l->items[i].name, name))
        i++;
    if (!value.n) {
        if (i < l->n)
            l->items[i] = l->items[--l->n];
        return;
    }
    if (i == l->n) {
        l->items = arena_push(l->arena, l->items, l->n, &l->cap, sizeof *l->items);
        l->n++;
    }
    l->items[i] = (struct store_label){name, value};
}

struct pattern {
    pcre2_code *code;
    pcre2_match_data *match;
    pcre2_match_context *limits;
};

struct scrape_rules {
    const struct relabel_rule *rules;
    struct pattern *patterns;
    size_t n;
    struct out text;
};

// Of one rule on one text.
enum { MATCH_STEPS = 100000, MATCH_KIB = 1024 };

static bool matches_rule(struct labels *l, const struct pattern *p, struct str text)
{
    int r =
        pcre2_match(p->code, (PCRE2_SPTR)(text.n ? text.p : ""), text.n, 0, 0, p->match, p->limits);
    l->too_long |= r < 0 && r != PCRE2_ERROR_NOMATCH;
    return r > 0;
}

static struct str expand_group(const struct pattern *p, struct str text, struct str name)
{
    uint64_t number;
    uint32_t count = pcre2_get_ovector_count(p->match);
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(p->match);
    if (!str_to_u64(name, 10, &number)) {
        char copy[64];
        if (name.n >= sizeof copy)
            return STR("");
        memcpy(copy, name.p, name.n);
        copy[name.n] = 0;
        int found = pcre2_substring_number_from_name(p->code, (PCRE2_SPTR)copy);
        if (found < 0)
            return STR("");
        number = (uint64_t)found;
    }
    if (number >= count || at[2 * number] == PCRE2_UNSET)
        return STR("");
    return str_from_to(text, at[2 * number], at[2 * number + 1]);
}

// $1, ${1}, ${name} and $$, as in Go.
static struct str expand_replacement(const struct labels *l, const struct pattern *p,
                                     struct str text, struct str format)
{
    struct out *out = l->text;
    out->n = 0;
    for (size_t i = 0; i < format.n; i++) {
        if (format.p[i] != '$' || i + 1 == format.n) {
            out_char(out, format.p[i]);
            continue;
        }
        size_t from = i + 1, to;
        if (format.p[from] == '$') {
            out_char(out, '$');
            i = from;
            continue;
        }
        bool braced = format.p[from] == '{';
        from += braced;
        for (to = from; to < format.n; to++) {
            char c = format.p[to];
            if (braced ? c == '}'
                       : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                           (c >= 'A' && c <= 'Z') || c == '_'))
                break;
        }
        out_str(out, expand_group(p, text, str_from_to(format, from, to)));
        i = braced ? to : to - 1;
    }
    return keep_relabel_text(l);
}

static struct str change_case(struct arena *arena, struct str s, bool upper)
{
    char *text = arena_copy(arena, s.p, s.n);
    for (size_t i = 0; i < s.n; i++) {
        char c = text[i];
        if (upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z')
            text[i] = (char)(c ^ 0x20);
    }
    return (struct str){text, s.n};
}

static struct str join_source_labels(const struct labels *l, const struct relabel_rule *r)
{
    l->text->n = 0;
    for (size_t i = 0; i < r->n_source; i++) {
        if (i)
            out_str(l->text, r->separator);
        out_str(l->text, get_relabeled(l, r->source[i]));
    }
    return keep_relabel_text(l);
}

static void map_names(struct labels *l, const struct relabel_rule *r, const struct pattern *p)
{
    size_t n = l->n;
    for (size_t i = 0; i < n && i < l->n; i++)
        if (matches_rule(l, p, l->items[i].name))
            set_relabeled(l, expand_replacement(l, p, l->items[i].name, r->replacement),
                          l->items[i].value);
}

static void filter_names(struct labels *l, const struct pattern *p, bool keep)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->n; i++)
        if (matches_rule(l, p, l->items[i].name) == keep)
            l->items[kept++] = l->items[i];
    l->n = kept;
}

static bool apply_relabel_rule(struct labels *l, const struct relabel_rule *r,
                               const struct pattern *p)
{
    struct str source = join_source_labels(l, r);
    switch (r->action) {
    case RELABEL_KEEP:
        return matches_rule(l, p, source);
    case RELABEL_DROP:
        return !matches_rule(l, p, source);
    case RELABEL_REPLACE:
        if (matches_rule(l, p, source)) {
            struct str target = expand_replacement(l, p, source, r->target);
            if (target.n)
                set_relabeled(l, target, expand_replacement(l, p, source, r->replacement));
        }
        return true;
    case RELABEL_HASHMOD:
        set_relabeled(l, r->target,
                      str_from(arena_printf(
                          l->arena, "%llu",
                          (unsigned long long)(hash_stable(source.p, source.n, 0) % r->modulus))));
        return true;
    case RELABEL_LABELMAP:
        map_names(l, r, p);
        return true;
    case RELABEL_LABELDROP:
        filter_names(l, p, false);
        return true;
    case RELABEL_LABELKEEP:
        filter_names(l, p, true);
        return true;
    case RELABEL_LOWERCASE:
    case RELABEL_UPPERCASE:
        set_relabeled(l, r->target, change_case(l->arena, source, r->action == RELABEL_UPPERCASE));
        return true;
    case RELABEL_KEEPEQUAL:
        return str_eq(source, get_relabeled(l, r->target));
    case RELABEL_DROPEQUAL:
        return !str_eq(source, get_relabeled(l, r->target));
    }
    return true;
}

static void *allocate_match(size_t size, void *arena)
{
    return arena_alloc(arena, size);
}

static void leave_to_arena(void *p, void *arena)
{
    (void)p, (void)arena;
}

struct scrape_rules *scrape_rules_new(const struct relabel_rule *rules, size_t n,
                                      struct arena *arena, struct err *e)
{
    struct scrape_rules *r = arena_alloc(arena, sizeof *r);
    *r = (struct scrape_rules){rules, arena_array(arena, n + 1, sizeof *r->patterns), n, {0}};
    out_init_arena(&r->text, arena);
    pcre2_general_context *memory =
        pcre2_general_context_create(allocate_match, leave_to_arena, arena);
    for (size_t i = 0; i < n; i++) {
        struct pattern *p = &r->patterns[i];
        pcre2_compile_context *how = pcre2_compile_context_create(memory);
        int error;
        PCRE2_SIZE at;
        p->code = pcre2_compile((PCRE2_SPTR)rules[i].pattern.p, rules[i].pattern.n,
                                PCRE2_DOLLAR_ENDONLY | PCRE2_DOTALL, &error, &at, how);
        if (!p->code) {
            err_set(e, "relabel_configs: invalid regular expression '%.*s'",
                    (int)rules[i].pattern.n, rules[i].pattern.p);
            return NULL;
        }
        p->match = pcre2_match_data_create_from_pattern(p->code, memory);
        p->limits = pcre2_match_context_create(memory);
        pcre2_set_match_limit(p->limits, MATCH_STEPS);
        pcre2_set_heap_limit(p->limits, MATCH_KIB);
    }
    return r;
}

int scrape_relabel(struct scrape_rules *rules, struct store_label **labels, size_t *n,
                   struct arena *arena, bool *keep, struct err *e)
{
    struct labels l = {.arena = arena, .text = &rules->text};
    *keep = true;
    for (size_t i = 0; i < *n; i++)
        set_relabeled(&l, (*labels)[i].name, (*labels)[i].value);
    for (size_t i = 0; *keep && i < rules->n; i++) {
        *keep = apply_relabel_rule(&l, &rules->rules[i], &rules->patterns[i]);
        if (l.too_long)
            return err_set(e, "relabel_configs: the regular expression '%.*s' takes too long",
                           (int)rules->rules[i].pattern.n, rules->rules[i].pattern.p);
    }
    *labels = l.items;
    *n = l.n;
    return 0;
}
