// Passes on every profile as it was put, to move it to another store.
#include <stdio.h>
#include <stdlib.h>

#include "store/fold.h"

// Profiles passed on at once.
enum { TOGETHER = 100 };

struct each {
    struct lite *lite;
    store_each_fn *give;
    void *ctx;
    struct str tenant;
    struct reader *reader;
    struct reader_symbols *symbols;
    struct db names;
    struct block_reader r;
    struct arena *arena;    // of a service and day: its symbols as model tables
    struct arena *profiles; // of the profiles being passed on
    struct model_builder b;
    uint32_t *locations; // maps locations of the symbols to those of b
    struct series *series;
    size_t n_series, cap_series;
    struct store_put puts[TOGETHER];
    size_t n;
    // Series of the previous put, and its index among puts of the same time.
    const struct series *last;
    int64_t last_time;
    unsigned same;
};

struct series {
    int64_t id;
    struct store_label *labels;
    size_t n_labels;
    struct kind kind;
};

static int export_damaged(const struct each *x, const char *what, struct err *e)
{
    err_set(e, "%s is damaged: %s cannot be read", x->reader->db.path, what);
    return STORE_CORRUPT;
}

// --- a service ---

static uint32_t export_string(struct each *x, uint32_t id)
{
    return model_build_string(&x->b, x->symbols->symbols->strings[id]);
}

static void build_export_tables(struct each *x)
{
    const struct symbols *s = x->symbols->symbols;
    model_build(&x->b, x->arena);
    x->locations = arena_array(x->arena, s->n.locations, sizeof *x->locations);
    for (uint32_t i = 0; i < s->n.mappings; i++) {
        const struct symbols_mapping *m = &s->mappings[i];
        model_build_mapping(
            &x->b, fold_mapping(m, export_string(x, m->file), export_string(x, m->build_id)));
    }
    for (uint32_t i = 0; i < s->n.locations; i++) {
        const struct symbols_location *l = &s->locations[i];
        const struct symbols_mapping *m = l->mapping ? &s->mappings[l->mapping - 1] : NULL;
        struct model_line *lines = arena_array(x->arena, l->n_lines, sizeof *lines);
        uint32_t n = l->n_lines;
        for (uint32_t j = 0; j < n; j++) {
            const struct symbols_line *line = &s->lines[l->first_line + j];
            const struct symbols_function *f = &s->functions[line->function];
            lines[j] = (struct model_line){line->line, line->column,
                                           model_build_function(&x->b, export_string(x, f->name),
                                                                export_string(x, f->system_name),
                                                                export_string(x, f->filename),
                                                                f->start_line)};
        }
        if (!n)
            n = fold_late_lines(&x->b, &x->names, s, l, x->arena, &lines);
        x->locations[i] = model_build_location(&x->b, m ? l->mapping - 1 : MODEL_NONE,
                                               l->address + (m ? m->start : 0), lines, n);
        x->b.p->locations[x->locations[i]].is_folded |= l->is_folded;
    }
}

static int series_order(const void *a, const void *b)
{
    const struct series *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int read_series(struct each *x, int64_t service, struct err *e)
{
    int code = 0, rc;
    sqlite3_stmt *q = db_prepare(&x->reader->db,
                                 "SELECT s.id, s.labels, k.body FROM series s JOIN kind k ON "
                                 "k.id = s.kind WHERE s.service = ? ORDER BY s.id",
                                 &code, e);
    if (!q)
        return code;
    sqlite3_bind_int64(q, 1, service);
    x->series = NULL;
    x->n_series = x->cap_series = 0;
    while ((rc = sqlite3_step(q)) == SQLITE_ROW) {
        x->series = arena_push(x->arena, x->series, x->n_series, &x->cap_series, sizeof *x->series);
        struct series *s = &x->series[x->n_series++];
        struct str body = db_blob(q, 2);
        s->id = sqlite3_column_int64(q, 0);
        body.p = arena_copy(x->arena, body.p, body.n);
        if (!labels_unpack(db_blob(q, 1), x->arena, &s->labels, &s->n_labels) ||
            !kind_unpack(body, &s->kind))
            return export_damaged(x, "a series", e);
    }
    sqlite3_reset(q);
    return rc == SQLITE_DONE ? 0 : db_error(&x->reader->db, rc, "read", e);
}

static const struct series *find_export_series(const struct each *x, int64_t id)
{
    struct series key = {.id = id};
    return x->n_series ? bsearch(&key, x->series, x->n_series, sizeof key, series_order) : NULL;
}

// --- a profile ---

static void build_stack(struct each *x, uint32_t node, uint32_t **stack, uint32_t *depth)
{
    const struct symbols *s = x->symbols->symbols;
    uint32_t n = 0;
    for (uint32_t at = node; at; at = s->nodes[at].parent)
        n++;
    *depth = n;
    *stack = arena_array(x->profiles, n, sizeof **stack);
    n = 0;
    for (uint32_t at = node; at; at = s->nodes[at].parent)
        (*stack)[n++] = x->locations[s->nodes[at].location];
}

// The label set of a sample's request: its span and trace.
static uint32_t request_set(struct each *x, uint64_t span, struct store_trace trace)
{
    char digits[33];
    struct model_label labels[2];
    size_t n = 0;
    if (span) {
        snprintf(digits, sizeof digits, "%016llx", (unsigned long long)span);
        labels[n++] = (struct model_label){.key = model_build_string(&x->b, STR("span_id")),
                                           .str = model_build_string(&x->b, str_from(digits))};
    }
    if (trace.high || trace.low) {
        snprintf(digits, sizeof digits, "%016llx%016llx", (unsigned long long)trace.high,
                 (unsigned long long)trace.low);
        labels[n++] = (struct model_label){.key = model_build_string(&x->b, STR("trace_id")),
                                           .str = model_build_string(&x->b, str_from(digits))};
    }
    return n ? model_build_label_set(&x->b, labels, n) : 0;
}

static struct model_profile *build_profile(struct each *x, const struct kind *kind,
                                           const struct symbols_values *v)
{
    struct model_profile *p = arena_alloc(x->profiles, sizeof *p);
    uint32_t *sets = v->spans ? arena_array(x->profiles, v->n, sizeof *sets) : NULL;
    for (uint32_t i = 0; v->spans && i < v->n; i++)
        sets[i] = request_set(x, v->spans[i], v->traces ? v->traces[i] : (struct store_trace){0});
    uint32_t k = kind_types(kind);
    struct model_value_type *types = arena_array(x->profiles, k, sizeof *types);
    for (uint32_t c = 0; c < k; c++)
        types[c] = (struct model_value_type){model_build_string(&x->b, kind->types[c].type),
                                             model_build_string(&x->b, kind->types[c].unit)};
    struct model_value_type period_type = {model_build_string(&x->b, kind->period_type),
                                           model_build_string(&x->b, kind->period_unit)};
    uint32_t default_type = model_build_string(&x->b, kind->default_type);
    *p = *x->b.p;
    p->types = types;
    p->n_types = k;
    p->is_weighed = kind->is_weighed;
    if (p->is_weighed)
        p->squares = arena_array(x->profiles, v->n, sizeof *p->squares);
    p->period_type = period_type;
    p->period = kind->period;
    p->default_type = default_type;
    p->n_samples = v->n;
    p->label_set = sets;
    p->stacks = arena_array(x->profiles, v->n, sizeof *p->stacks);
    p->stack_len = arena_array(x->profiles, v->n, sizeof *p->stack_len);
    p->values = arena_array(x->profiles, (size_t)v->n * k, sizeof *p->values);
    for (uint32_t i = 0; i < v->n; i++) {
        build_stack(x, v->nodes[i], &p->stacks[i], &p->stack_len[i]);
        for (uint32_t c = 0; c < k; c++)
            p->values[(size_t)i * k + c] = v->values[(size_t)c * v->n + i];
        if (p->is_weighed)
            p->squares[i] = (double)v->values[(size_t)k * v->n + i];
    }
    return p;
}

static int flush_export(struct each *x, struct err *e)
{
    int code = x->n ? x->give(x->ctx, x->puts, x->n, e) : 0;
    x->n = 0;
    arena_free(x->profiles);
    x->profiles = arena_new(0);
    return code || x->profiles ? code : err_set(e, "no memory");
}

static int export_profile(struct each *x, const struct series *s, int64_t time, int64_t duration,
                          const struct symbols_values *v, struct err *e)
{
    if (v->k != s->kind.k)
        return export_damaged(x, "a profile", e);
    x->same = s == x->last && time == x->last_time ? x->same + 1 : 0;
    x->last = s;
    x->last_time = time;
    x->puts[x->n++] =
        (struct store_put){.tenant = x->tenant,
                           .labels = s->labels,
                           .n_labels = s->n_labels,
                           .time = time,
                           .duration = duration,
                           .profile = build_profile(x, &s->kind, v),
                           .id = str_from(arena_printf(x->profiles, "moved-%u", x->same))};
    return x->n == TOGETHER ? flush_export(x, e) : 0;
}

static int export_block(struct each *x, int64_t service, struct err *e)
{
    int code = 0, rc = SQLITE_DONE;
    sqlite3_stmt *q = db_prepare(&x->reader->db,
                                 "SELECT points, head, body FROM block WHERE id BETWEEN ?1*128 AND "
                                 "?1*128+127 AND level=1 ORDER BY id",
                                 &code, e);
    if (!q)
        return code;
    sqlite3_bind_int64(q, 1, service);
    while (!code && (rc = sqlite3_step(q)) == SQLITE_ROW) {
        struct points p;
        struct rows rows;
        points_open(&p, &x->r, db_blob(q, 0));
        rows_open(&rows, &x->r, db_blob(q, 1), db_blob(q, 2), x->symbols->symbols->n.nodes);
        while (!code && points_next(&p)) {
            const struct series *s = find_export_series(x, p.series);
            const int64_t *durations = points_column(&p, 0);
            for (size_t i = 0; i < p.n && !code; i++) {
                struct symbols_values v;
                struct row_buffer room = {.arena = x->profiles};
                if (!s || !rows_next(&rows, p.k, &room, &v))
                    return export_damaged(x, "a profile of an hour", e);
                code = export_profile(x, s, p.times[i], durations[i], &v, e);
            }
        }
        if (p.bad && !code)
            return export_damaged(x, "the points of an hour", e);
    }
    sqlite3_reset(q);
    return code || rc == SQLITE_DONE ? code : db_error(&x->reader->db, rc, "read", e);
}

static int export_fresh(struct each *x, int64_t service, struct err *e)
{
    int code = 0, rc = SQLITE_DONE;
    sqlite3_stmt *q = db_prepare(
        &x->reader->db, "SELECT series, time, head, body FROM fresh WHERE service=?", &code, e);
    if (!q)
        return code;
    sqlite3_bind_int64(q, 1, service);
    while (!code && (rc = sqlite3_step(q)) == SQLITE_ROW) {
        const struct series *s = find_export_series(x, sqlite3_column_int64(q, 0));
        struct str head = db_blob(q, 2);
        struct unpack b = {(const uint8_t *)head.p, (const uint8_t *)head.p + head.n, false};
        uint32_t k = (uint32_t)unpack_varint(&b);
        int64_t duration = unpack_signed(&b);
        struct segment segment;
        if (!s || b.bad)
            return export_damaged(x, "a fresh profile", e);
        struct symbols_values v;
        segment_open(&segment, &x->r, db_blob(q, 3), k, x->symbols->symbols->n.nodes);
        if (!segment_read(&segment, &(struct row_buffer){.arena = x->profiles}, &v))
            return export_damaged(x, "a fresh profile", e);
        code = export_profile(x, s, sqlite3_column_int64(q, 1), duration, &v, e);
    }
    sqlite3_reset(q);
    return code || rc == SQLITE_DONE ? code : db_error(&x->reader->db, rc, "read", e);
}

static int export_service_guarded(struct each *x, int64_t service, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(x->arena, trap)) {
        arena_caught(x->arena, e);
        return STORE_BUSY;
    }
    int code = read_series(x, service, e);
    if (!code)
        build_export_tables(x);
    if (!code)
        code = export_block(x, service, e);
    if (!code)
        code = export_fresh(x, service, e);
    if (!code)
        code = flush_export(x, e);
    arena_try_end(x->arena);
    return code;
}

static int export_service(struct each *x, int64_t service, struct err *e)
{
    x->arena = arena_new(0);
    x->profiles = arena_new(0);
    x->n = 0;
    x->last = NULL;
    int code =
        x->arena && x->profiles ? block_reader_init(&x->r, x->arena, e) : err_set(e, "no memory");
    if (!code) {
        code = reader_symbols_take(x->lite, x->reader, service, x->r.zstd, &x->symbols, e);
        if (!code) {
            code = export_service_guarded(x, service, e);
            reader_symbols_give(x->lite, x->reader, x->symbols);
        }
        block_reader_fini(&x->r);
    }
    arena_free(x->profiles);
    arena_free(x->arena);
    return code;
}

// Advances *id to the next service. Returns false if there is none or on failure.
static bool next_service(struct each *x, int64_t *id, int *code, struct err *e)
{
    sqlite3_stmt *q = db_prepare(
        &x->reader->db, "SELECT min(id) FROM service WHERE id>? AND " LIVE_SERVICE, code, e);
    if (!q)
        return false;
    sqlite3_bind_int64(q, 1, *id);
    int rc = sqlite3_step(q);
    bool found = rc == SQLITE_ROW && sqlite3_column_type(q, 0) != SQLITE_NULL;
    if (found)
        *id = sqlite3_column_int64(q, 0);
    if (rc != SQLITE_ROW)
        *code = db_error(&x->reader->db, rc, "read", e);
    sqlite3_reset(q);
    return found;
}

static int export_day(struct each *x, struct err *e)
{
    int code = 0;
    for (int64_t id = 0; !code && next_service(x, &id, &code, e);)
        code = export_service(x, id, e);
    return code;
}

int sqlite_each(void *driver, store_each_fn *give, void *ctx, struct err *e)
{
    struct each x = {.lite = driver, .give = give, .ctx = ctx};
    struct arena *arena = arena_new(0);
    struct str *tenants;
    size_t n_tenants = 0;
    int code =
        arena ? sqlite_tenants(driver, arena, &tenants, &n_tenants, e) : err_set(e, "no memory");
    for (size_t t = 0; t < n_tenants && !code; t++) {
        int64_t *days;
        size_t n = 0;
        x.tenant = tenants[t];
        code = day_list(driver, tenants[t], 0, INT64_MAX, arena, &days, &n, e);
        if (!code)
            code = names_open(driver, tenants[t], false, &x.names, e);
        for (size_t i = 0; i < n && !code; i++) {
            code = reader_take(driver, tenants[t], days[i], &x.reader, e);
            if (!code && x.reader)
                code = reader_give(driver, x.reader, export_day(&x, e), e);
        }
        if (x.names.handle)
            db_close(&x.names);
        x.names.handle = NULL;
    }
    arena_free(arena);
    return code;
}
