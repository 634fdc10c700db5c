#include "store/labels.h"

#include <math.h>

#include "model/builder.h"

bool store_trace_parse(struct str text, struct store_trace *trace)
{
    size_t low = text.n > 16 ? text.n - 16 : 0;
    *trace = (struct store_trace){0};
    return text.n && text.n <= 32 && str_to_u64(str_from_to(text, low, text.n), 16, &trace->low) &&
           (!low || str_to_u64(str_from_to(text, 0, low), 16, &trace->high));
}

#include <stdlib.h>

static const char *const DERIVED_LABELS[] = {"__period_type__",  "__period_unit__",
                                             "__profile_type__", "__service_name__",
                                             "__type__",         "__unit__"};
enum { N_DERIVED_LABELS = sizeof DERIVED_LABELS / sizeof *DERIVED_LABELS };

bool labels_is_own(struct str name)
{
    for (int i = 0; i < N_DERIVED_LABELS; i++)
        if (str_eq(name, str_from(DERIVED_LABELS[i])))
            return true;
    return false;
}

struct str labels_get(const struct store_label *labels, size_t n, struct str name)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(labels[i].name, name))
            return labels[i].value;
    return STR("");
}

int labels_compare(const struct store_label *a, size_t n_a, const struct store_label *b, size_t n_b)
{
    for (size_t i = 0; i < n_a && i < n_b; i++) {
        int c = str_cmp(a[i].name, b[i].name);
        if (!c)
            c = str_cmp(a[i].value, b[i].value);
        if (c)
            return c;
    }
    return (n_a > n_b) - (n_a < n_b);
}

void labels_pack(struct pack *to, const struct store_label *labels, size_t n)
{
    pack_varint(to, n);
    for (size_t i = 0; i < n; i++) {
        pack_str(to, labels[i].name);
        pack_str(to, labels[i].value);
    }
}

bool labels_unpack(struct str bytes, struct arena *arena, struct store_label **labels, size_t *n)
{
    const char *copy = arena_copy(arena, bytes.p, bytes.n);
    struct unpack b = {(const uint8_t *)copy, (const uint8_t *)copy + bytes.n, false};
    *n = unpack_count(&b);
    *labels = arena_array(arena, *n, sizeof **labels);
    for (size_t i = 0; i < *n; i++) {
        (*labels)[i].name = unpack_str(&b);
        (*labels)[i].value = unpack_str(&b);
    }
    return !b.bad;
}

void kind_of_profile(const struct model_profile *p, struct kind *kind)
{
    *kind = (struct kind){.period_type = model_str(p, p->period_type.type),
                          .period_unit = model_str(p, p->period_type.unit),
                          .default_type = model_str(p, p->default_type),
                          .period = p->period,
                          .k = kind_columns(p)};
    for (uint32_t i = 0; i < p->n_types; i++) {
        kind->types[i].type = model_str(p, p->types[i].type);
        kind->types[i].unit = model_str(p, p->types[i].unit);
    }
    kind->is_weighed = kind->k > p->n_types;
    if (kind->is_weighed) {
        kind->types[p->n_types].type = STR(KIND_SQUARES_TYPE);
        kind->types[p->n_types].unit = STR(KIND_SQUARES_UNIT);
    }
}

uint32_t kind_columns(const struct model_profile *p)
{
    return p->n_types + (p->is_weighed && p->n_types < KIND_MAX_TYPES);
}

int64_t kind_value(const struct model_profile *p, size_t sample, uint32_t column)
{
    if (column < p->n_types)
        return model_values(p, sample)[column];
    return (int64_t)llround(fmin(model_squares(p, sample), KIND_MOST_SQUARES));
}

static uint32_t related_column(const struct model_events *ev, uint32_t column)
{
    return column == ev->count ? ev->rate > 0 ? ev->bytes : MODEL_NONE : ev->count;
}

struct kind_events kind_events(const struct kind *kind, uint32_t column, struct arena *arena)
{
    struct model_builder b;
    struct kind_events ev = {.unit = 1};
    model_build(&b, arena);
    for (uint32_t i = 0; i < kind_types(kind); i++)
        model_build_type(&b, kind->types[i].type, kind->types[i].unit);
    b.p->period_type = (struct model_value_type){model_build_string(&b, kind->period_type),
                                                 model_build_string(&b, kind->period_unit)};
    b.p->period = kind->period;
    ev.events = model_events(b.p, column);
    if (kind->is_weighed && (ev.events.period > 0 || ev.events.is_count)) {
        ev.is_weighed = ev.has_other = true;
        ev.other = kind->k - 1;
        if (ev.events.period > 0)
            ev.unit = ev.events.period;
        return ev;
    }
    if (ev.events.rate > 0 && column != ev.events.count && column != ev.events.bytes)
        ev.events.rate = 0;
    ev.other = related_column(&ev.events, column);
    ev.has_other = ev.other != MODEL_NONE;
    ev.is_bytes = ev.has_other && ev.other == ev.events.bytes;
    return ev;
}

struct kind_events kind_events_of(struct kind_events_cache *cache, struct str body,
                                  const struct kind *kind, uint32_t column, struct arena *arena)
{
    if (!cache->body.n || cache->column != column || !str_eq(cache->body, body))
        *cache = (struct kind_events_cache){body, column, kind_events(kind, column, arena)};
    return cache->events;
}

double kind_variance(const struct kind_events *ev, double value, double other)
{
    if (ev->is_weighed)
        return ev->unit * ev->unit * other;
    double count = ev->has_other && !ev->is_bytes ? other : value;
    double bytes = ev->is_bytes ? other : value;
    return value != 0 ? model_count_variance(&ev->events, value, count, bytes) : 0;
}

void kind_pack(struct pack *to, const struct kind *kind)
{
    pack_str(to, kind->period_type);
    pack_str(to, kind->period_unit);
    pack_signed(to, kind->period);
    pack_str(to, kind->default_type);
    pack_varint(to, kind->k);
    for (uint32_t i = 0; i < kind->k; i++) {
        pack_str(to, kind->types[i].type);
        pack_str(to, kind->types[i].unit);
    }
}

bool kind_unpack(struct str bytes, struct kind *kind)
{
    struct unpack b = {(const uint8_t *)bytes.p, (const uint8_t *)bytes.p + bytes.n, false};
    kind->period_type = unpack_str(&b);
    kind->period_unit = unpack_str(&b);
    kind->period = unpack_signed(&b);
    kind->default_type = unpack_str(&b);
    uint64_t k = unpack_varint(&b);
    if (k > KIND_MAX_TYPES)
        k = unpack_fail(&b);
    kind->k = (uint32_t)k;
    for (uint32_t i = 0; i < kind->k; i++) {
        kind->types[i].type = unpack_str(&b);
        kind->types[i].unit = unpack_str(&b);
    }
    kind->is_weighed = kind->k > 1 &&
                       str_eq(kind->types[kind->k - 1].type, STR(KIND_SQUARES_TYPE)) &&
                       str_eq(kind->types[kind->k - 1].unit, STR(KIND_SQUARES_UNIT));
    return !b.bad;
}

bool type_id_parse(struct str text, struct type_id *id)
{
    struct str *parts[] = {&id->name, &id->type, &id->unit, &id->period_type, &id->period_unit};
    size_t at = 0;
    for (int i = 0; i < 5; i++) {
        size_t end = i < 4 ? str_find(text, STR(":"), at) : text.n;
        if (end == SIZE_MAX)
            return false;
        *parts[i] = str_from_to(text, at, end);
        at = end + 1;
    }
    return str_find(id->period_unit, STR(":"), 0) == SIZE_MAX;
}

int type_id_column(const struct type_id *id, const struct kind *kind)
{
    if (!str_eq(id->period_type, kind->period_type) || !str_eq(id->period_unit, kind->period_unit))
        return -1;
    for (uint32_t i = 0; i < kind_types(kind); i++)
        if (str_eq(id->type, kind->types[i].type) && str_eq(id->unit, kind->types[i].unit))
            return (int)i;
    return -1;
}

static int compare_label_names(const void *a, const void *b)
{
    return str_cmp(((const struct store_label *)a)->name, ((const struct store_label *)b)->name);
}

struct store_series labels_series(const struct store_label *labels, size_t n,
                                  const struct kind *kind, uint32_t column, struct arena *arena)
{
    struct store_label *all = arena_array(arena, n + N_DERIVED_LABELS, sizeof *all);
    struct str name = labels_get(labels, n, STR("__name__"));
    struct str type = kind->types[column].type, unit = kind->types[column].unit;
    char *id = arena_printf(arena, "%.*s:%.*s:%.*s:%.*s:%.*s", (int)name.n, name.p, (int)type.n,
                            type.p, (int)unit.n, unit.p, (int)kind->period_type.n,
                            kind->period_type.p, (int)kind->period_unit.n, kind->period_unit.p);
    const struct str values[N_DERIVED_LABELS] = {kind->period_type,
                                                 kind->period_unit,
                                                 str_from(id),
                                                 labels_get(labels, n, STR("service_name")),
                                                 type,
                                                 unit};
    if (n)
        memcpy(all, labels, n * sizeof *all);
    for (int i = 0; i < N_DERIVED_LABELS; i++)
        if (values[i].n)
            all[n++] =
                (struct store_label){str_from(DERIVED_LABELS[i]),
                                     {arena_copy(arena, values[i].p, values[i].n), values[i].n}};
    qsort(all, n, sizeof *all, compare_label_names);
    return (struct store_series){all, n, str_from(id)};
}

struct str labels_one_service(const struct store_select *select)
{
    for (size_t i = 0; i < select->n_matchers; i++) {
        const struct store_matcher *m = &select->matchers[i];
        if (m->op == STORE_EQ && m->value.n &&
            (str_eq(m->name, STR("service_name")) || str_eq(m->name, STR("__service_name__"))))
            return m->value;
    }
    return STR("");
}

bool labels_match(const struct store_series *series, const struct store_matcher *matchers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct store_matcher *m = &matchers[i];
        struct str value = labels_get(series->labels, series->n_labels, m->name);
        bool holds = m->op == STORE_EQ || m->op == STORE_NE ? str_eq(value, m->value)
                                                            : model_regex_match(m->regex, value);
        if (holds != (m->op == STORE_EQ || m->op == STORE_RE))
            return false;
    }
    return true;
}
