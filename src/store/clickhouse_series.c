#include <stdlib.h>

#include "store/clickhouse.h"

// How long a question waits for what was acknowledged before it.
#define FLUSH_NANOS (INT64_C(5) * 1000000000)

static uint32_t day_number(int64_t time)
{
    int64_t day = time / DAY_NANOS;
    return day < 0 ? 0 : day > 65535 ? 65535 : (uint32_t)day;
}

static uint32_t hour_number(int64_t time)
{
    int64_t hour = time / HOUR_NANOS;
    return hour < 0 ? 0 : hour > UINT32_MAX ? UINT32_MAX : (uint32_t)hour;
}

static struct str one_service(const struct store_select *select)
{
    for (size_t i = 0; i < select->n_matchers; i++) {
        const struct store_matcher *m = &select->matchers[i];
        if (m->op == STORE_EQ && m->value.n &&
            (str_eq(m->name, STR("service_name")) || str_eq(m->name, STR("__service_name__"))))
            return m->value;
    }
    return STR("");
}

struct search {
    struct clickhouse *c;
    const struct store_select *select;
    struct arena *arena;
    struct finding *f;
    struct type_id type;
    bool typed;
    size_t cap;
    uint64_t *others; // families and bases of series that do not match
    size_t n_others, cap_others;
};

// any() because a series may have been written more than once.
static int ask_series(struct search *s, struct unpack *rows, struct err *e)
{
    struct out sql;
    struct str service = one_service(s->select);
    out_init_arena(&sql, s->arena);
    out_printf(&sql,
               "SELECT series, any(scope), any(kind), any(label_names), any(label_values), "
               "any(families), any(base), any(derived) FROM %s.series WHERE day >= toDate(%u) AND "
               "day <= toDate(%u) AND "
               "tenant = ",
               s->c->at.database, day_number(s->select->start), day_number(s->select->end));
    sql_text(&sql, s->select->tenant);
    if (service.n) {
        out_text(&sql, " AND service = ");
        sql_text(&sql, service);
    }
    out_text(&sql, " GROUP BY series FORMAT RowBinary");
    return clickhouse_ask(s->c, out_result(&sql), s->arena, rows, e);
}

static void add_other(struct search *s, uint64_t family)
{
    s->others = arena_push(s->arena, s->others, s->n_others, &s->cap_others, sizeof *s->others);
    s->others[s->n_others++] = family;
}

static bool read_one(struct search *s, struct unpack *b)
{
    struct finding *f = s->f;
    uint64_t id = row_u64(b), scope = row_u64(b);
    struct str body = unpack_str(b);
    struct kind kind;
    size_t n = unpack_count(b);
    struct store_label *labels = arena_array(s->arena, n, sizeof *labels);
    for (size_t i = 0; i < n; i++)
        labels[i].name = unpack_str(b);
    if (unpack_count(b) != n)
        return false;
    for (size_t i = 0; i < n; i++)
        labels[i].value = unpack_str(b);
    size_t k = unpack_count(b);
    if (b->bad || !kind_unpack(body, &kind) || kind.k != k)
        return false;
    int column = s->typed ? type_id_column(&s->type, &kind) : 0;
    bool named = !s->typed || str_eq(labels_get(labels, n, STR("__name__")), s->type.name);
    uint64_t *families = arena_array(s->arena, k, sizeof *families);
    for (size_t i = 0; i < k; i++)
        families[i] = row_u64(b);
    uint64_t base = row_u64(b), derived = row_u64(b);
    for (uint32_t i = 0; i < kind.k; i++) {
        uint64_t family = families[i], samples = derived >> i & 1 ? base : family;
        if (!named || (s->typed && (int)i != column))
            continue;
        struct store_series series = labels_series(labels, n, &kind, i, s->arena);
        if (!labels_match(&series, s->select->matchers, s->select->n_matchers)) {
            add_other(s, family);
            add_other(s, samples);
            continue;
        }
        f->found = arena_push(s->arena, f->found, f->n, &s->cap, sizeof *f->found);
        f->found[f->n++] = (struct found_series){.id = id,
                                                 .family = family,
                                                 .scope = scope,
                                                 .base = samples,
                                                 .factor = i && samples != family ? kind.period : 1,
                                                 .series = series,
                                                 .type = kind.types[i].type,
                                                 .unit = kind.types[i].unit,
                                                 .period_type = kind.period_type,
                                                 .period_unit = kind.period_unit,
                                                 .period = kind.period};
    }
    return !b->bad;
}

static int label_order(const void *a, const void *b)
{
    const struct found_series *x = a, *y = b;
    return labels_compare(x->series.labels, x->series.n_labels, y->series.labels,
                          y->series.n_labels);
}

static int found_order(const void *a, const void *b)
{
    const struct found_series *x = a, *y = b;
    if (x->family != y->family)
        return x->family < y->family ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int base_order(const void *a, const void *b)
{
    const struct found_series *x = a, *y = b;
    if (x->base != y->base)
        return x->base < y->base ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void arrange(struct search *s)
{
    struct finding *f = s->f;
    if (f->n)
        qsort(f->found, f->n, sizeof *f->found, label_order);
    for (size_t i = 0; i < f->n; i++) {
        f->n_lines += i == 0 || label_order(&f->found[i - 1], &f->found[i]) != 0;
        f->found[i].line = f->n_lines - 1;
    }
    if (f->n)
        qsort(f->found, f->n, sizeof *f->found, found_order);
    f->by_base = arena_array(s->arena, f->n, sizeof *f->by_base);
    if (f->n) {
        memcpy(f->by_base, f->found, f->n * sizeof *f->found);
        qsort(f->by_base, f->n, sizeof *f->by_base, base_order);
    }
    f->families = arena_array(s->arena, f->n, sizeof *f->families);
    f->bases = arena_array(s->arena, f->n, sizeof *f->bases);
    f->scopes = arena_array(s->arena, f->n, sizeof *f->scopes);
    for (size_t i = 0; i < f->n; i++) {
        f->families[i] = f->found[i].family;
        f->bases[i] = f->found[i].base;
        f->scopes[i] = f->found[i].scope;
    }
    f->n_bases = sql_distinct(f->bases, f->n);
    f->n_families = sql_distinct(f->families, f->n);
    f->n_scopes = sql_distinct(f->scopes, f->n);
    f->whole = true;
    for (size_t i = 0; i < s->n_others && f->whole; i++)
        f->whole = !sql_is_among(s->others[i], f->families, f->n_families) &&
                   !sql_is_among(s->others[i], f->bases, f->n_bases);
}

int clickhouse_find(struct clickhouse *c, const struct store_select *select, struct arena *arena,
                    struct finding *f, struct err *e)
{
    struct search s = {.c = c, .select = select, .arena = arena, .f = f};
    struct unpack rows;
    *f = (struct finding){0};
    s.typed = select->type.n && type_id_parse(select->type, &s.type);
    spool_flush(&c->spool, FLUSH_NANOS);
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    int code = voids_ask(c, day_number(select->start), day_number(select->end), arena, &f->voids,
                         &f->n_voids, e);
    if (!code)
        code = ask_series(&s, &rows, e);
    while (!code && rows.p < rows.end)
        if (!read_one(&s, &rows)) {
            err_set(e, "ClickHouse at %s: a row of %s.series cannot be read", c->at.base,
                    c->at.database);
            code = STORE_CORRUPT;
        }
    if (!code)
        arrange(&s);
    arena_try_end(arena);
    return code;
}

void clickhouse_where(struct out *sql, const struct store_select *select, const struct finding *f,
                      enum where table)
{
    bool samples = table != IN_PROFILES;
    out_printf(sql,
               " WHERE day >= toDate(%u) AND day <= toDate(%u) AND hour >= %u AND hour <= %u AND "
               "family IN (",
               day_number(select->start), day_number(select->end), hour_number(select->start),
               hour_number(select->end));
    sql_numbers(sql, samples ? f->bases : f->families, samples ? f->n_bases : f->n_families);
    out_text(sql, ")");
    if (!f->whole) {
        out_text(sql, " AND series IN (");
        for (size_t i = 0; i < f->n; i++) {
            if (i)
                out_char(sql, ',');
            out_u64(sql, f->found[i].id);
        }
        out_text(sql, ")");
    }
    if (table == IN_HOURLY) // An hour with voids has more rows here than its profiles say.
        return;
    for (size_t i = 0; i < f->n_voids; i++)
        out_printf(sql, "%s(%llu,%lld,%llu)%s", i ? "," : " AND (series, ts, batch) NOT IN (",
                   (unsigned long long)f->voids[i].series, (long long)f->voids[i].ts,
                   (unsigned long long)f->voids[i].batch, i + 1 == f->n_voids ? ")" : "");
}

struct found_series *finding_at(struct finding *f, uint64_t family, uint64_t series)
{
    struct found_series key = {.family = family, .id = series};
    return f->n ? bsearch(&key, f->found, f->n, sizeof key, found_order) : NULL;
}

static int only_base_order(const void *a, const void *b)
{
    const struct found_series *x = a, *y = b;
    return x->base < y->base ? -1 : x->base > y->base;
}

struct found_series *finding_base(struct finding *f, uint64_t base, uint64_t series)
{
    struct found_series key = {.base = base, .id = series};
    return f->n ? bsearch(&key, f->by_base, f->n, sizeof key, series ? base_order : only_base_order)
                : NULL;
}

// --- answers ---

struct line {
    struct store_series series;
    struct store_point *points;
    size_t n, cap;
    bool any, ordered;
};

static void add_point(struct line *line, struct arena *arena, struct store_point point)
{
    line->ordered &= !line->n || line->points[line->n - 1].index < point.index;
    line->points = arena_push(arena, line->points, line->n, &line->cap, sizeof *line->points);
    line->points[line->n++] = point;
}

// step 0: only whether there is a profile.
static int ask_points(struct clickhouse *c, const struct store_select *select, int64_t step,
                      struct finding *f, struct arena *arena, struct line *lines, struct err *e)
{
    struct out sql;
    struct unpack rows;
    out_init_arena(&sql, arena);
    out_text(&sql, "SELECT family, series");
    if (step)
        out_printf(&sql,
                   ", if(ts = %lld, toInt64(0), intDiv(ts - %lld - 1, toInt64(%lld)) + 1) AS i, "
                   "sum(toFloat64(total)), count()",
                   (long long)select->start, (long long)select->start, (long long)step);
    out_printf(&sql, " FROM %s.profiles", c->at.database);
    clickhouse_where(&sql, select, f, IN_PROFILES);
    out_printf(&sql, " AND ts >= %lld AND ts <= %lld GROUP BY family, series%s FORMAT RowBinary",
               (long long)select->start, (long long)select->end, step ? ", i ORDER BY i" : "");
    int code = clickhouse_ask(c, out_result(&sql), arena, &rows, e);
    if (code)
        return code;
    while (rows.p < rows.end) {
        uint64_t family = row_u64(&rows), id = row_u64(&rows), bits;
        struct store_point point = {0};
        if (step) {
            point.index = (int64_t)row_u64(&rows);
            bits = row_u64(&rows);
            memcpy(&point.sum, &bits, sizeof bits);
            point.n = row_u64(&rows);
        }
        const struct found_series *found = finding_at(f, family, id);
        if (!found || rows.bad)
            continue;
        lines[found->line].any = true;
        lines[found->line].series = found->series;
        if (step)
            add_point(&lines[found->line], arena, point);
    }
    return 0;
}

static int point_order(const void *a, const void *b)
{
    const struct store_point *x = a, *y = b;
    return x->index < y->index ? -1 : x->index > y->index;
}

static void order_points(struct line *line)
{
    size_t n = 0;
    if (line->ordered)
        return;
    qsort(line->points, line->n, sizeof *line->points, point_order);
    for (size_t i = 0; i < line->n; i++)
        if (n && line->points[n - 1].index == line->points[i].index) {
            line->points[n - 1].sum += line->points[i].sum;
            line->points[n - 1].n += line->points[i].n;
        } else {
            line->points[n++] = line->points[i];
        }
    line->n = n;
}

// The lines that have something, in the order of their labels.
static int scan(struct clickhouse *c, const struct store_select *select, int64_t step,
                struct arena *arena, struct line **lines, size_t *n, struct err *e)
{
    struct finding f;
    int code = clickhouse_find(c, select, arena, &f, e);
    *n = 0;
    *lines = NULL;
    if (code || !f.n)
        return code;
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    *lines = arena_array(arena, f.n_lines, sizeof **lines);
    for (uint32_t i = 0; i < f.n_lines; i++)
        (*lines)[i].ordered = true;
    code = ask_points(c, select, step, &f, arena, *lines, e);
    for (uint32_t i = 0; i < f.n_lines && !code; i++)
        if ((*lines)[i].any) {
            order_points(&(*lines)[i]);
            (*lines)[(*n)++] = (*lines)[i];
        }
    arena_try_end(arena);
    return code;
}

int clickhouse_series(void *driver, const struct store_select *select, struct arena *arena,
                      struct store_series **series, size_t *n, struct store_answer *answer,
                      struct err *e)
{
    struct line *lines;
    int code = scan(driver, select, 0, arena, &lines, n, e);
    struct arena_trap trap;
    if (code || ARENA_TRY(arena, trap))
        return code ? code : (arena_caught(arena, e), STORE_BUSY);
    *series = arena_array(arena, *n, sizeof **series);
    for (size_t i = 0; i < *n; i++)
        (*series)[i] = lines[i].series;
    arena_try_end(arena);
    return 0;
}

int clickhouse_lines(void *driver, const struct store_select *select, int64_t step,
                     struct arena *arena, struct store_line **found, size_t *n,
                     struct store_answer *answer, struct err *e)
{
    struct line *lines;
    int code = scan(driver, select, step, arena, &lines, n, e);
    struct arena_trap trap;
    if (code || ARENA_TRY(arena, trap))
        return code ? code : (arena_caught(arena, e), STORE_BUSY);
    *found = arena_array(arena, *n, sizeof **found);
    for (size_t i = 0; i < *n; i++)
        (*found)[i] = (struct store_line){lines[i].series, lines[i].points, lines[i].n};
    arena_try_end(arena);
    return 0;
}
