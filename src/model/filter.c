// Filters over frames. Each regular expression is matched once per distinct string, and each
// location is classified once. The samples then need one pass over indices; encoded ones are
// filtered whenever they are decoded.
#include "model/stream.h"
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

// --- samples ---

// What to do with a stack, by the verdicts on its locations.
struct stack_rule {
    // Narrows the stack of a sample. Returns whether the sample stays. Writes a stack with gaps to
    // `to`, which may be the stack itself.
    bool (*cut)(const struct stack_rule *rule, uint32_t **stack, uint32_t *n, uint32_t *to);
    const uint8_t *verdicts; // by location
    const bool *hidden;      // by location; NULL: stacks get no gaps
};

// Samples that stay encoded, and the rule for them.
struct ruled_stream {
    struct model_stream stream;
    const struct model_stream *encoded;
    struct stack_rule rule;
};

// Applies the rule to columns that nobody shares.
static void cut_columns(const struct stack_rule *rule, struct model_profile *w, unsigned what)
{
    size_t n = 0, n_types = w->n_types;
    for (size_t i = 0; i < w->n_samples; i++) {
        if (!rule->cut(rule, &w->stacks[i], &w->stack_len[i], w->stacks[i]))
            continue;
        if (n != i) {
            w->stacks[n] = w->stacks[i];
            w->stack_len[n] = w->stack_len[i];
            memcpy(w->values + n * n_types, w->values + i * n_types, n_types * sizeof *w->values);
            if (w->label_set)
                w->label_set[n] = w->label_set[i];
            if (what & MODEL_WITH_SQUARES)
                w->squares[n] = w->squares[i];
        }
        n++;
    }
    w->n_samples = n;
}

static void read_ruled_window(const struct model_stream *stream, size_t index, unsigned what,
                              struct model_window *window)
{
    const struct ruled_stream *s = (const struct ruled_stream *)stream;
    s->encoded->read(s->encoded, index, what, window);
    cut_columns(&s->rule, &window->p, what);
}

static void decode_ruled(const struct model_stream *stream, struct model_profile *p)
{
    const struct ruled_stream *s = (const struct ruled_stream *)stream;
    s->encoded->decode(s->encoded, p);
    cut_columns(&s->rule, p, p->squares ? MODEL_WITH_SQUARES : 0);
}

static void copy_stack_columns(struct model_profile *to)
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

// Applies the rule to the samples of a derived profile.
static struct model_profile *apply_rule(struct model_profile *to, struct stack_rule rule)
{
    if (to->stream) {
        struct ruled_stream *s = arena_alloc(to->arena, sizeof *s);
        *s = (struct ruled_stream){*to->stream, to->stream, rule};
        s->stream.read = read_ruled_window;
        s->stream.decode = decode_ruled;
        to->stream = &s->stream;
        return to;
    }
    size_t n_frames = 0;
    for (size_t i = 0; rule.hidden && i < to->n_samples; i++)
        n_frames += to->stack_len[i];
    arena_spend(to->arena, to->n_samples / 8);
    uint32_t *frames = arena_array(to->arena, n_frames + 1, sizeof *frames);
    bool *keep = arena_array(to->arena, to->n_samples + 1, sizeof *keep);
    copy_stack_columns(to);
    for (size_t i = 0; i < to->n_samples; i++) {
        arena_spend(to->arena, 1 + to->stack_len[i]);
        keep[i] = rule.cut(&rule, &to->stacks[i], &to->stack_len[i], frames);
        if (rule.hidden && keep[i])
            frames += to->stack_len[i];
    }
    return model_select_samples(to, keep, to->arena);
}

// --- focus, ignore, hide, show ---

enum verdict { PASSED_OVER, FOCUSED, IGNORED };

// Keeps a stack with a focused frame and no ignored one, without its hidden frames.
static bool cut_focused(const struct stack_rule *rule, uint32_t **stack, uint32_t *n, uint32_t *to)
{
    const uint32_t *frames = *stack;
    bool focused = false;
    for (uint32_t i = 0; i < *n; i++) {
        if (rule->verdicts[frames[i]] == IGNORED)
            return false;
        focused |= rule->verdicts[frames[i]] == FOCUSED;
    }
    if (!focused || !rule->hidden)
        return focused;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < *n; i++) {
        uint32_t frame = frames[i];
        to[kept] = frame;
        kept += !rule->hidden[frame];
    }
    *stack = to;
    *n = kept;
    return kept > 0;
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
    struct stack_rule rule = {cut_focused, verdicts, any_hidden ? hidden : NULL};
    return apply_rule(to, rule);
}

// --- show_from ---

// Cuts a stack above its outermost root.
static bool cut_above_root(const struct stack_rule *rule, uint32_t **stack, uint32_t *n,
                           uint32_t *to)
{
    (void)to;
    for (uint32_t k = *n; k-- > 0;) {
        if (rule->verdicts[(*stack)[k]]) {
            *n = k + 1;
            return true;
        }
    }
    return false;
}

struct model_profile *model_show_from(const struct model_profile *p, struct model_regex *regex,
                                      bool *matched, struct arena *arena)
{
    struct model_profile *to = model_profile_derive(p, arena);
    unshare_locations(to);
    *matched = false;
    uint8_t *roots = arena_array(arena, p->n_locations + 1, sizeof *roots);
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
    return apply_rule(to, (struct stack_rule){cut_above_root, roots, NULL});
}

// --- pruning ---

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

// Cuts a stack below its innermost match.
static bool cut_below_match(const struct stack_rule *rule, uint32_t **stack, uint32_t *n,
                            uint32_t *to)
{
    (void)to;
    for (uint32_t k = 0; k < *n; k++) {
        if (rule->verdicts[(*stack)[k]]) {
            *stack += k;
            *n -= k;
            break;
        }
    }
    return true;
}

struct model_profile *model_prune_from(const struct model_profile *p, struct model_regex *regex,
                                       struct arena *arena)
{
    struct model_profile *to = model_profile_derive(p, arena);
    unshare_locations(to);
    struct pruner pruner = {.drop = regex, .known = arena_alloc(arena, p->strings->n)};
    uint8_t *from_here = arena_array(arena, p->n_locations + 1, sizeof *from_here);
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
    return apply_rule(to, (struct stack_rule){cut_below_match, from_here, NULL});
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

// Cuts a stack below its outermost frame that is not pruned.
static bool cut_uninteresting(const struct stack_rule *rule, uint32_t **stack, uint32_t *n,
                              uint32_t *to)
{
    (void)to;
    bool found_user = false;
    for (uint32_t k = *n; k-- > 0;) {
        uint8_t prune = rule->verdicts[(*stack)[k]];
        if (prune == KEPT) {
            found_user = true;
        } else if (found_user) {
            uint32_t cut = prune == WHOLE ? k + 1 : k;
            *stack += cut;
            *n -= cut;
            break;
        }
    }
    return true;
}

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
    return apply_rule(to, (struct stack_rule){cut_uninteresting, prune, NULL});
}
