// The stacks of a filter over time. kiln selects the stacks in each service's cached tree;
// ClickHouse sums their values by series and step.
#include "store/clickhouse.h"
#include "store/exact.h"
#include "store/pick.h"

enum { NUMBERS_A_STATEMENT = 50000 };

struct picking {
    struct clickhouse *c;
    const struct store_select *select;
    int64_t step;
    struct finding *found;
    struct arena *arena;
    struct hours hours;
    uint64_t *numbers; // of the selected stacks; those that end in the function come first
    size_t n, n_self, cap;
};

static int query_stack_numbers(struct picking *p, struct str service, uint64_t **numbers, size_t *n,
                               struct err *e)
{
    struct out sql;
    struct unpack rows;
    size_t cap = 0;
    *numbers = NULL;
    *n = 0;
    out_init_arena(&sql, p->arena);
    out_printf(&sql,
               "SELECT DISTINCT stack FROM %s.stacks WHERE day >= toDate(%u) AND day <= "
               "toDate(%u) AND tenant = ",
               p->c->at.database, clickhouse_day(p->select->start), clickhouse_day(p->select->end));
    sql_text(&sql, p->select->tenant);
    out_text(&sql, " AND service = ");
    sql_text(&sql, service);
    out_text(&sql, " FORMAT RowBinary");
    int code = clickhouse_query(p->c, out_result(&sql), p->arena, &rows, e);
    while (!code && rows.p < rows.end && !rows.bad) {
        *numbers = arena_push(p->arena, *numbers, *n, &cap, sizeof **numbers);
        (*numbers)[(*n)++] = row_u64(&rows);
    }
    return clickhouse_rows_end(p->c, &rows, code, e);
}

// Selects stacks in the cache, which this query has exclusively.
static int pick_stacks(struct picking *p, struct stacks_cache *cache, const uint64_t *numbers,
                       size_t n, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(p->arena, trap)) {
        arena_caught(p->arena, e);
        return STORE_BUSY;
    }
    int code = stacks_ensure(p->c, cache, p->select, numbers, n, arena_budget(p->arena), e);
    const uint8_t *picks =
        code ? NULL : pick_nodes(p->select->filter, cache->symbols, NULL, p->arena);
    for (size_t i = 0; picks && i < n; i++) {
        uint32_t node = stacks_node(cache, numbers[i]);
        arena_spend(p->arena, 1);
        if (node == UINT32_MAX || !picks[node])
            continue;
        p->numbers = arena_push(p->arena, p->numbers, p->n, &p->cap, sizeof *p->numbers);
        p->numbers[p->n++] = numbers[i];
        if (picks[node] & PICK_SELF) {
            p->numbers[p->n - 1] = p->numbers[p->n_self];
            p->numbers[p->n_self++] = numbers[i];
        }
    }
    arena_try_end(p->arena);
    return code;
}

static int pick_service(struct picking *p, struct str service, struct err *e)
{
    struct budget *budget = arena_budget(p->arena);
    struct stacks_cache *cache;
    uint64_t *numbers;
    size_t n;
    int code = query_stack_numbers(p, service, &numbers, &n, e);
    if (code || !n)
        return code;
    code = stacks_take(p->c, p->select->tenant, service, budget, &cache, e);
    if (code)
        return code;
    if (budget)
        budget->holds_lock = true;
    code = pick_stacks(p, cache, numbers, n, e);
    if (budget)
        budget->holds_lock = false;
    stacks_give(p->c, cache);
    return code;
}

static int pick_services(struct picking *p, struct err *e)
{
    int code = 0;
    for (size_t i = 0; i < p->found->n && !code; i++) {
        struct str service = p->found->found[i].service;
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++)
            seen = str_eq(p->found->found[k].service, service);
        arena_spend(p->arena, i);
        if (!seen)
            code = pick_service(p, service, e);
    }
    return code;
}

// Sums the stacks from..to. Those among the first n_self, which end in the function, are also
// summed separately.
static int query_picked_sums(struct picking *p, bool rolled, size_t from, size_t to,
                             struct exact_line *to_lines[], struct err *e)
{
    const struct store_select *s = p->select;
    const char *value = rolled ? "total" : "value";
    const char *high = rolled ? "high" : SQL_HIGH("value");
    size_t n_self = p->n_self > from ? (p->n_self < to ? p->n_self : to) - from : 0;
    struct out sql;
    struct unpack rows;
    out_init_arena(&sql, p->arena);
    out_text(&sql, "SELECT family, series, ");
    clickhouse_index(&sql, s, p->step, rolled ? "(toInt64(hour) * 3600000000000)" : "ts");
    out_printf(&sql, " AS i, sum(%s), sum(%s)", value, high);
    for (int i = 0; i < 2; i++) {
        out_printf(&sql, n_self ? ", sumIf(%s, stack IN (" : ", sum(toInt64(0))", i ? high : value);
        sql_numbers(&sql, p->numbers + from, n_self);
        out_text(&sql, n_self ? "))" : "");
    }
    out_printf(&sql, " FROM %s.%s", p->c->at.database, rolled ? "hourly" : "samples");
    clickhouse_where(&sql, s, p->found, rolled ? IN_HOURLY : IN_SAMPLES);
    if (!rolled)
        clickhouse_in_range(&sql, s);
    clickhouse_in_hours(&sql, &p->hours, rolled);
    out_text(&sql, " AND stack IN (");
    sql_numbers(&sql, p->numbers + from, to - from);
    out_text(&sql, ") GROUP BY family, series, i FORMAT RowBinary");
    int code = clickhouse_query(p->c, out_result(&sql), p->arena, &rows, e);
    while (!code && rows.p < rows.end) {
        struct id base = row_id(&rows), series = row_id(&rows);
        struct exact_point point = {.index = (int64_t)row_u64(&rows)};
        point.total = row_sum(&rows);
        point.self = row_sum(&rows);
        const struct found_series *f = finding_base(p->found, base, series);
        arena_spend(p->arena, 1);
        if (rows.bad || !f)
            continue;
        point.total *= f->factor;
        point.self *= f->factor;
        exact_add(to_lines[f->line], p->arena, point);
    }
    return clickhouse_rows_end(p->c, &rows, code, e);
}

int clickhouse_pick(struct clickhouse *c, const struct store_select *select, int64_t step,
                    struct finding *found, struct arena *arena, struct exact_line *lines[],
                    struct err *e)
{
    struct picking p = {.c = c, .select = select, .step = step, .found = found, .arena = arena};
    int code = pick_services(&p, e);
    if (!code && p.n)
        code = hours_find(c, select, found, step, arena, &p.hours, e);
    for (size_t at = 0; at < p.n && !code; at += NUMBERS_A_STATEMENT) {
        size_t end = p.n - at < NUMBERS_A_STATEMENT ? p.n : at + NUMBERS_A_STATEMENT;
        if (p.hours.n_rolled)
            code = query_picked_sums(&p, true, at, end, lines, e);
        if (!code && (!p.hours.rest || p.hours.n_rest))
            code = query_picked_sums(&p, false, at, end, lines, e);
    }
    return code;
}
