// Transforms of labels. They work on label sets, of which there are far fewer than samples.
#include "model/transform.h"

#include <stdlib.h>

#include "model/stream.h"
#include "model/units.h"

// --- tag filters ---

struct range {
    bool has_low, has_high;
    double low, high;
    struct str unit;
};

struct model_tag_filter {
    struct str key;
    bool is_range;
    struct range range;
    struct model_regex **regexes;
    size_t n_regexes;
};

// Parses a number with an optional unit, `[+-]?[0-9]+[a-zA-Z]*`. Returns its length, or 0.
static size_t parse_quantity(struct str s, int64_t *value, struct str *unit)
{
    size_t i = s.n && (s.p[0] == '+' || s.p[0] == '-');
    size_t digits = i;
    while (i < s.n && s.p[i] >= '0' && s.p[i] <= '9')
        i++;
    if (i == digits || !str_to_i64(str_from_to(s, 0, i), value))
        return 0;
    size_t letters = i;
    while (i < s.n && ((s.p[i] | 32) >= 'a' && (s.p[i] | 32) <= 'z'))
        i++;
    *unit = str_from_to(s, letters, i);
    return i;
}

// Parses "32kb", ":64kb", "4mb:" or "12kb:64mb". Returns false if the text is not a range but a
// regular expression.
static bool parse_range(struct str text, struct range *range)
{
    int64_t value;
    struct str unit;
    *range = (struct range){.has_high = true};
    if (text.n && text.p[0] == ':') {
        size_t n = parse_quantity(str_from_to(text, 1, text.n), &value, &unit);
        if (n == 0 || n != text.n - 1)
            return false;
        range->high = units_scale(value, unit, unit, &range->unit);
        return true;
    }
    size_t n = parse_quantity(text, &value, &unit);
    if (n == 0)
        return false;
    range->has_low = true;
    range->low = range->high = units_scale(value, unit, unit, &range->unit);
    if (n == text.n)
        return true;
    if (text.p[n] != ':')
        return false;
    if (n + 1 == text.n) {
        range->has_high = false;
        return true;
    }
    struct str rest = str_from_to(text, n + 1, text.n), unit2;
    if (parse_quantity(rest, &value, &unit) != rest.n)
        return false;
    range->high = units_scale(value, unit, range->unit, &unit2);
    return str_eq(unit2, range->unit);
}

static bool in_label_range(const struct range *range, int64_t value, struct str unit)
{
    struct str scaled_unit;
    double v = units_scale(value, unit, range->unit, &scaled_unit);
    return str_eq(scaled_unit, range->unit) && (!range->has_low || v >= range->low) &&
           (!range->has_high || v <= range->high);
}

struct model_tag_filter *model_tag_filter_new(struct arena *arena, const char *name,
                                              struct str text, bool *numeric_range, struct err *e)
{
    struct model_tag_filter *filter = arena_alloc(arena, sizeof *filter);
    size_t equals = str_find(text, STR("="), 0);
    if (equals != SIZE_MAX) {
        filter->key = str_from_to(text, 0, equals);
        text = str_from_to(text, equals + 1, text.n);
    }
    filter->is_range = parse_range(text, &filter->range);
    if (numeric_range)
        *numeric_range = filter->is_range;
    if (filter->is_range)
        return filter;
    size_t cap = 0;
    for (size_t from = 0; from != SIZE_MAX;) {
        size_t comma = str_find(text, STR(","), from);
        struct str part = str_from_to(text, from, comma == SIZE_MAX ? text.n : comma);
        filter->regexes =
            arena_push(arena, filter->regexes, filter->n_regexes, &cap, sizeof *filter->regexes);
        filter->regexes[filter->n_regexes] = model_regex_new(arena, name, part, e);
        if (!filter->regexes[filter->n_regexes++])
            return NULL;
        from = comma == SIZE_MAX ? SIZE_MAX : comma + 1;
    }
    return filter;
}

// With a key: whether any expression matches any of its values. Without one: whether every
// expression matches some "key:value".
static bool strings_match(const struct model_profile *p, const struct model_tag_filter *f,
                          const struct model_label_set *set, struct arena *arena)
{
    for (size_t r = 0; r < f->n_regexes; r++) {
        bool matched = false;
        for (uint32_t i = 0; i < set->n && !matched; i++) {
            const struct model_label *l = &p->labels[set->first + i];
            struct str key = model_str(p, l->key), value = model_str(p, l->str);
            if (l->is_number || (f->key.n && !str_eq(key, f->key)))
                continue;
            if (f->key.n) {
                matched = model_regex_match_id(f->regexes[r], p->strings, l->str);
            } else {
                char *text = arena_alloc(arena, key.n + 1 + value.n);
                memcpy(text, key.p, key.n);
                text[key.n] = ':';
                if (value.n)
                    memcpy(text + key.n + 1, value.p, value.n);
                matched = model_regex_match(f->regexes[r], (struct str){text, key.n + 1 + value.n});
            }
        }
        if (matched == (f->key.n > 0))
            return matched;
    }
    return f->key.n == 0;
}

static bool numbers_match(const struct model_profile *p, const struct model_tag_filter *f,
                          const struct model_label_set *set, const uint32_t *units)
{
    for (uint32_t i = 0; i < set->n; i++) {
        const struct model_label *l = &p->labels[set->first + i];
        if (l->is_number && (f->key.n == 0 || str_eq(model_str(p, l->key), f->key)) &&
            in_label_range(&f->range, l->number, model_str(p, units[l->key])))
            return true;
    }
    return false;
}

struct model_profile *model_filter_tags(const struct model_profile *p,
                                        struct model_tag_filter *focus,
                                        struct model_tag_filter *ignore, const uint32_t *units,
                                        bool *focus_matched, bool *ignore_matched,
                                        struct arena *arena)
{
    *focus_matched = *ignore_matched = false;
    static const struct model_label_set none;
    uint32_t n_sets = p->label_set ? p->n_label_sets : 1;
    const struct model_label_set *sets = p->label_set ? p->label_sets : &none;
    uint8_t *verdict = arena_array(arena, n_sets, sizeof *verdict);
    bool *keep = arena_array(arena, p->n_samples + 1, sizeof *keep);
    enum { JUDGED = 1, FOCUSED = 2, IGNORED = 4 };
    for (size_t i = 0; i < p->n_samples; i++) {
        uint32_t set = p->label_set ? p->label_set[i] : 0;
        if (!verdict[set]) {
            bool focused = !focus || (focus->is_range ? numbers_match(p, focus, &sets[set], units)
                                                      : strings_match(p, focus, &sets[set], arena));
            bool ignored =
                ignore && (ignore->is_range ? numbers_match(p, ignore, &sets[set], units)
                                            : strings_match(p, ignore, &sets[set], arena));
            verdict[set] = (uint8_t)(JUDGED | (focused ? FOCUSED : 0) | (ignored ? IGNORED : 0));
        }
        *focus_matched |= (verdict[set] & FOCUSED) != 0;
        *ignore_matched |= (verdict[set] & IGNORED) != 0;
        keep[i] = (verdict[set] & FOCUSED) && !(verdict[set] & IGNORED);
    }
    return model_select_samples(p, keep, arena);
}

// --- changing label sets ---

// Derives a profile whose label sets keep only the labels for which keep() returns true.
static struct model_profile *filter_labels(const struct model_profile *p,
                                           bool (*keep)(void *ctx, const struct model_label *),
                                           void *ctx, struct arena *arena)
{
    struct model_profile *to = model_profile_derive(p, arena);
    if (!p->label_set)
        return to;
    to->label_sets = arena_array(arena, p->n_label_sets, sizeof *to->label_sets);
    to->labels = arena_array(arena, p->n_labels + 1, sizeof *to->labels);
    to->n_labels = 0;
    for (uint32_t s = 0; s < p->n_label_sets; s++) {
        to->label_sets[s].first = to->n_labels;
        for (uint32_t i = 0; i < p->label_sets[s].n; i++) {
            const struct model_label *l = &p->labels[p->label_sets[s].first + i];
            if (keep(ctx, l))
                to->labels[to->n_labels++] = *l;
        }
        to->label_sets[s].n = to->n_labels - to->label_sets[s].first;
    }
    return to;
}

struct key_filter {
    const struct model_profile *p;
    struct model_regex *show, *hide;
    bool *show_matched, *hide_matched;
};

static bool keep_key(void *ctx, const struct model_label *l)
{
    struct key_filter *f = ctx;
    bool shown = !f->show || model_regex_match_id(f->show, f->p->strings, l->key);
    bool hidden = f->hide && model_regex_match_id(f->hide, f->p->strings, l->key);
    *f->show_matched |= shown;
    *f->hide_matched |= hidden;
    return shown && !hidden;
}

struct model_profile *model_filter_label_keys(const struct model_profile *p,
                                              struct model_regex *show, struct model_regex *hide,
                                              bool *show_matched, bool *hide_matched,
                                              struct arena *arena)
{
    *show_matched = *hide_matched = false;
    struct key_filter f = {p, show, hide, show_matched, hide_matched};
    return filter_labels(p, keep_key, &f, arena);
}

static bool is_not_key(void *ctx, const struct model_label *l)
{
    return l->is_number || l->key != *(uint32_t *)ctx;
}

struct model_profile *model_set_label(const struct model_profile *p, struct str key,
                                      struct str value, struct arena *arena)
{
    uint32_t id = model_intern(p->strings, key);
    struct model_profile *to = filter_labels(p, is_not_key, &id, arena);
    if (!value.p)
        return to;
    if (!p->label_set) {
        to->label_set = arena_array(arena, p->n_samples + 1, sizeof *to->label_set);
        to->label_sets = arena_alloc(arena, sizeof *to->label_sets);
        to->n_label_sets = 1;
    }
    struct model_label added = {.key = id, .str = model_intern(p->strings, value)};
    struct model_label *labels =
        arena_array(arena, to->n_labels + to->n_label_sets, sizeof *labels);
    uint32_t n = 0;
    for (uint32_t s = 0; s < to->n_label_sets; s++) {
        struct model_label_set *set = &to->label_sets[s];
        const struct model_label *from = to->labels + set->first;
        uint32_t first = n, i = 0;
        while (i < set->n && !from[i].is_number && str_cmp(model_str(p, from[i].key), key) < 0)
            labels[n++] = from[i++];
        labels[n++] = added;
        while (i < set->n)
            labels[n++] = from[i++];
        *set = (struct model_label_set){first, n - first};
    }
    to->labels = labels;
    to->n_labels = n;
    return to;
}

// --- units of numeric labels ---

struct ignored_unit {
    uint32_t key, unit;
};

static void report_conflicts(const struct model_profile *p, struct ignored_unit *ignored, size_t n,
                             const uint32_t *units, struct arena *arena,
                             void (*conflict)(void *, struct str, struct str, struct str),
                             void *ctx)
{
    for (size_t i = 0; i < n; i++) {
        if (ignored[i].key == MODEL_NONE)
            continue;
        struct str *others = arena_array(arena, n, sizeof *others);
        size_t count = 0, length = 0;
        uint32_t key = ignored[i].key;
        for (size_t k = i; k < n; k++) {
            if (ignored[k].key != key)
                continue;
            others[count] = model_str(p, ignored[k].unit);
            length += others[count++].n + 2;
            ignored[k].key = MODEL_NONE;
        }
        qsort(others, count, sizeof *others, str_compare);
        char *list = arena_alloc(arena, length + 1);
        size_t at = 0;
        for (size_t k = 0; k < count; k++) {
            if (k) {
                memcpy(list + at, ", ", 2);
                at += 2;
            }
            memcpy(list + at, others[k].p, others[k].n);
            at += others[k].n;
        }
        conflict(ctx, model_str(p, key), model_str(p, units[key]), (struct str){list, at});
    }
}

// The unit of each numeric label key: the first one that occurs.
struct unit_choice {
    struct arena *arena;
    uint32_t *units; // by key
    bool *is_key;
    struct ignored_unit *ignored;
    size_t n_ignored, cap_ignored;
};

static void choose_label_unit(struct unit_choice *c, const struct model_label *l)
{
    c->is_key[l->key] = true;
    if (!l->unit)
        return;
    if (c->units[l->key] == MODEL_NONE)
        c->units[l->key] = l->unit;
    if (c->units[l->key] == l->unit)
        return;
    for (size_t i = 0; i < c->n_ignored; i++)
        if (c->ignored[i].key == l->key && c->ignored[i].unit == l->unit)
            return;
    c->ignored =
        arena_push(c->arena, c->ignored, c->n_ignored, &c->cap_ignored, sizeof *c->ignored);
    c->ignored[c->n_ignored++] = (struct ignored_unit){l->key, l->unit};
}

static void choose_units_of_samples(struct unit_choice *c, const struct model_profile *p)
{
    bool *seen = arena_array(c->arena, p->n_label_sets, sizeof *seen);
    for (size_t i = 0; i < p->n_samples; i++) {
        const struct model_label_set *set = &p->label_sets[p->label_set[i]];
        if (seen[p->label_set[i]])
            continue;
        seen[p->label_set[i]] = true;
        for (uint32_t k = 0; k < set->n; k++)
            if (p->labels[set->first + k].is_number)
                choose_label_unit(c, &p->labels[set->first + k]);
    }
}

uint32_t *model_label_units(const struct model_profile *p, struct arena *arena,
                            void (*conflict)(void *ctx, struct str key, struct str used,
                                             struct str others),
                            void *ctx)
{
    size_t n_strings = p->strings->n;
    struct unit_choice c = {.arena = arena};
    c.units = arena_array(arena, n_strings + 1, sizeof *c.units);
    memset(c.units, 0xff, n_strings * sizeof *c.units);
    if (p->stream ? !p->stream->has_labels : !p->label_set)
        return c.units;
    c.is_key = arena_array(arena, n_strings + 1, sizeof *c.is_key);
    if (p->stream)
        for (size_t i = 0; i < p->stream->n_number_labels; i++)
            choose_label_unit(&c, &p->stream->number_labels[i]);
    else
        choose_units_of_samples(&c, p);
    uint32_t *units = c.units;
    uint32_t bytes = model_intern(p->strings, STR("bytes"));
    for (uint32_t id = 0; id < n_strings; id++) {
        if (!c.is_key[id] || units[id] != MODEL_NONE)
            continue;
        struct str key = model_str(p, id);
        units[id] = str_eq(key, STR("alignment")) || str_eq(key, STR("request")) ? bytes : id;
    }
    if (conflict)
        report_conflicts(p, c.ignored, c.n_ignored, units, arena, conflict, ctx);
    return units;
}

// --- pseudo frames ---

struct label_frames {
    struct model_profile *to;
    struct arena *arena;
    struct str unit;
    uint64_t last_function_id, last_location_id;
    struct hash_table index;
};

static const struct model_function *pseudo_function_of(const struct model_profile *p,
                                                       uint32_t location)
{
    return &p->functions[p->lines[p->locations[location].first_line].function];
}

static uint32_t pseudo_frame(struct label_frames *f, uint32_t name, uint32_t file)
{
    struct model_profile *to = f->to;
    uint64_t hash = hash_mix(name, file);
    for (struct hash_probe at = hash_find(&f->index, hash); hash_hit(&f->index, &at);
         hash_next(&f->index, &at)) {
        const struct model_function *fn = pseudo_function_of(to, at.item);
        if (fn->name == name && fn->filename == file)
            return at.item;
    }
    to->functions[to->n_functions] =
        (struct model_function){.id = ++f->last_function_id, .name = name, .filename = file};
    to->lines[to->n_lines] = (struct model_line){.function = to->n_functions++};
    to->locations[to->n_locations] = (struct model_location){.id = ++f->last_location_id,
                                                             .mapping = MODEL_NONE,
                                                             .first_line = to->n_lines++,
                                                             .n_lines = 1};
    hash_add(&f->index, f->arena, hash, to->n_locations);
    return to->n_locations++;
}

// Joins the values of one key in a label set by commas. Sets *any if there are values.
static uint32_t joined_values(struct label_frames *f, const struct model_label_set *set,
                              struct str key, bool *any)
{
    struct model_profile *p = f->to;
    char *text = NULL;
    size_t n = 0, cap = 0;
    bool has_units = false;
    for (uint32_t i = 0; i < set->n; i++) {
        const struct model_label *l = &p->labels[set->first + i];
        has_units |= l->is_number && l->unit && str_eq(model_str(p, l->key), key);
    }
    for (uint32_t i = 0; i < set->n; i++) {
        const struct model_label *l = &p->labels[set->first + i];
        if (!str_eq(model_str(p, l->key), key))
            continue;
        char number[256];
        struct str value = model_str(p, l->str);
        if (l->is_number)
            value = (struct str){number,
                                 units_label(number, sizeof number, l->number,
                                             model_str(p, l->unit), has_units ? f->unit : STR(""))};
        while (cap < n + value.n + 1)
            text = arena_push(f->arena, text, cap, &cap, 1);
        if (*any)
            text[n++] = ',';
        if (value.n)
            memcpy(text + n, value.p, value.n);
        n += value.n;
        *any = true;
    }
    return model_intern(p->strings, (struct str){text, n});
}

static uint32_t split_keys(struct str keys, struct arena *arena, struct str **list)
{
    uint32_t n = 0;
    size_t cap = 0;
    *list = NULL;
    for (size_t from = 0; from <= keys.n;) {
        size_t comma = str_find(keys, STR(","), from);
        if (comma == SIZE_MAX)
            comma = keys.n;
        if (comma > from) {
            *list = arena_push(arena, *list, n, &cap, sizeof **list);
            (*list)[n++] = str_from_to(keys, from, comma);
        }
        from = comma + 1;
    }
    return n;
}

// The last key comes first, because frames are ordered from leaf to root.
static bool make_frames(struct label_frames *f, const struct model_label_set *set,
                        const struct str *keys, uint32_t n, uint32_t *frames)
{
    bool matched = false;
    for (uint32_t i = 0; i < n; i++) {
        bool any = false;
        struct str key = keys[n - 1 - i];
        uint32_t name = joined_values(f, set, key, &any);
        frames[i] = pseudo_frame(f, name, model_intern(f->to->strings, key));
        matched |= any;
    }
    return matched;
}

static void unshare_tables(struct label_frames *f, size_t added)
{
    struct model_profile *to = f->to;
    struct model_function *functions =
        arena_array(f->arena, to->n_functions + added + 1, sizeof *functions);
    struct model_location *locations =
        arena_array(f->arena, to->n_locations + added + 1, sizeof *locations);
    struct model_line *lines = arena_array(f->arena, to->n_lines + added + 1, sizeof *lines);
    for (uint32_t i = 0; i < to->n_functions; i++) {
        functions[i] = to->functions[i];
        if (functions[i].id > f->last_function_id)
            f->last_function_id = functions[i].id;
    }
    for (uint32_t i = 0; i < to->n_locations; i++) {
        locations[i] = to->locations[i];
        if (locations[i].id > f->last_location_id)
            f->last_location_id = locations[i].id;
    }
    if (to->n_lines)
        memcpy(lines, to->lines, to->n_lines * sizeof *lines);
    to->functions = functions;
    to->locations = locations;
    to->lines = lines;
    hash_init(&f->index, f->arena, 16);
}

struct model_profile *model_add_label_frames(const struct model_profile *p, struct str root_keys,
                                             struct str leaf_keys, struct str unit,
                                             bool *root_matched, bool *leaf_matched,
                                             struct arena *arena)
{
    *root_matched = *leaf_matched = false;
    struct str *roots, *leaves;
    uint32_t n_roots = split_keys(root_keys, arena, &roots);
    uint32_t n_leaves = split_keys(leaf_keys, arena, &leaves), n = n_roots + n_leaves;
    struct label_frames f = {.to = model_profile_derive(p, arena), .arena = arena, .unit = unit};
    if (n == 0)
        return f.to;
    static const struct model_label_set none;
    uint32_t n_sets = p->label_set ? p->n_label_sets : 1;
    const struct model_label_set *sets = p->label_set ? p->label_sets : &none;
    unshare_tables(&f, (size_t)n_sets * n);

    uint32_t *made = arena_array(arena, (size_t)n_sets * n, sizeof *made);
    bool *done = arena_array(arena, n_sets, sizeof *done);
    size_t total = 0;
    for (size_t i = 0; i < p->n_samples; i++)
        total += p->stack_len[i] + n;
    uint32_t *frames = arena_array(arena, total + 1, sizeof *frames);
    uint32_t **stacks = arena_array(arena, p->n_samples + 1, sizeof *stacks);
    uint32_t *len = arena_array(arena, p->n_samples + 1, sizeof *len);
    for (size_t i = 0; i < p->n_samples; i++) {
        uint32_t set = p->label_set ? p->label_set[i] : 0;
        uint32_t *root_frames = made + (size_t)set * n, *leaf_frames = root_frames + n_roots;
        if (!done[set]) {
            done[set] = true;
            *root_matched |= make_frames(&f, &sets[set], roots, n_roots, root_frames);
            *leaf_matched |= make_frames(&f, &sets[set], leaves, n_leaves, leaf_frames);
        }
        stacks[i] = frames;
        len[i] = p->stack_len[i] + n;
        memcpy(frames, leaf_frames, n_leaves * sizeof *frames);
        frames += n_leaves;
        if (p->stack_len[i])
            memcpy(frames, model_stack(p, i), p->stack_len[i] * sizeof *frames);
        frames += p->stack_len[i];
        memcpy(frames, root_frames, n_roots * sizeof *frames);
        frames += n_roots;
    }
    f.to->stacks = stacks;
    f.to->stack_len = len;
    return f.to;
}
