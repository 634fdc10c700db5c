#include "model/transform.h"

#include <math.h>

#include "model/events.h"
#include "model/stream.h"
#include "model/units.h"

static bool same_value_type(const struct model_profile *a, struct model_value_type x,
                            const struct model_profile *b, struct model_value_type y)
{
    return str_eq(model_str(a, x.type), model_str(b, y.type)) &&
           str_eq(model_str(a, x.unit), model_str(b, y.unit));
}

struct model_profile *model_select_samples(const struct model_profile *p, const bool *keep,
                                           struct arena *arena)
{
    struct model_profile *to = model_profile_derive(p, arena);
    size_t n = 0;
    for (size_t i = 0; i < p->n_samples; i++)
        n += keep[i];
    if (n == p->n_samples)
        return to;
    to->n_samples = n;
    to->values = arena_array(arena, n * p->n_types, sizeof *to->values);
    to->stacks = arena_array(arena, n, sizeof *to->stacks);
    to->stack_len = arena_array(arena, n, sizeof *to->stack_len);
    if (p->label_set)
        to->label_set = arena_array(arena, n, sizeof *to->label_set);
    if (p->squares)
        to->squares = arena_array(arena, n, sizeof *to->squares);
    for (size_t i = 0, k = 0; i < p->n_samples; i++) {
        if (!keep[i])
            continue;
        memcpy(to->values + k * p->n_types, model_values(p, i), p->n_types * sizeof *p->values);
        to->stacks[k] = p->stacks[i];
        to->stack_len[k] = p->stack_len[i];
        if (p->label_set)
            to->label_set[k] = p->label_set[i];
        if (p->squares)
            to->squares[k] = p->squares[i];
        k++;
    }
    return to;
}

// Scaling keeps the number of events and multiplies their weight. If the columns have different
// ratios, that of the period's type decides.
static void scale_squares(struct model_profile *to, const struct model_profile *p,
                          const double *ratios, struct arena *arena)
{
    double ratio = p->n_types ? ratios[0] : 1;
    for (uint32_t t = 0; t < p->n_types; t++)
        if (p->types[t].type == p->period_type.type)
            ratio = ratios[t];
    if (!p->is_weighed)
        return;
    to->squares = arena_array(arena, p->n_samples + 1, sizeof *to->squares);
    for (size_t i = 0; i < p->n_samples; i++)
        to->squares[i] = model_squares(p, i) * ratio * ratio;
}

struct model_profile *model_scale(const struct model_profile *p, const double *ratios,
                                  struct arena *arena)
{
    bool changes = false;
    for (uint32_t t = 0; t < p->n_types; t++)
        changes |= ratios[t] != 1;
    if (changes)
        p = model_decode_samples(p, arena);
    struct model_profile *to = model_profile_derive(p, arena);
    if (!changes)
        return to;
    to->values = arena_array(arena, p->n_samples * p->n_types, sizeof *to->values);
    bool *keep = arena_array(arena, p->n_samples, sizeof *keep);
    scale_squares(to, p, ratios, arena);
    for (size_t i = 0; i < p->n_samples; i++) {
        for (uint32_t t = 0; t < p->n_types; t++) {
            int64_t v = model_values(p, i)[t];
            if (ratios[t] != 1) {
                v = units_truncate(round((double)v * ratios[t]));
                keep[i] |= v != 0;
            }
            to->values[i * p->n_types + t] = v;
        }
    }
    return model_select_samples(to, keep, arena);
}

// Returns the first type of each name, by string id, + 1.
static uint32_t *index_types(const struct model_profile *p, struct arena *arena)
{
    uint32_t *index = arena_array(arena, p->strings->n, sizeof *index);
    for (uint32_t i = p->n_types; i-- > 0;)
        index[p->types[i].type] = i + 1;
    return index;
}

static struct model_profile *keep_types(const struct model_profile *p, const struct str *names,
                                        uint32_t n, struct arena *arena)
{
    const uint32_t *index = index_types(p, arena);
    uint32_t *from = arena_array(arena, n, sizeof *from);
    bool changes = n != p->n_types;
    uint32_t default_type = model_intern(p->strings, names[0]);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t name = model_find_string(p->strings, names[i]);
        from[i] = index[name] - 1;
        changes |= from[i] != i;
        if (name == p->default_type)
            default_type = p->default_type;
    }
    if (changes)
        p = model_decode_samples(p, arena);
    struct model_profile *to = model_profile_derive(p, arena);
    if (!changes)
        return to;
    to->default_type = default_type;
    to->n_types = n;
    to->types = arena_array(arena, n, sizeof *to->types);
    to->values = arena_array(arena, p->n_samples * n, sizeof *to->values);
    for (uint32_t i = 0; i < n; i++) {
        to->types[i] = p->types[from[i]];
        for (size_t s = 0; s < p->n_samples; s++)
            to->values[s * n + i] = model_values(p, s)[from[i]];
    }
    return to;
}

// Keeps the types of the first profile that occur, in all profiles together, as often as there are
// profiles.
static int keep_common_types(struct model_profile **profiles, size_t n, struct arena *arena,
                             struct err *e)
{
    const struct model_profile *first = profiles[0];
    size_t *count = arena_array(arena, first->strings->n, sizeof *count);
    for (size_t k = 0; k < n; k++) {
        for (uint32_t t = 0; t < profiles[k]->n_types; t++) {
            struct str name = model_str(profiles[k], profiles[k]->types[t].type);
            uint32_t id = model_find_string(first->strings, name);
            if (id != MODEL_NONE)
                count[id]++;
        }
    }
    struct str *names = arena_array(arena, first->n_types + 1, sizeof *names);
    uint32_t n_names = 0;
    for (uint32_t i = 0; i < first->n_types; i++)
        if (count[first->types[i].type] == n)
            names[n_names++] = model_str(first, first->types[i].type);
    if (n_names == 0)
        return err_set(e, "profiles have empty common sample type list");
    for (size_t k = 0; k < n; k++) {
        const uint32_t *index = index_types(profiles[k], arena);
        for (uint32_t i = 0; i < n_names; i++) {
            uint32_t id = model_find_string(profiles[k]->strings, names[i]);
            if (id == MODEL_NONE || !index[id])
                return err_set(e, "\"%.*s\" sample type is not found in profile", (int)names[i].n,
                               names[i].p);
        }
        profiles[k] = keep_types(profiles[k], names, n_names, arena);
    }
    return 0;
}

static struct str without_plural(struct str s)
{
    return s.n && s.p[s.n - 1] == 's' ? str_from_to(s, 0, s.n - 1) : s;
}

// Finds the finest unit of a sample type (or of the period type, if type is -1) over all profiles.
static int finest_unit(struct model_profile **profiles, size_t n, int type, struct str *unit,
                       struct err *e)
{
    struct model_value_type t0 = type < 0 ? profiles[0]->period_type : profiles[0]->types[type];
    struct str name = model_str(profiles[0], t0.type);
    *unit = model_str(profiles[0], t0.unit);
    for (size_t k = 1; k < n; k++) {
        struct model_value_type t = type < 0 ? profiles[k]->period_type : profiles[k]->types[type];
        struct str other_name = model_str(profiles[k], t.type),
                   other = model_str(profiles[k], t.unit);
        if (!str_eq(without_plural(name), without_plural(other_name)) ||
            !units_compatible(*unit, other))
            return err_set(e, "%s: incompatible types: {%.*s %.*s} {%.*s %.*s}",
                           type < 0 ? "period type" : "sample types", (int)name.n, name.p,
                           (int)unit->n, unit->p, (int)other_name.n, other_name.p, (int)other.n,
                           other.p);
        if (units_scale(1, other, *unit, NULL) < 1) {
            name = other_name;
            *unit = other;
        }
    }
    return 0;
}

int model_make_compatible(struct model_profile **profiles, size_t n, struct arena *arena,
                          struct err *e)
{
    if (keep_common_types(profiles, n, arena, e))
        return -1;
    if (n < 2)
        return 0;
    uint32_t n_types = profiles[0]->n_types;
    struct str period_unit, *units = arena_array(arena, n_types, sizeof *units);
    if (finest_unit(profiles, n, -1, &period_unit, e))
        return -1;
    for (uint32_t t = 0; t < n_types; t++)
        if (finest_unit(profiles, n, (int)t, &units[t], e))
            return -1;
    double *ratios = arena_array(arena, n_types, sizeof *ratios);
    for (size_t k = 0; k < n; k++) {
        const struct model_profile *p = profiles[k];
        for (uint32_t t = 0; t < n_types; t++)
            ratios[t] = units_scale(1, model_str(p, p->types[t].unit), units[t], NULL);
        struct model_profile *to = model_scale(p, ratios, arena);
        to->types = arena_array(arena, n_types, sizeof *to->types);
        for (uint32_t t = 0; t < n_types; t++)
            to->types[t] =
                (struct model_value_type){p->types[t].type, model_intern(p->strings, units[t])};
        to->period = units_truncate(
            units_scale(p->period, model_str(p, p->period_type.unit), period_unit, NULL));
        to->period_type.unit = model_intern(p->strings, period_unit);
        profiles[k] = to;
    }
    return 0;
}

int model_check_equal_types(const struct model_profile *a, const struct model_profile *b,
                            struct err *e)
{
    bool equal = a->n_types == b->n_types;
    for (uint32_t i = 0; equal && i < a->n_types; i++)
        equal = same_value_type(a, a->types[i], b, b->types[i]);
    if (!equal)
        return err_set(e, "incompatible sample types");
    if (!same_value_type(a, a->period_type, b, b->period_type))
        return err_set(
            e, "incompatible period types %.*s and %.*s", (int)model_str(a, a->period_type.type).n,
            model_str(a, a->period_type.type).p, (int)model_str(b, b->period_type.type).n,
            model_str(b, b->period_type.type).p);
    return 0;
}

struct model_profile *model_normalize(const struct model_profile *p,
                                      const struct model_profile *base, struct arena *arena,
                                      struct err *e)
{
    if (model_check_equal_types(p, base, e))
        return NULL;
    double *ratios = arena_array(arena, p->n_types, sizeof *ratios);
    for (uint32_t t = 0; t < p->n_types; t++) {
        int64_t sum = 0, base_sum = 0;
        for (size_t i = 0; i < p->n_samples; i++)
            sum = units_add(sum, model_values(p, i)[t]);
        for (size_t i = 0; i < base->n_samples; i++)
            base_sum = units_add(base_sum, model_values(base, i)[t]);
        ratios[t] = sum ? (double)base_sum / (double)sum : 0;
    }
    return model_scale(p, ratios, arena);
}
