#include <stdlib.h>

#include "base/sort.h"
#include "store/clickhouse.h"
#include "store/exact.h"

// How long a query waits for data acknowledged before it.
#define FLUSH_NANOS (INT64_C(5) * 1000000000)

uint32_t clickhouse_day(int64_t time)
{
    int64_t day = time / DAY_NANOS;
    return day < 0 ? 0 : day > 65535 ? 65535 : (uint32_t)day;
}

static uint32_t hour_number(int64_t time)
{
    int64_t hour = time / HOUR_NANOS;
    return hour < 0 ? 0 : hour > UINT32_MAX ? UINT32_MAX : (uint32_t)hour;
}

struct search {
    struct clickhouse *c;
    const struct store_select *select;
    struct arena *arena;
    struct finding *f;
    struct type_id type;
    bool typed;
    size_t cap;
    struct id *others; // families and bases of series that do not match
    size_t n_others, cap_others;
    struct kind_events_cache events;
};

// any(), because a series may have been written more than once.
static int query_series_rows(struct search *s, struct unpack *rows, struct err *e)
{
    struct out sql;
    struct str service = labels_one_service(s->select);
    out_init_arena(&sql, s->arena);
    out_printf(&sql,
               "SELECT service, series, any(kind), any(label_names), any(label_values), "
               "any(families), any(base), any(derived) FROM %s.series WHERE day >= toDate(%u) AND "
               "day <= toDate(%u) AND tenant = ",
               s->c->at.database, clickhouse_day(s->select->start), clickhouse_day(s->select->end));
    sql_text(&sql, s->select->tenant);
    if (service.n) {
        out_text(&sql, " AND service = ");
        sql_text(&sql, service);
    }
    out_text(&sql, " GROUP BY service, series FORMAT RowBinary");
    return clickhouse_query(s->c, out_result(&sql), s->arena, rows, e);
}

static void add_other(struct search *s, struct id family)
{
    s->others = arena_push(s->arena, s->others, s->n_others, &s->cap_others, sizeof *s->others);
    s->others[s->n_others++] = family;
}

static int64_t factor_of(const struct kind *kind, uint32_t column, uint64_t derived)
{
    return column && column < kind_types(kind) && derived >> column & 1 ? kind->period : 1;
}

static void describe_events(struct search *s, struct str body, const struct kind *kind,
                            uint32_t column, const struct id *families, struct id base,
                            uint64_t derived, struct found_series *found)
{
    struct finding *f = s->f;
    if (kind->is_weighed) {
        f->weights =
            arena_push(s->arena, f->weights, f->n_weights, &f->cap_weights, sizeof *f->weights);
        f->weights[f->n_weights++] = families[kind->k - 1];
    }
    if (s->select->blocks && s->select->blocks->n_groups)
        found->group = s->select->blocks->group(s->select->blocks->ctx, &found->series);
    if (!s->select->with_variance)
        return;
    found->events = kind_events_of(&s->events, body, kind, column, s->arena);
    if (!found->events.is_weighed)
        found->way = variance_way(&f->ways, &found->events);
    if (!found->events.has_other)
        return;
    uint32_t other = found->events.other;
    found->beside = families[other];
    found->beside_base = derived >> other & 1 ? base : families[other];
    found->beside_factor = factor_of(kind, other, derived);
}

static bool read_series_row(struct search *s, struct unpack *b)
{
    struct finding *f = s->f;
    struct str service = unpack_str(b);
    struct id id = row_id(b);
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
    struct id *families = arena_array(s->arena, k, sizeof *families), base;
    for (size_t i = 0; i < k; i++)
        families[i] = row_id(b);
    base = row_id(b);
    uint64_t derived = row_u64(b);
    for (uint32_t i = 0; i < kind_types(&kind); i++) {
        bool shared = derived >> i & 1;
        struct id family = families[i], samples = shared ? base : family;
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
                                                 .service = service,
                                                 .base = samples,
                                                 .factor = factor_of(&kind, i, derived),
                                                 .series = series,
                                                 .type = kind.types[i].type,
                                                 .unit = kind.types[i].unit,
                                                 .period_type = kind.period_type,
                                                 .period_unit = kind.period_unit,
                                                 .period = kind.period};
        describe_events(s, body, &kind, i, families, base, derived, &f->found[f->n - 1]);
    }
    return !b->bad;
}

static int compare_series_labels(const void *a, const void *b)
{
    const struct found_series *x = a, *y = b;
    return labels_compare(x->series.labels, x->series.n_labels, y->series.labels,
                          y->series.n_labels);
}

static int compare_found_series(const void *a, const void *b)
{
    const struct found_series *x = a, *y = b;
    return id_eq(x->family, y->family) ? id_cmp(x->id, y->id) : id_cmp(x->family, y->family);
}

static int compare_bases(const void *a, const void *b)
{
    const struct found_series *x = a, *y = b;
    return id_eq(x->base, y->base) ? id_cmp(x->id, y->id) : id_cmp(x->base, y->base);
}

static void index_found(struct finding *f, struct arena *arena)
{
    sort_items(arena, f->found, f->n, sizeof *f->found, compare_found_series);
    f->by_base = arena_array(arena, f->n, sizeof *f->by_base);
    if (f->n)
        memcpy(f->by_base, f->found, f->n * sizeof *f->found);
    sort_items(arena, f->by_base, f->n, sizeof *f->by_base, compare_bases);
    f->families = arena_array(arena, f->n, sizeof *f->families);
    f->bases = arena_array(arena, f->n, sizeof *f->bases);
    for (size_t i = 0; i < f->n; i++) {
        f->families[i] = f->found[i].family;
        f->bases[i] = f->found[i].base;
    }
    f->n_bases = id_distinct(f->bases, f->n);
    f->n_families = id_distinct(f->families, f->n);
}

void finding_beside(const struct finding *f, struct arena *arena, struct finding *beside)
{
    *beside = (struct finding){.voids = f->voids, .n_voids = f->n_voids};
    beside->found = arena_array(arena, f->n, sizeof *beside->found);
    for (size_t i = 0; i < f->n; i++) {
        if (!f->found[i].events.has_other)
            continue;
        struct found_series *to = &beside->found[beside->n++];
        *to = f->found[i];
        to->family = to->beside;
        to->base = to->beside_base;
        to->factor = to->beside_factor;
    }
    index_found(beside, arena);
}

static void sort_finding(struct search *s)
{
    struct finding *f = s->f;
    sort_items(s->arena, f->found, f->n, sizeof *f->found, compare_series_labels);
    for (size_t i = 0; i < f->n; i++) {
        arena_spend(s->arena, 1 + f->found[i].series.n_labels);
        f->n_lines += i == 0 || compare_series_labels(&f->found[i - 1], &f->found[i]) != 0;
        f->found[i].line = f->n_lines - 1;
    }
    index_found(f, s->arena);
    f->n_weights = id_distinct(f->weights, f->n_weights);
    f->whole = true;
    for (size_t i = 0; i < s->n_others && f->whole; i++)
        f->whole = !id_is_among(s->others[i], f->families, f->n_families) &&
                   !id_is_among(s->others[i], f->bases, f->n_bases);
}

int clickhouse_find(struct clickhouse *c, const struct store_select *select, struct arena *arena,
                    struct finding *f, struct err *e)
{
    struct search s = {.c = c, .select = select, .arena = arena, .f = f};
    struct unpack rows;
    *f = (struct finding){0};
    s.typed = select->type.n && type_id_parse(select->type, &s.type);
    spool_flush(&c->spool, FLUSH_NANOS, arena_budget(arena));
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    int code = voids_query(c, select->tenant, clickhouse_day(select->start),
                           clickhouse_day(select->end), arena, &f->voids, &f->n_voids, e);
    if (!code)
        code = query_series_rows(&s, &rows, e);
    while (!code && rows.p < rows.end)
        if (!read_series_row(&s, &rows)) {
            err_set(e, "ClickHouse at %s: invalid row in %s.series", c->at.base, c->at.database);
            code = STORE_CORRUPT;
        }
    if (!code)
        sort_finding(&s);
    arena_try_end(arena);
    return code;
}

void clickhouse_where(struct out *sql, const struct store_select *select, const struct finding *f,
                      enum where table)
{
    bool samples = table != IN_PROFILES;
    out_text(sql, " WHERE tenant = ");
    sql_text(sql, select->tenant);
    out_printf(sql,
               " AND day >= toDate(%u) AND day <= toDate(%u) AND hour >= %u AND hour <= %u AND "
               "family IN (",
               clickhouse_day(select->start), clickhouse_day(select->end),
               hour_number(select->start), hour_number(select->end));
    sql_ids(sql, samples ? f->bases : f->families, samples ? f->n_bases : f->n_families);
    out_text(sql, ")");
    if (!f->whole) {
        out_text(sql, " AND series IN (");
        for (size_t i = 0; i < f->n; i++) {
            if (i)
                out_char(sql, ',');
            sql_id(sql, f->found[i].id);
        }
        out_text(sql, ")");
    }
    // In hourly, an hour with voids has more rows than profiles says, so it is not used.
    if (table == IN_HOURLY)
        return;
    for (size_t i = 0; i < f->n_voids; i++) {
        out_text(sql, i ? ",(" : " AND (series, ts, batch) NOT IN ((");
        sql_id(sql, f->voids[i].series);
        out_printf(sql, ",%lld,%llu)%s", (long long)f->voids[i].ts,
                   (unsigned long long)f->voids[i].batch, i + 1 == f->n_voids ? ")" : "");
    }
}

void clickhouse_in_range(struct out *sql, const struct store_select *select)
{
    out_printf(sql, " AND ts >= %lld AND ts <= %lld", (long long)select->start,
               (long long)select->end);
}

struct found_series *finding_at(struct finding *f, struct id family, struct id series)
{
    struct found_series key = {.family = family, .id = series};
    return f->n ? bsearch(&key, f->found, f->n, sizeof key, compare_found_series) : NULL;
}

static int only_base_order(const void *a, const void *b)
{
    const struct found_series *x = a, *y = b;
    return id_cmp(x->base, y->base);
}

struct found_series *finding_base(struct finding *f, struct id base, struct id series)
{
    struct found_series key = {.base = base, .id = series};
    return f->n ? bsearch(&key, f->by_base, f->n, sizeof key,
                          id_is_none(series) ? only_base_order : compare_bases)
                : NULL;
}

// --- results ---

struct line {
    struct store_series series;
    struct exact_line points;
    bool any;
};

void clickhouse_index(struct out *sql, const struct store_select *select, int64_t step,
                      const char *time)
{
    out_printf(sql, "if(%s = %lld, toInt64(0), intDiv(%s - %lld - 1, toInt64(%lld)) + 1)", time,
               (long long)select->start, time, (long long)select->start, (long long)step);
}

// step 0: only whether there is a profile.
static int query_points(struct clickhouse *c, const struct store_select *select, int64_t step,
                        struct finding *f, struct arena *arena, struct line *lines, struct err *e)
{
    struct out sql;
    struct unpack rows;
    out_init_arena(&sql, arena);
    out_text(&sql, "SELECT family, series");
    if (step) {
        out_text(&sql, ", ");
        clickhouse_index(&sql, select, step, "ts");
        out_text(&sql, " AS i, sum(total), sum(" SQL_HIGH("total") "), count()");
    }
    out_printf(&sql, " FROM %s.profiles", c->at.database);
    clickhouse_where(&sql, select, f, IN_PROFILES);
    clickhouse_in_range(&sql, select);
    out_printf(&sql, " GROUP BY family, series%s FORMAT RowBinary", step ? ", i ORDER BY i" : "");
    int code = clickhouse_query(c, out_result(&sql), arena, &rows, e);
    if (code)
        return code;
    while (rows.p < rows.end) {
        struct id family = row_id(&rows), id = row_id(&rows);
        struct exact_point point = {0};
        if (step) {
            point.index = (int64_t)row_u64(&rows);
            point.sum = row_sum(&rows);
            point.n = row_u64(&rows);
        }
        const struct found_series *found = finding_at(f, family, id);
        arena_spend(arena, 1);
        if (!found || rows.bad)
            continue;
        lines[found->line].any = true;
        lines[found->line].series = found->series;
        if (step)
            exact_add(&lines[found->line].points, arena, point);
    }
    return clickhouse_rows_end(c, &rows, 0, e);
}

// Returns the lines with profiles, sorted by their labels.
static int scan_lines(struct clickhouse *c, const struct store_select *select, int64_t step,
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
    code = query_points(c, select, step, &f, arena, *lines, e);
    if (!code && step && select->filter) {
        struct exact_line **points = arena_array(arena, f.n_lines, sizeof *points);
        for (uint32_t i = 0; i < f.n_lines; i++)
            points[i] = &(*lines)[i].points;
        code = clickhouse_pick(c, select, step, &f, arena, points, e);
    }
    for (uint32_t i = 0; i < f.n_lines && !code; i++)
        if ((*lines)[i].any)
            (*lines)[(*n)++] = (*lines)[i];
    arena_try_end(arena);
    return code;
}

int clickhouse_series(void *driver, const struct store_select *select, struct arena *arena,
                      struct store_series **series, size_t *n, struct store_answer *answer,
                      struct err *e)
{
    struct line *lines;
    int code = scan_lines(driver, select, 0, arena, &lines, n, e);
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
    int code = scan_lines(driver, select, step, arena, &lines, n, e);
    struct arena_trap trap;
    if (code || ARENA_TRY(arena, trap))
        return code ? code : (arena_caught(arena, e), STORE_BUSY);
    *found = arena_array(arena, *n, sizeof **found);
    for (size_t i = 0; i < *n; i++) {
        (*found)[i].series = lines[i].series;
        (*found)[i].points = exact_points(&lines[i].points, arena, &(*found)[i].n_points);
    }
    arena_try_end(arena);
    return 0;
}
