#include <stdlib.h>

#include "base/sort.h"
#include "query/query.h"

// Values: of everything, of the filter's stacks, and of stacks that end in the function or at the
// call site.
enum { OF_ALL, OF_TOTAL, OF_SELF, N_OF };

struct cell {
    int64_t index;
    double sum[N_OF], mean[N_OF]; // mean: sums of the means of single series
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

static struct str series_label(const struct store_series *s, struct str name)
{
    for (size_t i = 0; i < s->n_labels; i++)
        if (str_eq(s->labels[i].name, name))
            return s->labels[i].value;
    return STR("");
}

static int compare_group_labels(const void *a, const void *b)
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

static uint64_t labels_hash(const struct store_label *labels, size_t n)
{
    uint64_t hash = n;
    for (size_t i = 0; i < n; i++)
        hash = hash_bytes(labels[i].value.p, labels[i].value.n,
                          hash_bytes(labels[i].name.p, labels[i].name.n, hash));
    return hash;
}

static int group_order(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    return compare_labels(x->labels, x->n_labels, y->labels, y->n_labels);
}

static int compare_group_sums(const void *a, const void *b)
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
        struct str value = series_label(s, o->group_by[i]);
        if (value.n)
            labels[(*n)++] = (struct store_label){o->group_by[i], value};
    }
    qsort(labels, *n, sizeof *labels, compare_group_labels);
    return labels;
}

static void add_line(struct group *g, const struct store_line *line, bool filtered,
                     struct arena *arena)
{
    for (size_t i = 0; i < line->n_points; i++) {
        const struct store_point *p = &line->points[i];
        arena_spend(arena, 1);
        g->ordered &= !g->n || g->cells[g->n - 1].index < p->index;
        g->cells = arena_push(arena, g->cells, g->n, &g->cap, sizeof *g->cells);
        struct cell *c = &g->cells[g->n++];
        *c = (struct cell){.index = p->index, .sum = {p->sum, p->total, p->self}, .n = p->n};
        for (int k = 0; k < N_OF; k++)
            c->mean[k] = c->sum[k] / (double)p->n;
        g->sum += filtered ? p->total : p->sum;
    }
}

static void join_cells(struct group *g, struct arena *arena)
{
    size_t n = 0;
    if (g->ordered)
        return;
    sort_items(arena, g->cells, g->n, sizeof *g->cells, cell_order);
    for (size_t i = 0; i < g->n; i++) {
        struct cell *c = &g->cells[i];
        arena_spend(arena, 1);
        if (n && g->cells[n - 1].index == c->index) {
            for (int k = 0; k < N_OF; k++) {
                g->cells[n - 1].sum[k] += c->sum[k];
                g->cells[n - 1].mean[k] += c->mean[k];
            }
            g->cells[n - 1].n += c->n;
        } else {
            g->cells[n++] = *c;
        }
    }
    g->n = n;
}

static void finish_query_series(const struct group *groups, size_t n,
                                const struct store_select *select,
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
            arena_spend(arena, 1);
            double values[N_OF];
            for (int k = 0; k < N_OF; k++)
                values[k] = o->aggregation == QUERY_AVERAGE ? c->sum[k] / (double)c->n
                            : gauge                         ? c->mean[k]
                                                            : c->sum[k];
            uint64_t after = (uint64_t)c->index * (uint64_t)o->step;
            series[i].points[j] = (struct query_point){
                .time = (int64_t)((uint64_t)select->start + after),
                .value = values[OF_ALL],
                .total = values[OF_TOTAL],
                .self = values[OF_SELF],
            };
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
    struct store_select asked = *select;
    struct store_filter filter;
    if (select->filter && !options->n_group_by && !store_type_is_gauge(select->type)) {
        filter = *select->filter;
        filter.join_lines = true;
        asked.filter = &filter;
    }
    int code = store_lines(store, &asked, options->step, arena, &lines, &n_lines, answer, e);
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
        uint64_t hash = labels_hash(labels, n_labels);
        arena_spend(arena, 1);
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
        add_line(&groups[at], &lines[i], select->filter != NULL, arena);
    }
    for (size_t i = 0; i < n_groups; i++) {
        arena_spend(arena, 1);
        join_cells(&groups[i], arena);
    }
    sort_items(arena, groups, n_groups, sizeof *groups,
               options->limit ? compare_group_sums : group_order);
    if (options->limit && n_groups > options->limit)
        n_groups = options->limit;
    *series = arena_array(arena, n_groups, sizeof **series);
    *n = n_groups;
    finish_query_series(groups, n_groups, select, options, arena, *series);
    arena_try_end(arena);
    return 0;
}

// --- exemplars ---

static bool is_private_label(struct str name)
{
    return str_starts(name, STR("__"));
}

static uint64_t series_hash(const struct store_series *s)
{
    uint64_t hash = s->n_labels;
    for (size_t i = 0; i < s->n_labels; i++) {
        const struct store_label *l = &s->labels[i];
        if (!is_private_label(l->name))
            hash = hash_stable(l->value.p, l->value.n, hash_stable(l->name.p, l->name.n, hash));
    }
    return hash;
}

// The store keeps no profile ids. This UUID encodes the time and a hash of the series' labels,
// which identify the profile.
static struct str profile_id(const struct store_series *s, int64_t time, struct arena *arena)
{
    uint64_t t = (uint64_t)time, h = series_hash(s);
    return str_from(arena_printf(arena, "%08x-%04x-%04x-%04x-%012llx", (unsigned)(t >> 32),
                                 (unsigned)(t >> 16 & 0xffff), (unsigned)(t & 0xffff),
                                 (unsigned)(h >> 48), (unsigned long long)(h & 0xffffffffffff)));
}

static bool read_profile_id(struct str id, int64_t *time, uint64_t *hash)
{
    char digits[33];
    size_t n = 0;
    for (size_t i = 0; i < id.n; i++)
        if (id.p[i] != '-' && n < sizeof digits)
            digits[n++] = id.p[i];
    uint64_t t;
    if (n != 32 || !str_to_u64((struct str){digits, 16}, 16, &t) || t > INT64_MAX ||
        !str_to_u64((struct str){digits + 16, 16}, 16, hash))
        return false;
    *time = (int64_t)t;
    return true;
}

static struct query_point *point_at(const struct query_series *s, int64_t time)
{
    size_t low = 0, high = s->n_points;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (s->points[middle].time < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->n_points && s->points[low].time == time ? &s->points[low] : NULL;
}

static struct query_exemplar *make_exemplar(const struct store_series *s,
                                            const struct query_series *in, int64_t time,
                                            double value, struct arena *arena)
{
    struct query_exemplar *x = arena_alloc(arena, sizeof *x);
    *x = (struct query_exemplar){.id = profile_id(s, time, arena), .time = time, .value = value};
    x->labels = arena_array(arena, s->n_labels, sizeof *x->labels);
    for (size_t i = 0; i < s->n_labels; i++) {
        size_t k = 0;
        while (k < in->n_labels && !str_eq(in->labels[k].name, s->labels[i].name))
            k++;
        if (k == in->n_labels && !is_private_label(s->labels[i].name))
            x->labels[x->n_labels++] = s->labels[i];
    }
    return x;
}

int query_exemplars(struct store *store, const struct store_select *select,
                    const struct query_series_options *options, struct arena *arena,
                    struct query_series *series, size_t n, struct store_answer *answer,
                    struct err *e)
{
    struct store_line *lines;
    size_t n_lines;
    // A grid of single nanoseconds keeps profiles apart.
    int code = store_lines(store, select, 1, arena, &lines, &n_lines, answer, e);
    if (code)
        return code;
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    struct hash_table index;
    hash_init(&index, arena, n);
    for (size_t i = 0; i < n; i++)
        hash_add(&index, arena, labels_hash(series[i].labels, series[i].n_labels), (uint32_t)i);
    for (size_t i = 0; i < n_lines; i++) {
        size_t n_labels, at = n;
        struct store_label *labels = group_labels(&lines[i].series, options, arena, &n_labels);
        arena_spend(arena, 1);
        for (struct hash_probe p = hash_find(&index, labels_hash(labels, n_labels));
             at == n && hash_hit(&index, &p); hash_next(&index, &p))
            if (compare_labels(labels, n_labels, series[p.item].labels, series[p.item].n_labels) ==
                0)
                at = p.item;
        for (size_t k = 0; at < n && k < lines[i].n_points; k++) {
            const struct store_point *p = &lines[i].points[k];
            arena_spend(arena, 1);
            int64_t steps = p->index / options->step + (p->index % options->step > 0);
            int64_t time =
                (int64_t)((uint64_t)select->start + (uint64_t)steps * (uint64_t)options->step);
            struct query_point *to = point_at(&series[at], time);
            if (to && p->n == 1 && (!to->exemplar || p->sum > to->exemplar->value))
                to->exemplar = make_exemplar(&lines[i].series, &series[at],
                                             select->start + p->index, p->sum, arena);
        }
    }
    arena_try_end(arena);
    return 0;
}

static bool series_has_label(const struct store_series *s, struct str name)
{
    for (size_t i = 0; i < s->n_labels; i++)
        if (str_eq(s->labels[i].name, name))
            return true;
    return false;
}

int query_select_profile(struct store *store, struct store_select *select, struct str id,
                         struct arena *arena, bool *found, struct store_answer *answer,
                         struct err *e)
{
    int64_t time;
    uint64_t hash;
    *found = false;
    if (!read_profile_id(id, &time, &hash) || time < select->start || time > select->end)
        return 0;
    select->start = select->end = time;
    struct store_series *series;
    size_t n, at = 0;
    int code = store_series(store, select, arena, &series, &n, answer, e);
    if (code)
        return code;
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    for (; at < n && series_hash(&series[at]) != hash; at++)
        arena_spend(arena, 1 + series[at].n_labels);
    *found = at < n;
    // Match its labels, and require that labels of other series at this time are absent. Each name
    // once.
    struct str *others = NULL;
    size_t n_others = 0, cap = 0, n_own = *found ? series[at].n_labels : 0;
    for (size_t i = 0; *found && i < n; i++) {
        arena_spend(arena, 1);
        for (size_t k = 0; i != at && k < series[i].n_labels; k++) {
            arena_spend(arena, 1 + n_own / 8);
            struct str name = series[i].labels[k].name;
            if (is_private_label(name) || series_has_label(&series[at], name))
                continue;
            others = arena_push(arena, others, n_others, &cap, sizeof *others);
            others[n_others++] = name;
        }
    }
    sort_items(arena, others, n_others, sizeof *others, str_compare);
    struct store_matcher *matchers =
        arena_array(arena, select->n_matchers + n_own + n_others, sizeof *matchers);
    if (select->n_matchers)
        memcpy(matchers, select->matchers, select->n_matchers * sizeof *matchers);
    for (size_t k = 0; k < n_own; k++) {
        const struct store_label *l = &series[at].labels[k];
        if (!is_private_label(l->name))
            matchers[select->n_matchers++] =
                (struct store_matcher){.op = STORE_EQ, .name = l->name, .value = l->value};
    }
    for (size_t k = 0; k < n_others; k++)
        if (k == 0 || !str_eq(others[k], others[k - 1]))
            matchers[select->n_matchers++] =
                (struct store_matcher){.op = STORE_EQ, .name = others[k], .value = STR("")};
    select->matchers = matchers;
    arena_try_end(arena);
    return 0;
}
