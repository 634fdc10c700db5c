// Merges: ClickHouse adds up, and only stacks with their sums are transferred.
#include <stdlib.h>

#include "base/sort.h"
#include "store/clickhouse.h"
#include "store/exact.h"
#include "store/fold.h"

struct sum {
    struct str service;
    uint64_t stack;
    __int128 sum; // of a gauge: shares of a mean
    // Input of the variance: squared weights in units of values; without weights, the values and
    // the related column.
    double weighed, plain, beside;
    uint32_t way;   // of plain and beside
    uint32_t block; // block + 1; all of sum belongs to it
    bool only_block;
};

struct merging {
    struct clickhouse *c;
    const struct store_select *select;
    struct arena *arena;
    struct finding found;
    struct fold fold;
    struct db no_names;
    bool gauge, all_stacks_found, has_doubles;
    bool with_variance, is_counted;
    bool mixed; // series differ in how their variance is derived
    struct variance variance;
    const struct store_blocks *blocks; // NULL: none
    uint32_t n_blocks;
    uint64_t n_profiles;
    int64_t duration;
    uint64_t *counts; // of a gauge: profiles of each line
    struct sum *sums;
    size_t n_sums, cap_sums;
    struct hours hours;
};

// Counts the profiles of each line, the divisors of means, and sums up durations.
static int query_counts(struct merging *m, struct err *e)
{
    struct out sql;
    struct unpack rows;
    out_init_arena(&sql, m->arena);
    out_printf(&sql, "SELECT family, series, count(), sum(duration) FROM %s.profiles",
               m->c->at.database);
    clickhouse_where(&sql, m->select, &m->found, IN_PROFILES);
    clickhouse_in_range(&sql, m->select);
    out_text(&sql, " GROUP BY family, series FORMAT RowBinary");
    int code = clickhouse_query(m->c, out_result(&sql), m->arena, &rows, e);
    m->counts = arena_array(m->arena, m->found.n_lines, sizeof *m->counts);
    while (!code && rows.p < rows.end && !rows.bad) {
        struct id family = row_id(&rows), series = row_id(&rows);
        uint64_t n = row_u64(&rows);
        int64_t duration = (int64_t)row_u64(&rows);
        const struct found_series *f = finding_at(&m->found, family, series);
        if (!f || rows.bad)
            continue;
        m->counts[f->line] += n;
        m->n_profiles += n;
        m->duration = pack_add(m->duration, duration);
    }
    return clickhouse_rows_end(m->c, &rows, code, e);
}

// Which sums a query computes.
enum sums {
    SUMS,        // of the type itself, per window if there are blocks
    SUMS_SERIES, // per series, for blocks that are groups of series
    SUMS_BESIDE, // of the related columns
};

static const char *window_column(const struct merging *m, enum sums what, bool rolled,
                                 struct arena *arena)
{
    if (!m->blocks || what != SUMS)
        return "";
    return arena_printf(arena, "intDiv(%s - toInt64(%lld), toInt64(%lld)) AS w, ",
                        rolled ? "toInt64(hour) * toInt64(3600000000000)" : "ts",
                        (long long)m->blocks->origin, (long long)m->blocks->step);
}

static struct sum make_sum(struct merging *m, enum sums what, const struct found_series *f,
                           uint64_t stack, __int128 sum, int64_t window)
{
    struct sum s = {.service = f->service, .stack = stack, .way = f->way};
    if (what == SUMS_BESIDE) {
        *(f->events.is_weighed ? &s.weighed : &s.beside) =
            f->events.is_weighed ? kind_variance(&f->events, 0, (double)sum) : (double)sum;
        return s;
    }
    s.sum = m->gauge ? exact_share(sum, m->counts[f->line]) : (int64_t)sum;
    if (what == SUMS_SERIES) {
        s.block = m->blocks->n_windows + f->group + 1;
        s.only_block = true;
        return s;
    }
    if (m->blocks)
        s.block = (uint32_t)(window < 0                      ? 0
                             : window < m->blocks->n_windows ? window
                                                             : m->blocks->n_windows - 1) +
                  1;
    if (m->with_variance && !f->events.is_weighed)
        s.plain = (double)sum;
    return s;
}

static int query_sums(struct merging *m, enum sums what, bool rolled, struct err *e)
{
    struct out sql;
    struct unpack rows;
    const struct store_select *s = m->select;
    bool by_series = m->gauge || what == SUMS_SERIES || m->mixed;
    bool one_family = m->found.n_bases == 1 && !by_series;
    const char *window = window_column(m, what, rolled, m->arena);
    out_init_arena(&sql, m->arena);
    out_printf(&sql, "SELECT %s%sstack, sum(%s)%s FROM %s.%s",
               by_series    ? "family, series, "
               : one_family ? ""
                            : "family, ",
               window, rolled ? "total" : "value",
               !m->gauge ? ""
               : rolled  ? ", sum(high)"
                         : ", sum(" SQL_HIGH("value") ")",
               m->c->at.database, rolled ? "hourly" : "samples");
    clickhouse_where(&sql, s, &m->found, rolled ? IN_HOURLY : IN_SAMPLES);
    if (!rolled)
        clickhouse_in_range(&sql, s);
    clickhouse_in_hours(&sql, &m->hours, rolled);
    if (s->n_spans) {
        out_text(&sql, " AND span IN (");
        sql_numbers(&sql, s->spans, s->n_spans);
        out_text(&sql, ")");
    }
    for (size_t i = 0; i < s->n_traces; i++)
        out_printf(&sql, "%s(trace_high = %llu AND trace_low = %llu)%s", i ? " OR " : " AND (",
                   (unsigned long long)s->traces[i].high, (unsigned long long)s->traces[i].low,
                   i + 1 == s->n_traces ? ")" : "");
    out_printf(&sql, " GROUP BY %s%sstack FORMAT RowBinary",
               by_series    ? "family, series, "
               : one_family ? ""
                            : "family, ",
               *window ? "w, " : "");
    int code = clickhouse_query(m->c, out_result(&sql), m->arena, &rows, e);
    while (!code && rows.p < rows.end) {
        struct id base = one_family ? m->found.bases[0] : row_id(&rows);
        struct id series = by_series ? row_id(&rows) : (struct id){0};
        int64_t in_window = *window ? (int64_t)row_u64(&rows) : 0;
        uint64_t stack = row_u64(&rows);
        __int128 sum = m->gauge ? row_sum(&rows) : (int64_t)row_u64(&rows);
        const struct found_series *f = finding_base(&m->found, base, series);
        arena_spend(m->arena, 1);
        if (rows.bad || !f)
            continue;
        sum *= f->factor;
        m->sums = arena_push(m->arena, m->sums, m->n_sums, &m->cap_sums, sizeof *m->sums);
        m->sums[m->n_sums++] = make_sum(m, what, f, stack, sum, in_window);
    }
    return clickhouse_rows_end(m->c, &rows, code, e);
}

static int compare_sums(const void *a, const void *b)
{
    const struct sum *x = a, *y = b;
    int order = str_cmp(x->service, y->service);
    if (order || x->stack != y->stack)
        return order ? order : x->stack < y->stack ? -1 : 1;
    if (x->block != y->block)
        return x->block < y->block ? -1 : 1;
    return x->way < y->way ? -1 : x->way > y->way;
}

// Sorts the sums and merges those of one stack, block and way.
static void combine_sums(struct merging *m)
{
    size_t n = 0;
    sort_items(m->arena, m->sums, m->n_sums, sizeof *m->sums, compare_sums);
    for (size_t i = 0; i < m->n_sums; i++) {
        arena_spend(m->arena, 1);
        if (n && compare_sums(&m->sums[n - 1], &m->sums[i]) == 0) {
            m->sums[n - 1].sum += m->sums[i].sum;
            m->sums[n - 1].weighed += m->sums[i].weighed;
            m->sums[n - 1].plain += m->sums[i].plain;
            m->sums[n - 1].beside += m->sums[i].beside;
        } else {
            m->sums[n++] = m->sums[i];
        }
    }
    m->n_sums = n;
}

static void add_events(struct merging *m, int64_t *blocks, uint32_t node, const struct sum *sum)
{
    if (m->with_variance)
        m->variance.known[node] += sum->weighed;
    if (sum->plain != 0 || sum->beside != 0) {
        variance_use(&m->variance, sum->way, m->arena);
        m->variance.ways[sum->way].values[node] += sum->plain;
        m->variance.ways[sum->way].beside[node] += sum->beside;
    }
    if (m->n_blocks && sum->block) {
        int64_t *block = &blocks[(size_t)node * m->n_blocks + sum->block - 1];
        *block = pack_add(*block, (int64_t)sum->sum);
    }
}

static int fold_service(struct merging *m, struct stacks_cache *cache, const struct sum *sums,
                        size_t n, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(m->arena, trap)) {
        arena_caught(m->arena, e);
        return STORE_BUSY;
    }
    uint64_t *numbers = arena_raw(m->arena, n, sizeof *numbers);
    size_t n_stacks = 0;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || sums[i].stack != sums[i - 1].stack)
            numbers[n_stacks++] = sums[i].stack;
    int code = stacks_ensure(m->c, cache, m->select, numbers, n_stacks, arena_budget(m->arena), e);
    m->has_doubles |= cache->has_doubles;
    if (!code) {
        const struct symbols *s = cache->symbols;
        int64_t *values = arena_array(m->arena, m->gauge ? 0 : s->n.nodes, sizeof *values);
        __int128 *shares = arena_array(m->arena, m->gauge ? s->n.nodes : 0, sizeof *shares);
        int64_t *blocks = arena_array(m->arena, (size_t)s->n.nodes * m->n_blocks, sizeof *blocks);
        if (m->with_variance)
            variance_begin(&m->variance, s->n.nodes, m->arena);
        for (size_t i = 0; i < n; i++) {
            uint32_t node = stacks_node(cache, sums[i].stack);
            arena_spend(m->arena, 1);
            m->all_stacks_found &= node != UINT32_MAX;
            if (node == UINT32_MAX)
                continue;
            if (m->gauge)
                shares[node] += sums[i].sum;
            else if (!sums[i].only_block)
                values[node] = pack_add(values[node], (int64_t)sums[i].sum);
            add_events(m, blocks, node, &sums[i]);
        }
        if (m->with_variance)
            m->is_counted |= variance_end(&m->variance, &m->found.ways);
        if (m->gauge)
            fold_add_shares(&m->fold, s, shares, s->n.nodes);
        else
            fold_add(&m->fold, s, values, m->variance.known, blocks, s->n.nodes);
    }
    arena_try_end(m->arena);
    return code;
}

static int fold_all(struct merging *m, struct err *e)
{
    int code = 0;
    struct budget *budget = arena_budget(m->arena);
    for (size_t at = 0, end; at < m->n_sums && !code; at = end) {
        struct stacks_cache *cache;
        struct str service = m->sums[at].service;
        for (end = at; end < m->n_sums && str_eq(m->sums[end].service, service); end++)
            ;
        code = stacks_take(m->c, m->select->tenant, service, budget, &cache, e);
        if (code)
            break;
        if (budget)
            budget->holds_lock = true;
        code = fold_service(m, cache, m->sums + at, end - at, e);
        if (budget)
            budget->holds_lock = false;
        stacks_give(m->c, cache);
    }
    return code;
}

static void set_result_type(struct merging *m)
{
    struct model_builder *b = &m->fold.b;
    struct found_series of = {0};
    struct type_id id;
    if (m->found.n)
        of = m->found.found[0];
    else if (type_id_parse(m->select->type, &id))
        of = (struct found_series){.type = id.type,
                                   .unit = id.unit,
                                   .period_type = id.period_type,
                                   .period_unit = id.period_unit};
    model_build_type(b, of.type, of.unit);
    b->p->period_type = (struct model_value_type){model_build_string(b, of.period_type),
                                                  model_build_string(b, of.period_unit)};
    b->p->period = of.period;
}

// Queries the sums of m->found from the roll-up, and the rest from samples.
static int query_found_sums(struct merging *m, enum sums what, struct err *e)
{
    // The roll-up has no parts of an hour.
    bool is_by_hour =
        !m->blocks || !(m->blocks->origin % HOUR_NANOS || m->blocks->step % HOUR_NANOS);
    m->hours = (struct hours){0};
    int code = is_by_hour ? hours_find(m->c, m->select, &m->found, 0, m->arena, &m->hours, e) : 0;
    if (!code && m->hours.n_rolled)
        code = query_sums(m, what, true, e);
    if (!code && (!m->hours.rest || m->hours.n_rest))
        code = query_sums(m, what, false, e);
    return code;
}

static int query_related_sums(struct merging *m, struct err *e)
{
    struct finding found = m->found;
    finding_beside(&found, m->arena, &m->found);
    int code = m->found.n ? query_found_sums(m, SUMS_BESIDE, e) : 0;
    m->found = found;
    return code;
}

static int query_all_sums(struct merging *m, struct store_stacks **stacks, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(m->arena, trap)) {
        arena_caught(m->arena, e);
        return STORE_BUSY;
    }
    fold_init(&m->fold, m->arena, &m->no_names, m->gauge);
    m->fold.with_variance = m->with_variance;
    m->fold.n_blocks = m->n_blocks;
    m->mixed = m->found.ways.n > 1;
    for (size_t i = 1; m->with_variance && i < m->found.n; i++)
        m->mixed |= m->found.found[i].events.is_weighed != m->found.found[0].events.is_weighed;
    int code = 0;
    if (m->found.n) {
        code = query_counts(m, e);
        if (!code)
            code = query_found_sums(m, SUMS, e);
        if (!code && m->blocks && m->blocks->n_groups)
            code = query_found_sums(m, SUMS_SERIES, e);
        if (!code && m->with_variance)
            code = query_related_sums(m, e);
    }
    if (!code)
        combine_sums(m);
    *stacks = arena_alloc(m->arena, sizeof **stacks);
    arena_try_end(m->arena);
    return code;
}

static int finish_clickhouse_merge(struct merging *m, struct store_stacks *s, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(m->arena, trap)) {
        arena_caught(m->arena, e);
        return STORE_BUSY;
    }
    set_result_type(m);
    *s = fold_end(&m->fold);
    s->n_profiles = m->n_profiles;
    s->duration = m->duration;
    s->is_counted = m->is_counted;
    s->n_windows = m->blocks ? m->blocks->n_windows : 0;
    arena_try_end(m->arena);
    return 0;
}

int clickhouse_merge(void *driver, const struct store_select *select, struct arena *arena,
                     struct store_stacks **stacks, struct store_answer *answer, struct err *e)
{
    struct merging m = {.c = driver, .select = select, .arena = arena, .all_stacks_found = true};
    m.gauge = store_type_is_gauge(select->type);
    m.with_variance = select->with_variance && !m.gauge;
    m.blocks = m.gauge ? NULL : select->blocks;
    m.n_blocks = m.blocks ? m.blocks->n_windows + m.blocks->n_groups : 0;
    int code = clickhouse_find(driver, select, arena, &m.found, e);
    if (!code)
        code = query_all_sums(&m, stacks, e);
    if (!code)
        code = fold_all(&m, e);
    if (!code && !m.all_stacks_found) {
        clickhouse_note(driver, "stacks of samples are missing in %s.stacks", m.c->at.database);
        store_warn(answer, "some samples were left out: their stacks are missing in ClickHouse");
    }
    if (!code && m.has_doubles) {
        clickhouse_note(driver, "two stacks have the same id in %s.stacks", m.c->at.database);
        store_warn(answer, "some samples may have the wrong stack: two stacks have the same id");
    }
    return code ? code : finish_clickhouse_merge(&m, *stacks, e);
}
