#include <stdlib.h>

#include "query/query.h"

struct cell {
    int64_t index;
    double sum, mean; // mean: sums of the means of single series
    uint64_t n;
};

struct group {
    struct store_label *labels;
    size_t n_labels;
    struct cell *cells;
    size_t n, cap;
    bool ordered;
    double sum;
};

static struct str label(const struct store_series *s, struct str name)
{
    for (size_t i = 0; i < s->n_labels; i++)
        if (str_eq(s->labels[i].name, name))
            return s->labels[i].value;
    return STR("");
}

static int label_order(const void *a, const void *b)
{
    return str_cmp(((const struct store_label *)a)->name, ((const struct store_label *)b)->name);
}

static int compare_labels(const struct store_label *a, size_t n_a, const struct store_label *b,
                          size_t n_b)
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

static int group_order(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    return compare_labels(x->labels, x->n_labels, y->labels, y->n_labels);
}

static int sum_order(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    return x->sum > y->sum ? -1 : x->sum < y->sum ? 1 : group_order(a, b);
}

static int cell_order(const void *a, const void *b)
{
    const struct cell *x = a, *y = b;
    return x->index < y->index ? -1 : x->index > y->index;
}

static struct store_label *group_labels(const struct store_series *s,
                                        const struct query_series_options *o, struct arena *arena,
                                        size_t *n)
{
    struct store_label *labels = arena_array(arena, o->n_group_by, sizeof *labels);
    *n = 0;
    for (size_t i = 0; i < o->n_group_by; i++) {
        struct str value = label(s, o->group_by[i]);
        if (value.n)
            labels[(*n)++] = (struct store_label){o->group_by[i], value};
    }
    qsort(labels, *n, sizeof *labels, label_order);
    return labels;
}

static void add_line(struct group *g, const struct store_line *line, struct arena *arena)
{
    for (size_t i = 0; i < line->n_points; i++) {
        const struct store_point *p = &line->points[i];
        g->ordered &= !g->n || g->cells[g->n - 1].index < p->index;
        g->cells = arena_push(arena, g->cells, g->n, &g->cap, sizeof *g->cells);
        g->cells[g->n++] = (struct cell){p->index, p->sum, p->sum / (double)p->n, p->n};
        g->sum += p->sum;
    }
}

static void join_cells(struct group *g)
{
    size_t n = 0;
    if (g->ordered)
        return;
    qsort(g->cells, g->n, sizeof *g->cells, cell_order);
    for (size_t i = 0; i < g->n; i++) {
        struct cell *c = &g->cells[i];
        if (n && g->cells[n - 1].index == c->index) {
            g->cells[n - 1].sum += c->sum;
            g->cells[n - 1].mean += c->mean;
            g->cells[n - 1].n += c->n;
        } else {
            g->cells[n++] = *c;
        }
    }
    g->n = n;
}

static void finish(const struct group *groups, size_t n, const struct store_select *select,
                   const struct query_series_options *o, struct arena *arena,
                   struct query_series *series)
{
    bool gauge = store_type_is_gauge(select->type);
    for (size_t i = 0; i < n; i++) {
        const struct group *g = &groups[i];
        series[i] = (struct query_series){g->labels, g->n_labels, NULL, g->n};
        series[i].points = arena_array(arena, g->n, sizeof *series[i].points);
        for (size_t j = 0; j < g->n; j++) {
            const struct cell *c = &g->cells[j];
            double value = o->aggregation == QUERY_AVERAGE ? c->sum / (double)c->n
                           : gauge                         ? c->mean
                                                           : c->sum;
            uint64_t after = (uint64_t)c->index * (uint64_t)o->step;
            series[i].points[j] =
                (struct query_point){(int64_t)((uint64_t)select->start + after), value};
        }
    }
}

int query_series(struct store *store, const struct store_select *select,
                 const struct query_series_options *options, struct arena *arena,
                 struct query_series **series, size_t *n, struct store_answer *answer,
                 struct err *e)
{
    struct store_line *lines;
    size_t n_lines;
    int code = store_lines(store, select, options->step, arena, &lines, &n_lines, answer, e);
    if (code)
        return code;
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    struct group *groups = NULL;
    size_t n_groups = 0, cap = 0;
    struct hash_table index;
    hash_init(&index, arena, n_lines);
    for (size_t i = 0; i < n_lines; i++) {
        size_t n_labels, at = SIZE_MAX;
        struct store_label *labels = group_labels(&lines[i].series, options, arena, &n_labels);
        uint64_t hash = n_labels;
        for (size_t j = 0; j < n_labels; j++)
            hash = hash_bytes(labels[j].value.p, labels[j].value.n,
                              hash_bytes(labels[j].name.p, labels[j].name.n, hash));
        for (struct hash_probe p = hash_find(&index, hash); hash_hit(&index, &p);
             hash_next(&index, &p))
            if (compare_labels(labels, n_labels, groups[p.item].labels, groups[p.item].n_labels) ==
                0)
                at = p.item;
        if (at == SIZE_MAX) {
            groups = arena_push(arena, groups, n_groups, &cap, sizeof *groups);
            groups[n_groups] =
                (struct group){.labels = labels, .n_labels = n_labels, .ordered = true};
            hash_add(&index, arena, hash, (uint32_t)n_groups);
            at = n_groups++;
        }
        add_line(&groups[at], &lines[i], arena);
    }
    for (size_t i = 0; i < n_groups; i++)
        join_cells(&groups[i]);
    if (n_groups)
        qsort(groups, n_groups, sizeof *groups, options->limit ? sum_order : group_order);
    if (options->limit && n_groups > options->limit)
        n_groups = options->limit;
    *series = arena_array(arena, n_groups, sizeof **series);
    *n = n_groups;
    finish(groups, n_groups, select, options, arena, *series);
    arena_try_end(arena);
    return 0;
}
