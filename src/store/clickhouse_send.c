// From the spool into ClickHouse, each batch once.
//
// Whether a request that failed has stored its rows cannot be known from the failure: the answer
// may have been lost, the server killed. So before rows are sent again they are counted: all of a
// batch's rows carry its number, and ClickHouse keeps the rows of a statement in their order, so
// the count says where to go on. Replicated tables also know a repeated block by themselves, which
// covers a replica that lags behind.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "store/clickhouse.h"

struct sending {
    struct clickhouse *c;
    struct segment_file *f;
    struct arena *arena;
    struct spool_put *puts;
    bool *repeated; // one for each put: known by its id
    size_t n, cap, cap_repeated;
    uint64_t whole; // bytes of whole records
    bool decided;
};

static void read_decision(struct sending *s, struct unpack *record)
{
    size_t n = (size_t)unpack_varint(record);
    for (size_t i = 0; i < n && !record->bad; i++) {
        uint64_t at = unpack_varint(record);
        if (at < s->n)
            s->repeated[at] = true;
    }
    s->decided = true;
}

static void read_puts(struct sending *s, const uint8_t *bytes, size_t n)
{
    struct unpack b = {bytes, bytes + n, false}, record;
    for (enum record kind; (kind = spool_next(&b, s->f->batch, &record)) != RECORD_END;) {
        struct spool_put put;
        if (kind == RECORD_DECISION) {
            read_decision(s, &record);
            continue;
        }
        s->whole = (uint64_t)(b.p - bytes);
        while (spool_next_put(&record, &put)) {
            s->puts = arena_push(s->arena, s->puts, s->n, &s->cap, sizeof *s->puts);
            s->repeated =
                arena_push(s->arena, s->repeated, s->n, &s->cap_repeated, sizeof *s->repeated);
            s->repeated[s->n] = false;
            s->puts[s->n++] = put;
        }
    }
}

// --- ids that came before ---

static uint64_t number_at(struct str rows, size_t row, size_t size, size_t at)
{
    uint64_t v;
    memcpy(&v, rows.p + row * size + at, sizeof v);
    return v;
}

static uint32_t hour_at(struct str rows, size_t row, size_t size)
{
    uint32_t v;
    memcpy(&v, rows.p + row * size + 10, sizeof v);
    return v;
}

enum { FAMILY_AT = 2, PROFILE_ID_AT = 30 };

// The families and hours of rows: what an index of ClickHouse finds them by. They are in the same
// place in samples and profiles.
static void where_rows(struct sending *s, struct out *sql, enum table table, uint16_t day)
{
    size_t n = 0, size = table == T_SAMPLES ? SAMPLE_ROW : PROFILE_ROW;
    uint32_t first = UINT32_MAX, last = 0;
    size_t most = 0;
    for (size_t i = 0; i < s->n; i++)
        most += s->puts[i].day == day ? s->puts[i].n[table] : 0;
    uint64_t *families = arena_array(s->arena, most, sizeof *families);
    for (size_t i = 0; i < s->n; i++)
        for (uint32_t j = 0; s->puts[i].day == day && j < s->puts[i].n[table]; j++) {
            uint32_t hour = hour_at(s->puts[i].rows[table], j, size);
            first = hour < first ? hour : first;
            last = hour > last ? hour : last;
            families[n++] = number_at(s->puts[i].rows[table], j, size, FAMILY_AT);
        }
    out_printf(sql, "day = toDate(%u) AND hour >= %u AND hour <= %u AND family IN (", day, first,
               last);
    sql_numbers(sql, families, sql_distinct(families, n));
    out_text(sql, ")");
}

static uint64_t put_id(const struct spool_put *put)
{
    return put->n[T_PROFILES] ? number_at(put->rows[T_PROFILES], 0, PROFILE_ROW, PROFILE_ID_AT) : 0;
}

static int find_ids(struct sending *s, uint16_t day, struct err *e)
{
    struct out sql;
    uint64_t *ids = arena_array(s->arena, s->n, sizeof *ids);
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        if (s->puts[i].day == day && put_id(&s->puts[i]))
            ids[n++] = put_id(&s->puts[i]);
    n = sql_distinct(ids, n);
    out_init_arena(&sql, s->arena);
    out_printf(&sql, "SELECT id FROM %s.profiles WHERE ", s->c->at.database);
    where_rows(s, &sql, T_PROFILES, day);
    out_text(&sql, " AND id IN (");
    sql_numbers(&sql, ids, n);
    out_printf(&sql, ") AND batch != %llu GROUP BY id ORDER BY id FORMAT RowBinary",
               (unsigned long long)s->f->batch);
    struct unpack rows;
    int code = clickhouse_ask(s->c, out_result(&sql), s->arena, &rows, e);
    if (code)
        return code;
    size_t n_old = (size_t)(rows.end - rows.p) / sizeof(uint64_t);
    uint64_t *old = arena_array(s->arena, n_old, sizeof *old);
    for (size_t i = 0; i < n_old; i++)
        old[i] = row_u64(&rows);
    for (size_t i = 0; i < s->n; i++) {
        uint64_t id = s->puts[i].day == day ? put_id(&s->puts[i]) : 0;
        if (id && sql_is_among(id, old, n_old))
            s->repeated[i] = true;
    }
    return 0;
}

struct own_id {
    uint64_t id;
    size_t put;
};

static int own_order(const void *a, const void *b)
{
    const struct own_id *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return x->put < y->put ? -1 : x->put > y->put;
}

// Which puts came before, in this segment or in others. It is decided once and written down:
// another try must send the same rows.
static int decide(struct sending *s, struct err *e)
{
    struct own_id *own = arena_array(s->arena, s->n, sizeof *own);
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        if (put_id(&s->puts[i]))
            own[n++] = (struct own_id){put_id(&s->puts[i]), i};
    if (!n || s->decided)
        return 0;
    qsort(own, n, sizeof *own, own_order);
    for (size_t i = 1; i < n; i++)
        if (own[i].id == own[i - 1].id)
            s->repeated[own[i].put] = true;
    int code = 0;
    for (size_t i = 0; i < s->n && !code; i++) {
        bool seen = !put_id(&s->puts[i]);
        for (size_t j = 0; j < i && !seen; j++)
            seen = s->puts[j].day == s->puts[i].day && put_id(&s->puts[j]);
        if (!seen)
            code = find_ids(s, s->puts[i].day, e);
    }
    if (code)
        return code;
    struct pack b = {.arena = s->arena};
    size_t n_repeated = 0;
    for (size_t i = 0; i < s->n; i++)
        n_repeated += s->repeated[i];
    pack_varint(&b, n_repeated);
    for (size_t i = 0; i < s->n; i++)
        if (s->repeated[i])
            pack_varint(&b, i);
    code = spool_decide(&s->c->spool, s->f, s->whole, (struct str){(const char *)b.p, b.n}, e);
    if (!code) {
        pthread_mutex_lock(&s->c->spool.lock);
        s->c->spool.repeated += n_repeated;
        pthread_mutex_unlock(&s->c->spool.lock);
    }
    return code;
}

// --- rows ---

// Waits until an earlier try is not under way any more.
static int wait_for_earlier(struct sending *s, struct err *e)
{
    char sql[256];
    uint64_t n = 1;
    snprintf(sql, sizeof sql,
             "SELECT count() FROM system.processes WHERE query_id LIKE 'kiln-%016llx-%%' "
             "FORMAT RowBinary",
             (unsigned long long)s->f->batch);
    for (int i = 0; i < 100; i++) {
        int code = clickhouse_number(s->c, str_from(sql), &n, e);
        if (code || !n)
            return code;
        nanosleep(&(struct timespec){0, 100 * 1000000}, NULL);
    }
    return err_set(e, "ClickHouse at %s still works on an earlier try", s->c->at.base);
}

static int count_rows(struct sending *s, enum table table, uint16_t day, uint64_t *n, struct err *e)
{
    struct out sql;
    out_init_arena(&sql, s->arena);
    out_printf(&sql, "SELECT count() FROM %s.%s WHERE ", s->c->at.database,
               clickhouse_tables[table]);
    where_rows(s, &sql, table, day);
    out_printf(&sql, " AND batch = %llu FORMAT RowBinary", (unsigned long long)s->f->batch);
    return clickhouse_number(s->c, out_result(&sql), n, e);
}

static int send_table(struct sending *s, enum table table, uint16_t day, struct err *e)
{
    struct out rows;
    uint64_t n = 0, there = 0;
    out_init_arena(&rows, s->arena);
    for (size_t i = 0; i < s->n; i++) {
        const struct spool_put *put = &s->puts[i];
        // What a repeated put refers to is harmless, and what others count on.
        if (put->day != day || (s->repeated[i] && table >= T_SAMPLES))
            continue;
        out_str(&rows, put->rows[table]);
        n += put->n[table];
    }
    if (!n)
        return 0;
    struct str body = out_result(&rows);
    if (table >= T_SAMPLES && s->f->attempted) {
        int code = count_rows(s, table, day, &there, e);
        if (code || there >= n)
            return code;
        size_t skip = there * (table == T_SAMPLES ? SAMPLE_ROW : PROFILE_ROW);
        body = str_from_to(body, skip, body.n);
    }
    char id[64];
    snprintf(id, sizeof id, "kiln-%016llx-%d-%u", (unsigned long long)s->f->batch, table, day);
    return clickhouse_insert(s->c, clickhouse_tables[table], id, body, e);
}

// Of a day that is sent: whether another server sent some of it at the same time.
static int find_doubles(struct sending *s, uint16_t day, struct err *e)
{
    struct out sql;
    struct unpack rows;
    uint64_t *ids = arena_array(s->arena, s->n, sizeof *ids), own = 0;
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        if (s->puts[i].day == day && !s->repeated[i] && put_id(&s->puts[i]))
            ids[n++] = put_id(&s->puts[i]);
    if (!n)
        return 0;
    out_init_arena(&sql, s->arena);
    voids_select(s->c, &sql);
    where_rows(s, &sql, T_PROFILES, day);
    out_text(&sql, " AND id IN (");
    sql_numbers(&sql, ids, sql_distinct(ids, n));
    out_text(&sql, ")");
    voids_group(&sql);
    int code = clickhouse_ask(s->c, out_result(&sql), s->arena, &rows, e);
    if (!code)
        code = voids_write(s->c, &rows, NULL, 0, s->f->batch, s->arena, &own, e);
    pthread_mutex_lock(&s->c->spool.lock);
    s->c->spool.repeated += own;
    pthread_mutex_unlock(&s->c->spool.lock);
    return code;
}

static bool is_first_of_day(const struct sending *s, size_t at)
{
    for (size_t i = at; i-- > 0;)
        if (s->puts[i].day == s->puts[at].day)
            return false;
    return true;
}

static int send_puts(struct sending *s, struct err *e)
{
    int code = decide(s, e);
    if (!code && s->f->attempted)
        code = wait_for_earlier(s, e);
    for (int table = 0; table < N_TABLES && !code; table++)
        for (size_t i = 0; i < s->n && !code; i++)
            if (is_first_of_day(s, i))
                code = send_table(s, (enum table)table, s->puts[i].day, e);
    for (size_t i = 0; i < s->n && !code; i++)
        if (is_first_of_day(s, i))
            code = find_doubles(s, s->puts[i].day, e);
    return code;
}

int clickhouse_send(struct clickhouse *c, struct segment_file *f, const uint8_t *bytes, size_t n,
                    struct err *e)
{
    struct sending s = {.c = c, .f = f, .arena = arena_new(0)};
    struct arena_trap trap;
    if (!s.arena)
        return err_set(e, "no memory to send to ClickHouse");
    int code = STORE_BUSY;
    if (ARENA_TRY(s.arena, trap)) {
        arena_caught(s.arena, e);
    } else {
        read_puts(&s, bytes, n);
        code = send_puts(&s, e);
        arena_try_end(s.arena);
    }
    arena_free(s.arena);
    return code;
}

static int send_segment(struct clickhouse *c, struct segment_file *f, struct err *e)
{
    uint8_t *bytes = NULL;
    size_t n = 0;
    int code = 0;
    if (!c->migrated) {
        code = clickhouse_migrate(c, e);
        c->migrated = !code;
    }
    if (!code)
        code = spool_read(&c->spool, f, &bytes, &n, e);
    if (!code)
        code = clickhouse_send(c, f, bytes, n, e);
    f->attempted = true;
    free(bytes);
    return code;
}

static void pause_after(struct clickhouse *c, int tries)
{
    struct timespec t;
    int64_t nanos = INT64_C(100000000) << (tries < 6 ? tries : 6);
    clock_gettime(CLOCK_REALTIME, &t);
    nanos += t.tv_nsec;
    t.tv_sec += nanos / 1000000000;
    t.tv_nsec = nanos % 1000000000;
    pthread_mutex_lock(&c->spool.lock);
    if (!c->spool.stopping)
        pthread_cond_timedwait(&c->spool.sent, &c->spool.lock, &t);
    pthread_mutex_unlock(&c->spool.lock);
}

void *clickhouse_send_loop(void *arg)
{
    struct clickhouse *c = arg;
    struct segment_file *f;
    int tries = 0;
    pthread_setname_np(pthread_self(), "store-send");
    while ((f = spool_take(&c->spool))) {
        struct err e = {""};
        int code = send_segment(c, f, &e);
        spool_give(&c->spool, f, !code, &e);
        if (code && tries == 0)
            clickhouse_note(c, "rows wait in %s: %s", c->spool.directory, e.message);
        else if (!code && tries)
            clickhouse_note(c, "ClickHouse at %s takes rows again", c->at.base);
        tries = code ? tries + 1 : 0;
        if (code)
            pause_after(c, tries);
    }
    return NULL;
}
