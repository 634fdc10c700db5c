#include <stdlib.h>

#include "base/sort.h"
#include "query/query.h"

static void sort_distinct_names(struct str *items, size_t *n, struct arena *arena)
{
    size_t kept = 0;
    sort_items(arena, items, *n, sizeof *items, str_compare);
    for (size_t i = 0; i < *n; i++) {
        arena_spend(arena, 1);
        if (kept == 0 || !str_eq(items[kept - 1], items[i]))
            items[kept++] = items[i];
    }
    *n = kept;
}

// Collects all names, or all values of one name.
static int collect_labels(struct store *store, const struct store_select *select,
                          const struct str *name, struct arena *arena, struct str **items,
                          size_t *n, struct store_answer *answer, struct err *e)
{
    struct store_series *series;
    size_t n_series;
    int code = store_series(store, select, arena, &series, &n_series, answer, e);
    struct arena_trap trap;
    *n = 0;
    if (code)
        return code;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    size_t all = 0;
    for (size_t i = 0; i < n_series; i++)
        all += series[i].n_labels;
    *items = arena_array(arena, all, sizeof **items);
    for (size_t i = 0; i < n_series; i++) {
        arena_spend(arena, 1 + series[i].n_labels);
        for (size_t j = 0; j < series[i].n_labels; j++) {
            const struct store_label *l = &series[i].labels[j];
            if (!name)
                (*items)[(*n)++] = l->name;
            else if (str_eq(l->name, *name))
                (*items)[(*n)++] = l->value;
        }
    }
    sort_distinct_names(*items, n, arena);
    arena_try_end(arena);
    return 0;
}

int query_label_names(struct store *store, const struct store_select *select, struct arena *arena,
                      struct str **names, size_t *n, struct store_answer *answer, struct err *e)
{
    return collect_labels(store, select, NULL, arena, names, n, answer, e);
}

int query_label_values(struct store *store, const struct store_select *select, struct str name,
                       struct arena *arena, struct str **values, size_t *n,
                       struct store_answer *answer, struct err *e)
{
    return collect_labels(store, select, &name, arena, values, n, answer, e);
}

int query_types(struct store *store, const struct store_select *select, struct arena *arena,
                struct str **types, size_t *n, struct store_answer *answer, struct err *e)
{
    struct str name = STR("__profile_type__");
    return collect_labels(store, select, &name, arena, types, n, answer, e);
}

static int set_order(const void *a, const void *b)
{
    const struct store_series *x = a, *y = b;
    for (size_t i = 0; i < x->n_labels && i < y->n_labels; i++) {
        int c = str_cmp(x->labels[i].name, y->labels[i].name);
        if (!c)
            c = str_cmp(x->labels[i].value, y->labels[i].value);
        if (c)
            return c;
    }
    return (x->n_labels > y->n_labels) - (x->n_labels < y->n_labels);
}

static struct str series_service(const struct store_series *s)
{
    for (size_t i = 0; i < s->n_labels; i++)
        if (str_eq(s->labels[i].name, STR("service_name")))
            return s->labels[i].value;
    return STR("");
}

// names are sorted; none: all are wanted.
static bool name_is_wanted(struct str name, const struct str *names, size_t n)
{
    return n == 0 || bsearch(&name, names, n, sizeof name, str_compare);
}

// Returns the sorted services that have one of the names on any series.
static int services_with(struct store *store, const struct store_select *select,
                         const struct str *names, size_t n_names, struct arena *arena,
                         struct str **services, size_t *n, struct store_answer *answer,
                         struct err *e)
{
    struct store_select all = {
        .tenant = select->tenant, .start = select->start, .end = select->end};
    struct store_series *series;
    size_t n_series;
    *n = 0;
    int code = store_series(store, &all, arena, &series, &n_series, answer, e);
    if (code)
        return code;
    *services = arena_array(arena, n_series, sizeof **services);
    for (size_t i = 0; i < n_series; i++) {
        bool any = false;
        arena_spend(arena, 1 + series[i].n_labels);
        for (size_t j = 0; j < series[i].n_labels; j++)
            any |= name_is_wanted(series[i].labels[j].name, names, n_names);
        if (any)
            (*services)[(*n)++] = series_service(&series[i]);
    }
    sort_distinct_names(*services, n, arena);
    return 0;
}

int query_label_sets(struct store *store, const struct store_select *select,
                     const struct str *names, size_t n_names, struct arena *arena,
                     struct store_series **sets, size_t *n, struct store_answer *answer,
                     struct err *e)
{
    struct store_series *series;
    size_t n_series;
    int code = store_series(store, select, arena, &series, &n_series, answer, e);
    struct arena_trap trap;
    if (code)
        return code;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    struct store_series *made = arena_array(arena, n_series, sizeof *made);
    struct str *sorted = arena_array(arena, n_names, sizeof *sorted);
    if (n_names) {
        memcpy(sorted, names, n_names * sizeof *sorted);
        sort_distinct_names(sorted, &n_names, arena);
    }
    struct str *services = NULL;
    size_t n_services = 0, n_made = 0;
    if (n_names)
        code =
            services_with(store, select, sorted, n_names, arena, &services, &n_services, answer, e);
    for (size_t i = 0; !code && i < n_series; i++) {
        struct store_label *labels = arena_array(arena, series[i].n_labels, sizeof *labels);
        size_t m = 0;
        arena_spend(arena, 1 + series[i].n_labels);
        for (size_t j = 0; j < series[i].n_labels; j++)
            if (name_is_wanted(series[i].labels[j].name, sorted, n_names))
                labels[m++] = series[i].labels[j];
        // Omit an empty set if its service has none of the names on any series.
        struct str service = series_service(&series[i]);
        if (m || !n_names || bsearch(&service, services, n_services, sizeof service, str_compare))
            made[n_made++] = (struct store_series){labels, m, series[i].type};
    }
    size_t kept = 0;
    sort_items(arena, made, n_made, sizeof *made, set_order);
    for (size_t i = 0; i < n_made; i++) {
        arena_spend(arena, 1 + made[i].n_labels);
        if (kept == 0 || set_order(&made[kept - 1], &made[i]) != 0)
            made[kept++] = made[i];
    }
    *sets = made;
    *n = kept;
    arena_try_end(arena);
    return code;
}
