// Whole hours are read from the roll-up where it is complete. ClickHouse fills the view after the
// rows are stored; a server killed in between leaves an incomplete hour. profiles has the number of
// rows of an hour, the roll-up the number it was made from.
#include "store/clickhouse.h"

// Whether an hour is entirely in the range and within one step.
static bool is_whole(const struct store_select *s, int64_t step, uint64_t hour)
{
    if (hour >= INT64_MAX / HOUR_NANOS || (int64_t)hour * HOUR_NANOS < s->start ||
        ((int64_t)hour + 1) * HOUR_NANOS - 1 > s->end)
        return false;
    uint64_t first = hour * HOUR_NANOS - (uint64_t)s->start, last = first + HOUR_NANOS - 1;
    return !step || (first + (uint64_t)step - 1) / (uint64_t)step ==
                        (last + (uint64_t)step - 1) / (uint64_t)step;
}

struct hour_rows {
    uint64_t hour, rows;
};

// Leaves out rows of a series in families that are only found of other series. Their number could
// hide that other rows are in the roll-up twice.
static void only_found_pairs(struct out *sql, const struct finding *f, bool rolled)
{
    if (f->whole || (rolled ? f->n_bases : f->n_families) < 2)
        return;
    for (size_t i = 0; i < f->n; i++) {
        out_text(sql, i ? ",(" : " AND (family, series) IN ((");
        sql_id(sql, rolled ? f->found[i].base : f->found[i].family);
        out_char(sql, ',');
        sql_id(sql, f->found[i].id);
        out_text(sql, i + 1 == f->n ? "))" : ")");
    }
}

// Returns the row count of each hour, sorted by hour.
static int query_hour_rows(struct clickhouse *c, const struct store_select *select,
                           const struct finding *f, bool rolled, struct arena *arena,
                           struct hour_rows **hours, size_t *n, struct err *e)
{
    struct out sql;
    struct unpack rows;
    size_t cap = 0;
    out_init_arena(&sql, arena);
    out_printf(&sql, "SELECT toUInt64(hour), toUInt64(sum(n)) FROM %s.%s", c->at.database,
               rolled ? "hourly" : "profiles");
    clickhouse_where(&sql, select, f, rolled ? IN_HOURLY : IN_PROFILES);
    only_found_pairs(&sql, f, rolled);
    out_text(&sql, " GROUP BY hour ORDER BY hour FORMAT RowBinary");
    *hours = NULL;
    *n = 0;
    int code = clickhouse_query(c, out_result(&sql), arena, &rows, e);
    while (!code && rows.p < rows.end && !rows.bad) {
        *hours = arena_push(arena, *hours, *n, &cap, sizeof **hours);
        (*hours)[*n].hour = row_u64(&rows);
        (*hours)[(*n)++].rows = row_u64(&rows);
    }
    return clickhouse_rows_end(c, &rows, code, e);
}

int hours_find(struct clickhouse *c, const struct store_select *select, const struct finding *f,
               int64_t step, struct arena *arena, struct hours *hours, struct err *e)
{
    struct hour_rows *raw, *rolled;
    size_t n_raw, n_rolled, cap = 0;
    int64_t first = select->start / HOUR_NANOS, last = select->end / HOUR_NANOS;
    *hours = (struct hours){0};
    // The roll-up has no spans and traces.
    if (select->n_spans || select->n_traces || (step && step < HOUR_NANOS) ||
        (last - first < 2 && !is_whole(select, step, (uint64_t)first) &&
         !is_whole(select, step, (uint64_t)last)))
        return 0;
    int code = query_hour_rows(c, select, f, false, arena, &raw, &n_raw, e);
    if (!code)
        code = query_hour_rows(c, select, f, true, arena, &rolled, &n_rolled, e);
    hours->rest = arena_array(arena, code ? 0 : n_raw, sizeof *hours->rest);
    for (size_t i = 0, j = 0; !code && i < n_raw; i++) {
        while (j < n_rolled && rolled[j].hour < raw[i].hour)
            j++;
        if (j == n_rolled || rolled[j].hour != raw[i].hour || rolled[j].rows != raw[i].rows ||
            !is_whole(select, step, raw[i].hour)) {
            hours->rest[hours->n_rest++] = raw[i].hour;
            continue;
        }
        hours->rolled =
            arena_push(arena, hours->rolled, hours->n_rolled, &cap, sizeof *hours->rolled);
        hours->rolled[hours->n_rolled++] = raw[i].hour;
    }
    return code;
}

void clickhouse_in_hours(struct out *sql, const struct hours *hours, bool rolled)
{
    if (!hours->rest)
        return;
    // The index skips hours that are not listed.
    out_text(sql, " AND hour IN (");
    sql_numbers(sql, rolled ? hours->rolled : hours->rest,
                rolled ? hours->n_rolled : hours->n_rest);
    out_text(sql, ")");
}
