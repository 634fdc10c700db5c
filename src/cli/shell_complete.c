#include "cli/shell_complete.h"

#include <stdlib.h>

#include "cli/config.h"
#include "cli/view.h"

struct collector {
    struct arena *arena;
    struct str prefix;
    const char **list;
    size_t n, cap;
};

static void offer_candidate(struct collector *c, const char *text)
{
    if (!str_starts(str_from(text), c->prefix))
        return;
    c->list = arena_push(c->arena, c->list, c->n, &c->cap, sizeof *c->list);
    c->list[c->n++] = text;
}

static int compare_candidates(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void sort_distinct(struct collector *c)
{
    size_t kept = 0;
    if (c->n)
        qsort(c->list, c->n, sizeof *c->list, compare_candidates);
    for (size_t i = 0; i < c->n; i++)
        if (kept == 0 || strcmp(c->list[kept - 1], c->list[i]) != 0)
            c->list[kept++] = c->list[i];
    c->n = kept;
}

// A regular expression without blanks that matches the name.
static const char *as_regex(struct arena *arena, struct str name)
{
    char *text = arena_alloc(arena, name.n * 2 + 1);
    size_t n = 0;
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        if (strchr("()[]{}*+?^$|\\", c) && c)
            text[n++] = '\\';
        text[n++] = c == ' ' || c == '\t' || c == '\0' ? '.' : c;
    }
    return text;
}

static void offer_functions(struct collector *c, const struct model_profile *p)
{
    bool *seen = arena_array(c->arena, p->strings->n + 1, sizeof *seen);
    const char **others = NULL;
    size_t n_others = 0, cap = 0;
    for (uint32_t i = 0; i < p->n_functions; i++) {
        uint32_t name = p->functions[i].name;
        if (seen[name])
            continue;
        seen[name] = true;
        const char *regex = as_regex(c->arena, model_str(p, name));
        offer_candidate(c, regex);
        if (c->prefix.n && str_find(str_from(regex), c->prefix, 0) != SIZE_MAX) {
            others = arena_push(c->arena, others, n_others, &cap, sizeof *others);
            others[n_others++] = regex;
        }
    }
    // Nothing has this prefix: offer names that contain it.
    if (c->n == 0) {
        c->list = others;
        c->n = n_others;
        c->cap = cap;
    }
}

static void offer_options(struct collector *c, bool equals)
{
    for (const struct config_field *f = config_fields; f->name; f++)
        offer_candidate(c, equals && f->kind != CONFIG_BOOL ? arena_printf(c->arena, "%s=", f->name)
                                                            : f->name);
}

static void offer_first_words(struct collector *c, const struct model_profile *p)
{
    static const char *const words[] = {"help", "options", "quit", "exit"};
    for (const struct view_command *v = view_commands; v->name; v++)
        offer_candidate(c, v->name);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        offer_candidate(c, words[i]);
    offer_options(c, true);
    for (uint32_t i = 0; i < p->n_types; i++) {
        struct str type = model_str(p, p->types[i].type);
        offer_candidate(c, arena_copy(c->arena, type.p, type.n));
    }
}

// Offers the values that may follow `name=`.
static void offer_values(struct collector *c, const struct model_profile *p, struct str name)
{
    const struct config_field *f = config_find(arena_copy(c->arena, name.p, name.n));
    if (!f)
        return;
    if (strcmp(f->name, "sample_index") == 0) {
        for (uint32_t i = 0; i < p->n_types; i++) {
            struct str type = model_str(p, p->types[i].type);
            offer_candidate(c, arena_copy(c->arena, type.p, type.n));
        }
    } else if (f->kind == CONFIG_BOOL) {
        offer_candidate(c, "true");
        offer_candidate(c, "false");
    } else if (f->kind == CONFIG_CHOICE) {
        for (const char *const *choice = f->choices; *choice; choice++)
            offer_candidate(c, *choice);
    } else if (strstr("focus ignore hide show show_from prune_from", f->name)) {
        offer_functions(c, p);
    }
}

struct shell_completion shell_complete(const struct model_profile *p, struct str before,
                                       struct arena *arena)
{
    size_t first = 0;
    while (first < before.n && before.p[first] == ' ')
        first++;
    size_t first_end = first;
    while (first_end < before.n && before.p[first_end] != ' ')
        first_end++;
    size_t word = before.n;
    while (word > first && before.p[word - 1] != ' ')
        word--;
    struct str command = str_from_to(before, first, first_end);
    size_t equals = str_find(command, STR("="), 0);
    struct collector c = {.arena = arena, .prefix = str_from_to(before, word, before.n)};
    struct shell_completion result = {.is_command = false};
    if (first_end == before.n && equals == SIZE_MAX) {
        offer_first_words(&c, p);
        result.is_command = true;
    } else if (equals != SIZE_MAX && first_end == before.n) {
        c.prefix = str_from_to(before, first + equals + 1, before.n);
        offer_values(&c, p, str_from_to(command, 0, equals));
    } else if (str_eq(command, STR("help"))) {
        for (const struct view_command *v = view_commands; v->name; v++)
            offer_candidate(&c, v->name);
        offer_options(&c, false);
    } else if (!str_eq(command, STR("tags"))) {
        if (c.prefix.n && c.prefix.p[0] == '-')
            c.prefix = str_from_to(c.prefix, 1, c.prefix.n);
        offer_functions(&c, p);
    }
    sort_distinct(&c);
    result.replace = c.prefix.n;
    result.list = c.list;
    result.n = c.n;
    return result;
}

size_t shell_completion_common(const struct shell_completion *c)
{
    if (c->n == 0)
        return 0;
    size_t n = strlen(c->list[0]);
    for (size_t i = 1; i < c->n; i++)
        for (size_t k = 0; k < n; k++)
            if (c->list[i][k] != c->list[0][k])
                n = k;
    return n;
}
