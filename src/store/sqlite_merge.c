#include "store/sqlite_merge.h"

static void begin_service(struct merging *m)
{
    size_t n = m->n_nodes;
    if (m->gauge) {
        m->shares = arena_array(m->arena, n, sizeof *m->shares);
        return;
    }
    m->sums = arena_array(m->arena, n, sizeof *m->sums);
    if (m->select->with_variance)
        variance_begin(&m->variance, m->n_nodes, m->arena);
    if (m->blocks) {
        n *= m->n_blocks;
        m->block_sums =
            block_scratch(&m->r, m->block_sums, n, &m->cap_block_sums, sizeof *m->block_sums);
        memset(m->block_sums, 0, n * sizeof *m->block_sums);
    }
}

static void end_service(struct merging *m, const struct symbols *s)
{
    if (m->gauge) {
        fold_add_shares(&m->fold, s, m->shares, m->n_nodes);
        return;
    }
    if (m->select->with_variance)
        m->is_counted |= variance_end(&m->variance, &m->ways);
    fold_add(&m->fold, s, m->sums, m->variance.known, m->block_sums, m->n_nodes);
}

static int merge_service(struct merging *m, struct err *e)
{
    uint64_t n_profiles = m->n_profiles;
    int64_t duration = m->duration;
    int code =
        reader_symbols_take(m->lite, m->reader, m->found->service, m->r.zstd, &m->symbols, e);
    if (code)
        return code;
    const struct symbols *s = m->symbols->symbols;
    m->n_nodes = s->n.nodes;
    begin_service(m);
    for (size_t i = 0; m->gauge && i < m->n_found; i++)
        m->found[i].n = *merge_count_of(m, &m->found[i].series);
    code = merge_profiles(m, e);
    if (!code) {
        end_service(m, s);
    } else {
        m->n_profiles = n_profiles;
        m->duration = duration;
    }
    reader_symbols_give(m->lite, m->reader, m->symbols);
    m->symbols = NULL;
    return code;
}

static void set_merge_type(struct merging *m, const struct found *f)
{
    struct model_builder *b = &m->fold.b;
    model_build_type(b, f->type, f->unit);
    b->p->period_type = (struct model_value_type){model_build_string(b, f->period_type),
                                                  model_build_string(b, f->period_unit)};
    b->p->period = f->period;
    m->named = true;
}

static int merge_day(struct merging *m, struct err *e)
{
    struct found *found;
    struct err why;
    size_t n = 0;
    int left_out = 0, code = reader_find(m->reader, m->select, m->arena, &found, &n, e);
    for (size_t at = 0, end; at < n && !code; at = end) {
        for (end = at; end < n && found[end].service == found[at].service; end++)
            ;
        m->found = found + at;
        m->n_found = end - at;
        if (!m->named)
            set_merge_type(m, found + at);
        code = m->counting ? merge_count_service(m, e) : merge_service(m, e);
        // Leave out an unreadable service, but keep the others of the day.
        if (code == STORE_CORRUPT) {
            left_out = code;
            why = *e;
            code = 0;
            db_reset(&m->reader->db);
        }
    }
    if (left_out && !code) {
        *e = why;
        code = left_out;
    }
    return code;
}

// Catches jumps; the caller releases what *m holds.
static int merge_guarded(struct merging *m, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(m->arena, trap)) {
        arena_caught(m->arena, e);
        return STORE_BUSY;
    }
    int code = merge_day(m, e);
    arena_try_end(m->arena);
    return code;
}

static int finish_sqlite_merge(struct merging *m, struct store_stacks **stacks, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(m->arena, trap)) {
        arena_caught(m->arena, e);
        return STORE_BUSY;
    }
    struct type_id id;
    struct store_stacks *s = arena_alloc(m->arena, sizeof *s);
    if (!m->named && type_id_parse(m->select->type, &id))
        set_merge_type(m, &(struct found){.type = id.type,
                                          .unit = id.unit,
                                          .period_type = id.period_type,
                                          .period_unit = id.period_unit});
    *s = fold_end(&m->fold);
    s->n_profiles = m->n_profiles;
    s->duration = m->duration;
    s->is_counted = m->is_counted;
    s->n_windows = m->blocks ? m->blocks->n_windows : 0;
    *stacks = s;
    arena_try_end(m->arena);
    return 0;
}

static int begin_fold(struct merging *m, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(m->arena, trap)) {
        arena_caught(m->arena, e);
        return STORE_BUSY;
    }
    fold_init(&m->fold, m->arena, &m->names, m->gauge);
    m->fold.with_variance = m->select->with_variance && !m->gauge;
    m->fold.n_blocks = m->n_blocks;
    hash_init(&m->counts, m->arena, 64);
    span_set_init(&m->wanted, m->select, m->arena);
    arena_try_end(m->arena);
    return 0;
}

// Reads every day once; damaged days are left out.
static int merge_each_day(struct merging *m, const int64_t *days, size_t n,
                          struct store_answer *answer, struct err *e)
{
    int code = 0;
    for (size_t i = 0; i < n && !code; i++) {
        code = reader_take(m->lite, m->select->tenant, days[i], &m->reader, e);
        if (!code && m->reader) {
            m->reader->budget = arena_budget(m->arena);
            m->body.reader = m->reader;
            code = merge_guarded(m, e);
        }
        body_end(&m->body);
        if (m->symbols)
            reader_symbols_give(m->lite, m->reader, m->symbols);
        if (m->reader)
            code = reader_give(m->lite, m->reader, code, e);
        m->symbols = NULL;
        m->reader = NULL;
        if (lite_is_unreadable(code)) {
            if (!m->counting)
                lite_leave_out(m->lite, code, days[i], answer, e);
            code = 0;
        }
    }
    return code;
}

int sqlite_merge(void *driver, const struct store_select *select, struct arena *arena,
                 struct store_stacks **stacks, struct store_answer *answer, struct err *e)
{
    struct merging m = {.lite = driver, .select = select, .arena = arena};
    int64_t *days;
    size_t n = 0;
    m.body.r = &m.r;
    m.gauge = store_type_is_gauge(select->type);
    m.blocks = m.gauge ? NULL : select->blocks;
    m.n_blocks = m.blocks ? m.blocks->n_windows + m.blocks->n_groups : 0;
    int code = day_list(driver, select->tenant, select->start, select->end, arena, &days, &n, e);
    if (!code)
        code = block_reader_init(&m.r, arena, e);
    if (!code)
        code = names_open(driver, select->tenant, false, &m.names, e);
    if (!code)
        code = begin_fold(&m, e);
    if (!code && m.gauge) {
        m.counting = true;
        code = merge_each_day(&m, days, n, answer, e);
        m.counting = false;
    }
    if (!code)
        code = merge_each_day(&m, days, n, answer, e);
    if (!code)
        code = finish_sqlite_merge(&m, stacks, e);
    block_reader_fini(&m.r);
    if (m.names.handle)
        db_close(&m.names);
    return code;
}
