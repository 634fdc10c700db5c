// Filters over frames. Each regular expression is matched once per distinct string, and each
// location is classified once. The samples then need one pass over indices.
#include "model/transform.h"

static bool function_matches(const struct model_profile *p, uint32_t line, struct model_regex *re)
{
    const struct model_function *f = &p->functions[p->lines[line].function];
    return model_regex_match_id(re, p->strings, f->name) ||
           model_regex_match_id(re, p->strings, f->filename);
}

static bool mapping_matches(const struct model_profile *p, const struct model_location *l,
                            struct model_regex *re)
{
    return l->mapping != MODEL_NONE &&
           model_regex_match_id(re, p->strings, p->mappings[l->mapping].file);
}

static bool location_matches(const struct model_profile *p, const struct model_location *l,
                             struct model_regex *re)
{
    for (uint32_t i = 0; i < l->n_lines; i++)
        if (function_matches(p, l->first_line + i, re))
            return true;
    return mapping_matches(p, l, re);
}

// Copies the locations and lines of a derived profile so that they can be narrowed in place: a
// location only loses lines.
static void unshare_locations(struct model_profile *to)
{
    const struct model_location *locations = to->locations;
    const struct model_line *lines = to->lines;
    to->locations = arena_array(to->arena, to->n_locations + 1, sizeof *to->locations);
    to->lines = arena_array(to->arena, to->n_lines + 1, sizeof *to->lines);
    if (to->n_locations)
        memcpy(to->locations, locations, to->n_locations * sizeof *locations);
    if (to->n_lines)
        memcpy(to->lines, lines, to->n_lines * sizeof *lines);
}

static void keep_lines(struct model_profile *to, struct model_location *l, struct model_regex *re,
                       bool matching)
{
    if (mapping_matches(to, l, re)) {
        if (!matching)
            l->n_lines = 0;
        return;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < l->n_lines; i++)
        if (function_matches(to, l->first_line + i, re) == matching)
            to->lines[l->first_line + kept++] = to->lines[l->first_line + i];
    l->n_lines = kept;
}

enum verdict { PASSED_OVER, FOCUSED, IGNORED };

// Whether a stack has a focused frame and no ignored one.
static bool is_wanted_stack(const uint8_t *verdicts, const uint32_t *frames, uint32_t n)
{
    bool focused = false;
    for (uint32_t i = 0; i < n; i++) {
        if (verdicts[frames[i]] == IGNORED)
            return false;
        focused |= verdicts[frames[i]] == FOCUSED;
    }
    return focused;
}

// Removes the hidden locations from the stacks of the kept samples. Clears keep for samples without
// frames left.
static void hide_frames(struct model_profile *to, const bool *hidden, bool *keep)
{
    size_t total = 0;
    for (size_t i = 0; i < to->n_samples; i++) {
        arena_spend(to->arena, 1);
        total += keep[i] ? to->stack_len[i] : 0;
    }
    uint32_t *frames = arena_array(to->arena, total + 1, sizeof *frames);
    uint32_t **stacks = arena_array(to->arena, to->n_samples + 1, sizeof *stacks);
    uint32_t *len = arena_array(to->arena, to->n_samples + 1, sizeof *len);
    for (size_t i = 0; i < to->n_samples; i++) {
        if (!keep[i])
            continue;
        const uint32_t *stack = model_stack(to, i);
        arena_spend(to->arena, to->stack_len[i]);
        stacks[i] = frames;
        for (uint32_t k = 0; k < to->stack_len[i]; k++)
            if (!hidden[stack[k]])
                *frames++ = stack[k];
        len[i] = (uint32_t)(frames - stacks[i]);
        keep[i] = len[i] > 0;
    }
    to->stacks = stacks;
    to->stack_len = len;
}

struct model_profile *model_filter_frames(const struct model_profile *p, struct model_regex *focus,
                                          struct model_regex *ignore, struct model_regex *hide,
                                          struct model_regex *show, bool *matched,
                                          struct arena *arena)
{
    struct model_profile *to = model_profile_derive(p, arena);
    memset(matched, 0, 4 * sizeof *matched);
    matched[0] = !focus && !ignore && !hide && !show;
    if (matched[0])
        return to;
    uint8_t *verdicts = arena_array(arena, p->n_locations + 1, sizeof *verdicts);
    bool *hidden = arena_array(arena, p->n_locations + 1, sizeof *hidden);
    bool any_hidden = false;
    if (hide || show)
        unshare_locations(to);
    for (uint32_t i = 0; i < p->n_locations; i++) {
        const struct model_location *l = &p->locations[i];
        arena_spend(arena, 1 + l->n_lines);
        if (ignore && location_matches(p, l, ignore)) {
            verdicts[i] = IGNORED;
            matched[1] = true;
        } else if (!focus || location_matches(p, l, focus)) {
            verdicts[i] = FOCUSED;
            matched[0] = true;
        }
        if (hide && location_matches(p, l, hide)) {
            matched[2] = true;
            keep_lines(to, &to->locations[i], hide, false);
            hidden[i] = to->locations[i].n_lines == 0;
        }
        if (show) {
            keep_lines(to, &to->locations[i], show, true);
            if (to->locations[i].n_lines == 0)
                hidden[i] = true;
            else
                matched[3] = true;
        }
        any_hidden |= hidden[i];
    }
    bool *keep = arena_array(arena, p->n_samples + 1, sizeof *keep);
    for (size_t i = 0; i < p->n_samples; i++) {
        arena_spend(arena, 1 + p->stack_len[i]);
        keep[i] = is_wanted_stack(verdicts, model_stack(p, i), p->stack_len[i]);
    }
    if (any_hidden)
        hide_frames(to, hidden, keep);
    return model_select_samples(to, keep, arena);
}

// Copies the columns for the starts and lengths of stacks, so that they can be narrowed in place.
static void unshare_stacks(struct model_profile *to)
{
    uint32_t *const *stacks = to->stacks;
    const uint32_t *len = to->stack_len;
    to->stacks = arena_array(to->arena, to->n_samples + 1, sizeof *stacks);
    to->stack_len = arena_array(to->arena, to->n_samples + 1, sizeof *len);
    if (to->n_samples) {
        memcpy(to->stacks, stacks, to->n_samples * sizeof *stacks);
        memcpy(to->stack_len, len, to->n_samples * sizeof *len);
    }
}

// Removes the n frames nearest the leaf.
static void cut_leaves(struct model_profile *to, size_t sample, uint32_t n)
{
    to->stacks[sample] += n;
    to->stack_len[sample] -= n;
}

struct model_profile *model_show_from(const struct model_profile *p, struct model_regex *regex,
                                      bool *matched, struct arena *arena)
{
    struct model_profile *to = model_profile_derive(p, arena);
    unshare_locations(to);
    unshare_stacks(to);
    *matched = false;
    bool *roots = arena_array(arena, p->n_locations + 1, sizeof *roots);
    for (uint32_t i = 0; i < p->n_locations; i++) {
        struct model_location *l = &to->locations[i];
        arena_spend(arena, 1 + l->n_lines);
        roots[i] = mapping_matches(p, l, regex);
        for (uint32_t k = l->n_lines; !roots[i] && k-- > 0;) {
            if (function_matches(p, l->first_line + k, regex)) {
                l->n_lines = k + 1;
                roots[i] = true;
            }
        }
        *matched |= roots[i];
    }
    bool *keep = arena_array(arena, p->n_samples + 1, sizeof *keep);
    for (size_t i = 0; i < p->n_samples; i++) {
        const uint32_t *frames = model_stack(p, i);
        arena_spend(arena, 1 + p->stack_len[i]);
        for (uint32_t k = p->stack_len[i]; !keep[i] && k-- > 0;) {
            if (roots[frames[k]]) {
                to->stack_len[i] = k + 1;
                keep[i] = true;
            }
        }
    }
    return model_select_samples(to, keep, arena);
}

// Returns a function's name without a leading dot and without its argument list.
static struct str simplify_function_name(struct str name)
{
    static const struct str kept[] = {STR("(anonymous namespace)"), STR("operator()")};
    if (name.n && name.p[0] == '.')
        name = str_from_to(name, 1, name.n);
    for (size_t i = 0; i < name.n; i++) {
        struct str rest = str_from_to(name, i, name.n);
        if (str_starts(rest, kept[0]))
            i += kept[0].n - 1;
        else if (str_starts(rest, kept[1]))
            i += kept[1].n - 1;
        else if (name.p[i] == '(')
            return str_from_to(name, 0, i);
    }
    return name;
}

// Caches per function name whether drop matches its simplified form and keep does not.
struct pruner {
    struct model_regex *drop, *keep;
    uint8_t *known; // by string id: 0 unknown, 1 no, 2 yes
};

static bool is_pruned_line(struct pruner *pruner, const struct model_profile *p, uint32_t line)
{
    uint32_t name = p->functions[p->lines[line].function].name;
    if (name == 0)
        return false;
    if (!pruner->known[name]) {
        struct str simple = simplify_function_name(model_str(p, name));
        bool yes = model_regex_match(pruner->drop, simple) &&
                   !(pruner->keep && model_regex_match(pruner->keep, simple));
        pruner->known[name] = yes ? 2 : 1;
    }
    return pruner->known[name] == 2;
}

struct model_profile *model_prune_from(const struct model_profile *p, struct model_regex *regex,
                                       struct arena *arena)
{
    struct model_profile *to = model_profile_derive(p, arena);
    unshare_locations(to);
    unshare_stacks(to);
    struct pruner pruner = {.drop = regex, .known = arena_alloc(arena, p->strings->n)};
    bool *from_here = arena_array(arena, p->n_locations + 1, sizeof *from_here);
    for (uint32_t i = 0; i < p->n_locations; i++) {
        struct model_location *l = &to->locations[i];
        arena_spend(arena, 1 + l->n_lines);
        for (uint32_t k = 0; k < l->n_lines && !from_here[i]; k++) {
            if (is_pruned_line(&pruner, p, l->first_line + k)) {
                from_here[i] = true;
                l->first_line += k;
                l->n_lines -= k;
            }
        }
    }
    for (size_t i = 0; i < p->n_samples; i++) {
        const uint32_t *frames = model_stack(p, i);
        arena_spend(arena, 1 + p->stack_len[i]);
        for (uint32_t k = 0; k < p->stack_len[i]; k++) {
            if (from_here[frames[k]]) {
                cut_leaves(to, i, k);
                break;
            }
        }
    }
    return to;
}

static struct model_regex *whole_name_regex(const struct model_profile *p, uint32_t alternatives,
                                            struct arena *arena)
{
    if (!alternatives)
        return NULL;
    struct str s = model_str(p, alternatives);
    char *pattern = arena_printf(arena, "^(%.*s)$", (int)s.n, s.p);
    return model_regex_new(arena, "drop_frames", str_from(pattern), NULL);
}

enum { KEPT, BENEATH, WHOLE }; // what to prune at a location

struct model_profile *model_drop_uninteresting(const struct model_profile *p, struct arena *arena)
{
    struct model_profile *to = model_profile_derive(p, arena);
    struct pruner pruner = {
        .drop = whole_name_regex(p, p->drop_frames, arena),
        .keep = whole_name_regex(p, p->keep_frames, arena),
        .known = arena_alloc(arena, p->strings->n),
    };
    // If an expression does not compile, show the whole profile.
    if (!pruner.drop || (p->keep_frames && !pruner.keep))
        return to;
    unshare_locations(to);
    unshare_stacks(to);
    uint8_t *prune = arena_array(arena, p->n_locations + 1, sizeof *prune);
    for (uint32_t i = 0; i < p->n_locations; i++) {
        struct model_location *l = &to->locations[i];
        arena_spend(arena, 1 + l->n_lines);
        for (uint32_t k = l->n_lines; prune[i] == KEPT && k-- > 0;) {
            if (!is_pruned_line(&pruner, p, l->first_line + k))
                continue;
            prune[i] = k + 1 == l->n_lines ? WHOLE : BENEATH;
            if (prune[i] == BENEATH) {
                l->first_line += k + 1;
                l->n_lines -= k + 1;
            }
        }
    }
    for (size_t i = 0; i < p->n_samples; i++) {
        const uint32_t *frames = model_stack(p, i);
        bool found_user = false;
        arena_spend(arena, 1 + p->stack_len[i]);
        for (uint32_t k = p->stack_len[i]; k-- > 0;) {
            if (prune[frames[k]] == KEPT) {
                found_user = true;
            } else if (found_user) {
                cut_leaves(to, i, prune[frames[k]] == WHOLE ? k + 1 : k);
                break;
            }
        }
    }
    return to;
}
