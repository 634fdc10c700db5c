// Sends segments from the spool to ClickHouse: each batch exactly once, with everything that its
// samples refer to.
//
// A failed request may have stored its rows: the answer may be lost, or the server killed. So
// before rows are sent again, they are counted. All rows of a batch carry its number, and
// ClickHouse stores the rows of a statement in order, so the count tells where to continue.
// Replicated tables also recognize repeated blocks, which covers a replica that lags behind.
//
// A segment has all rows of series, stacks and locations that it needs. Rows that this server has
// stored already are not sent again, unless their day was dropped since. Every drop is recorded in
// the table drops before and after it. Sent rows count only if the number of drops was the same
// before and after sending.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "store/clickhouse.h"

struct sending {
    struct clickhouse *c;
    struct segment_file *f;
    struct arena *arena;
    struct spool_put *puts;
    bool *repeated; // per put: a duplicate, recognized by its id
    size_t n, cap, cap_repeated;
    struct day_drops *days; // of the puts
    size_t n_days;
    uint64_t whole; // bytes of complete records
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
    if (b.p == b.end || s->f->is_noted)
        return;
    s->f->is_noted = true;
    clickhouse_note(s->c,
                    "the last %zu of %zu bytes of a segment in the spool %s cannot be read: a "
                    "crash interrupted a push that was not acknowledged, or the file is damaged",
                    (size_t)(b.end - b.p), n, s->c->spool.directory);
}

// --- duplicate ids ---

static size_t row_size(const struct spool_put *put, enum table table)
{
    return put->n[table] ? put->rows[table].n / put->n[table] : 0;
}

static struct id id_at(const struct spool_put *put, enum table table, size_t row, size_t at)
{
    struct id id;
    memcpy(&id, put->rows[table].p + row * row_size(put, table) + at, sizeof id);
    return id;
}

static uint32_t hour_at(const struct spool_put *put, enum table table, size_t row)
{
    uint32_t v;
    memcpy(&v, put->rows[table].p + row * row_size(put, table) + HOUR_AT, sizeof v);
    return v;
}

static struct id spooled_put_id(const struct spool_put *put)
{
    return put->n[T_PROFILES] ? id_at(put, T_PROFILES, 0, PROFILE_ID_AT) : (struct id){0};
}

enum some_puts { ALL_PUTS, TIMED_PUTS, UNTIMED_PUTS };

static bool put_is_selected(const struct spool_put *put, enum some_puts some)
{
    bool untimed = spooled_put_id(put).b & UNTIMED_BIT;
    return some == ALL_PUTS || untimed == (some == UNTIMED_PUTS);
}

static int tenant_order(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

static void sql_tenants(struct sending *s, struct out *sql, enum some_puts some)
{
    struct str *tenants = arena_array(s->arena, s->n, sizeof *tenants);
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        if (put_is_selected(&s->puts[i], some))
            tenants[n++] = s->puts[i].tenant;
    qsort(tenants, n, sizeof *tenants, tenant_order);
    out_text(sql, "tenant IN (");
    for (size_t i = 0; i < n; i++) {
        if (i && str_eq(tenants[i - 1], tenants[i]))
            continue;
        if (i)
            out_char(sql, ',');
        sql_text(sql, tenants[i]);
    }
    out_text(sql, ")");
}

// Appends the condition on tenants, days, families and hours of the rows, which ClickHouse's index
// uses. Their offsets are the same in samples and profiles. An untimed put may have arrived earlier
// on the same day, or in the day's first hour also on the day before; senders retry within minutes.
static void where_rows(struct sending *s, struct out *sql, enum table table, enum some_puts some)
{
    size_t n = 0, cap = 0, n_hours = 0, cap_hours = 0;
    struct id *families = NULL;
    uint64_t *hours = NULL;
    for (size_t i = 0; i < s->n; i++) {
        const struct spool_put *put = &s->puts[i];
        uint32_t n_rows = put_is_selected(put, some) ? put->n[table] : 0;
        for (uint32_t j = 0; j < n_rows; j++) {
            struct id family = id_at(put, table, j, FAMILY_AT);
            if (n && id_eq(families[n - 1], family))
                continue;
            families = arena_push(s->arena, families, n, &cap, sizeof *families);
            families[n++] = family;
        }
        uint64_t last = n_rows ? hour_at(put, table, 0) : 0; // of all rows
        if (!n_rows || (n_hours && hours[n_hours - 1] == last))
            continue;
        uint64_t first = some == UNTIMED_PUTS ? (last ? last - 1 : 0) / 24 * 24 : last;
        for (; first <= last; first++) {
            hours = arena_push(s->arena, hours, n_hours, &cap_hours, sizeof *hours);
            hours[n_hours++] = first;
        }
    }
    n_hours = sql_distinct(hours, n_hours);
    sql_tenants(s, sql, some);
    if (n_hours)
        out_printf(sql, " AND day >= toDate(%u) AND day <= toDate(%u)", (unsigned)(hours[0] / 24),
                   (unsigned)(hours[n_hours - 1] / 24));
    out_text(sql, " AND hour IN (");
    sql_numbers(sql, hours, n_hours);
    out_text(sql, ") AND family IN (");
    sql_ids(sql, families, id_distinct(families, n));
    out_text(sql, ")");
}

struct own_id {
    struct id id;
    struct str tenant;
    size_t put;
};

static int compare_own_ids(const struct own_id *x, const struct own_id *y)
{
    return id_eq(x->id, y->id) ? str_cmp(x->tenant, y->tenant) : id_cmp(x->id, y->id);
}

static int order_own_ids(const void *a, const void *b)
{
    const struct own_id *x = a, *y = b;
    int order = compare_own_ids(x, y);
    return order ? order : x->put < y->put ? -1 : x->put > y->put;
}

// The ids of the selected puts, without known duplicates.
static struct id *selected_ids(struct sending *s, enum some_puts some, size_t *n)
{
    struct id *ids = arena_array(s->arena, s->n, sizeof *ids);
    *n = 0;
    for (size_t i = 0; i < s->n; i++)
        if (put_is_selected(&s->puts[i], some) && !s->repeated[i] &&
            !id_is_none(spooled_put_id(&s->puts[i])))
            ids[(*n)++] = spooled_put_id(&s->puts[i]);
    *n = id_distinct(ids, *n);
    return ids;
}

static int find_stored_ids(struct sending *s, enum some_puts some, struct err *e)
{
    struct out sql;
    struct unpack rows;
    struct own_id *old = NULL;
    size_t n, n_old = 0, cap = 0;
    struct id *ids = selected_ids(s, some, &n);
    if (!n)
        return 0;
    out_init_arena(&sql, s->arena);
    out_printf(&sql, "SELECT tenant, id FROM %s.profiles WHERE ", s->c->at.database);
    where_rows(s, &sql, T_PROFILES, some);
    out_text(&sql, " AND id IN (");
    sql_ids(&sql, ids, n);
    out_printf(&sql, ") AND batch != %llu GROUP BY tenant, id FORMAT RowBinary",
               (unsigned long long)s->f->batch);
    int code = clickhouse_query(s->c, out_result(&sql), s->arena, &rows, e);
    while (!code && rows.p < rows.end && !rows.bad) {
        old = arena_push(s->arena, old, n_old, &cap, sizeof *old);
        old[n_old] = (struct own_id){.tenant = unpack_str(&rows)};
        old[n_old++].id = row_id(&rows);
    }
    code = clickhouse_rows_end(s->c, &rows, code, e);
    if (n_old)
        qsort(old, n_old, sizeof *old, order_own_ids);
    for (size_t i = 0; i < s->n && n_old && !code; i++) {
        struct own_id key = {.id = spooled_put_id(&s->puts[i]), .tenant = s->puts[i].tenant};
        if (put_is_selected(&s->puts[i], some) && !id_is_none(key.id) &&
            bsearch(&key, old, n_old, sizeof key, order_own_ids))
            s->repeated[i] = true;
    }
    return code;
}

// A disk that is full may be full of this spool, so sending must not wait for it. The decision is
// lost if the process ends before the segment is sent.
static int keep_decision(struct segment_file *f, const struct pack *b, struct err *e)
{
    f->decision = malloc(b->n + 1);
    if (!f->decision)
        return err_set(e, "no memory to send to ClickHouse");
    memcpy(f->decision, b->p, b->n);
    f->n_decision = b->n;
    return 0;
}

// Determines which puts are duplicates, of this segment or of others. The decision is made once and
// saved in the segment, because a retry must send the same rows.
static int decide_duplicates(struct sending *s, struct err *e)
{
    struct own_id *own = arena_array(s->arena, s->n, sizeof *own);
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        if (!id_is_none(spooled_put_id(&s->puts[i])))
            own[n++] = (struct own_id){spooled_put_id(&s->puts[i]), s->puts[i].tenant, i};
    if (!n || s->decided)
        return 0;
    qsort(own, n, sizeof *own, order_own_ids);
    for (size_t i = 1; i < n; i++)
        if (compare_own_ids(&own[i], &own[i - 1]) == 0)
            s->repeated[own[i].put] = true;
    int code = find_stored_ids(s, TIMED_PUTS, e);
    if (!code)
        code = find_stored_ids(s, UNTIMED_PUTS, e);
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
    code = spool_append_decision(&s->c->spool, s->f, s->whole, (struct str){(const char *)b.p, b.n},
                                 e);
    if (code == STORE_FULL)
        code = keep_decision(s->f, &b, e);
    if (!code) {
        pthread_mutex_lock(&s->c->spool.lock);
        s->c->spool.repeated += n_repeated;
        pthread_mutex_unlock(&s->c->spool.lock);
    }
    return code;
}

// --- rows ---

// Waits until an earlier attempt is no longer running in ClickHouse.
static int wait_for_earlier(struct sending *s, struct err *e)
{
    char sql[256];
    uint64_t n = 1;
    snprintf(sql, sizeof sql,
             "SELECT count() FROM system.processes WHERE query_id LIKE 'kiln-%016llx-%%' "
             "FORMAT RowBinary",
             (unsigned long long)s->f->batch);
    for (int i = 0; i < 100; i++) {
        int code = clickhouse_number(s->c, str_from(sql), NULL, &n, e);
        if (code || !n)
            return code;
        nanosleep(&(struct timespec){0, 100 * 1000000}, NULL);
    }
    return err_set(e, "ClickHouse at %s is still processing an earlier attempt", s->c->at.base);
}

static size_t day_index(const struct sending *s, uint32_t day)
{
    size_t i = 0;
    while (i < s->n_days && s->days[i].day != day)
        i++;
    return i;
}

// Rows of this batch that ClickHouse has.
struct stored_rows {
    uint32_t day;
    struct id family;
    uint64_t n;
};

static int stored_rows_order(const void *a, const void *b)
{
    const struct stored_rows *x = a, *y = b;
    return x->day != y->day ? (x->day < y->day ? -1 : 1) : id_cmp(x->family, y->family);
}

// Counted by family, because a service may have been deleted since.
static int count_rows(struct sending *s, enum table table, struct stored_rows **stored, size_t *n,
                      struct err *e)
{
    struct out sql;
    struct unpack rows;
    size_t cap = 0;
    out_init_arena(&sql, s->arena);
    out_printf(&sql, "SELECT toUInt32(toUInt16(day)) AS d, family, count() FROM %s.%s WHERE ",
               s->c->at.database, clickhouse_tables[table]);
    where_rows(s, &sql, table, ALL_PUTS);
    out_printf(&sql, " AND batch = %llu GROUP BY d, family FORMAT RowBinary",
               (unsigned long long)s->f->batch);
    int code = clickhouse_query(s->c, out_result(&sql), s->arena, &rows, e);
    while (!code && rows.p < rows.end && !rows.bad) {
        *stored = arena_push(s->arena, *stored, *n, &cap, sizeof **stored);
        struct stored_rows *to = &(*stored)[(*n)++];
        to->day = row_u32(&rows);
        to->family = row_id(&rows);
        to->n = row_u64(&rows);
    }
    if (*n)
        qsort(*stored, *n, sizeof **stored, stored_rows_order);
    return clickhouse_rows_end(s->c, &rows, code, e);
}

// Appends the rows of a put that are not stored, and takes the others off the counts.
static void append_missing_rows(const struct spool_put *put, enum table table,
                                struct stored_rows *stored, size_t n, struct out *rows)
{
    size_t size = row_size(put, table);
    for (uint32_t i = 0, end; i < put->n[table]; i = end) {
        struct stored_rows key = {.day = put->day, .family = id_at(put, table, i, FAMILY_AT)};
        for (end = i; end < put->n[table] && id_eq(id_at(put, table, end, FAMILY_AT), key.family);)
            end++;
        struct stored_rows *of = n ? bsearch(&key, stored, n, sizeof key, stored_rows_order) : NULL;
        uint64_t skip = !of ? 0 : of->n < end - i ? of->n : end - i;
        if (of)
            of->n -= skip;
        out_str(rows, str_from_to(put->rows[table], (i + skip) * size, end * size));
    }
}

static int insert_rows(struct sending *s, enum table table, struct str rows, struct err *e)
{
    char id[64];
    snprintf(id, sizeof id, "kiln-%016llx-%d", (unsigned long long)s->f->batch, table);
    return clickhouse_insert(s->c, clickhouse_tables[table], id, rows, e);
}

// Sends the rows of all days. ClickHouse stores those of a day and a family in order.
static int send_table(struct sending *s, enum table table, struct err *e)
{
    struct out rows;
    struct stored_rows *stored = NULL;
    size_t n = 0;
    int code = s->f->attempted ? count_rows(s, table, &stored, &n, e) : 0;
    if (code)
        return code;
    out_init_arena(&rows, s->arena);
    for (size_t i = 0; i < s->n; i++)
        if (!s->repeated[i])
            append_missing_rows(&s->puts[i], table, stored, n, &rows);
    return rows.n ? insert_rows(s, table, out_result(&rows), e) : 0;
}

// A number that changes when the day is dropped.
static uint64_t day_generation(const struct day_drops *day)
{
    return day->begun << 32 | day->ended;
}

struct referred {
    struct id id;
    const struct day_drops *day;
};

// Sends rows that samples refer to, of all days and also of duplicate puts, because other puts of
// the segment may need them. Rows known to be in ClickHouse are skipped. Storing such a row twice
// is harmless, so a retry counts nothing.
static int send_referred(struct sending *s, enum table table, struct err *e)
{
    struct known *stored = &s->c->stored;
    struct out rows;
    struct referred *sent = NULL;
    size_t n = 0, cap = 0;
    out_init_arena(&rows, s->arena);
    for (size_t i = 0; i < s->n; i++) {
        struct str all = s->puts[i].rows[table];
        struct unpack b = {(const uint8_t *)all.p, (const uint8_t *)all.p + all.n, false};
        const struct day_drops *day = &s->days[day_index(s, s->puts[i].day)];
        while (b.p < b.end) {
            struct id id = row_id(&b);
            struct str row = unpack_bytes(&b, row_u32(&b));
            if (b.bad)
                return err_set(e, "a record in the spool %s is damaged", s->c->spool.directory);
            if (known_has(stored, id, day->day, day_generation(day)))
                continue;
            out_str(&rows, row);
            sent = arena_push(s->arena, sent, n, &cap, sizeof *sent);
            sent[n++] = (struct referred){id, day};
        }
    }
    int code = n ? insert_rows(s, table, out_result(&rows), e) : 0;
    for (size_t i = 0; i < n && !code; i++)
        known_add(stored, sent[i].id, sent[i].day->day, day_generation(sent[i].day));
    return code;
}

static int send_all_tables(struct sending *s, struct err *e)
{
    int code = 0;
    for (int table = 0; table < N_TABLES && !code; table++)
        code = table < T_SAMPLES ? send_referred(s, (enum table)table, e)
                                 : send_table(s, (enum table)table, e);
    return code;
}

// If a day was dropped while its rows were sent, some of them, or rows that they refer to, may be
// gone. Sends the missing ones again until the day is stable.
static int send_rows(struct sending *s, struct err *e)
{
    struct day_drops *before = arena_array(s->arena, s->n_days, sizeof *before);
    int code = drops_query(s->c, s->days, s->n_days, s->arena, e);
    bool same = false, dropping = false;
    for (int try = 0; try < 100 && !code; try++) {
        if (!same)
            code = send_all_tables(s, e);
        s->f->attempted = true;
        memcpy(before, s->days, s->n_days * sizeof *before);
        if (!code)
            code = drops_query(s->c, s->days, s->n_days, s->arena, e);
        same = true;
        dropping = false;
        for (size_t i = 0; i < s->n_days; i++) {
            same &= day_generation(&s->days[i]) == day_generation(&before[i]);
            dropping |= s->days[i].begun != s->days[i].ended;
        }
        if (code || (same && !dropping))
            return code;
        nanosleep(&(struct timespec){0, 100 * 1000000}, NULL);
    }
    return code ? code
                : err_set(e, "a day that rows belong to is being dropped from %s",
                          s->c->at.database);
}

// Finds puts that another server sent at the same time, and voids the duplicates.
static int void_duplicates(struct sending *s, enum some_puts some, struct err *e)
{
    struct out sql;
    struct unpack rows;
    uint64_t own = 0;
    size_t n;
    struct id *ids = selected_ids(s, some, &n);
    if (!n)
        return 0;
    out_init_arena(&sql, s->arena);
    voids_select(s->c, &sql);
    where_rows(s, &sql, T_PROFILES, some);
    out_text(&sql, " AND id IN (");
    sql_ids(&sql, ids, n);
    out_text(&sql, ")");
    voids_group(&sql);
    int code = clickhouse_query(s->c, out_result(&sql), s->arena, &rows, e);
    if (!code)
        code = voids_write(s->c, &rows, NULL, 0, s->f->batch, s->arena, &own, e);
    pthread_mutex_lock(&s->c->spool.lock);
    s->c->spool.repeated += own;
    pthread_mutex_unlock(&s->c->spool.lock);
    return code;
}

static void list_put_days(struct sending *s)
{
    s->days = arena_array(s->arena, s->n, sizeof *s->days);
    for (size_t i = 0; i < s->n; i++)
        if (day_index(s, s->puts[i].day) == s->n_days)
            s->days[s->n_days++].day = s->puts[i].day;
}

// A separate function, because the variables of a function that catches jumps would be clobbered.
static __attribute__((noinline)) int send_puts(struct sending *s, struct err *e)
{
    list_put_days(s);
    int code = decide_duplicates(s, e);
    if (!code && s->f->attempted)
        code = wait_for_earlier(s, e);
    if (!code)
        code = send_rows(s, e);
    if (!code)
        code = void_duplicates(s, TIMED_PUTS, e);
    if (!code)
        code = void_duplicates(s, UNTIMED_PUTS, e);
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
        if (f->decision) {
            struct unpack kept = {f->decision, f->decision + f->n_decision, false};
            read_decision(&s, &kept);
        }
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
        if (!code)
            code = clickhouse_begin_retention(c, e);
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

static void pause_before_retry(struct clickhouse *c, int tries)
{
    int64_t nanos = INT64_C(100000000) << (tries < 6 ? tries : 6);
    pthread_mutex_lock(&c->spool.lock);
    if (!c->spool.stopping)
        spool_wait_until(&c->spool.sent, &c->spool.lock, budget_now() + nanos);
    pthread_mutex_unlock(&c->spool.lock);
}

void *clickhouse_send_loop(void *arg)
{
    struct clickhouse *c = arg;
    struct segment_file *f;
    int tries = 0;
    pthread_setname_np(pthread_self(), "store-send");
    while ((f = spool_take(&c->spool)) && !clickhouse_has_stopped(c)) {
        struct err e = {""};
        int code = send_segment(c, f, &e);
        spool_give(&c->spool, f, !code, &e);
        if (code && tries == 0)
            clickhouse_note(c, "sending rows failed; they wait in %s: %s", c->spool.directory,
                            e.message);
        else if (!code && tries)
            clickhouse_note(c, "ClickHouse at %s accepts rows again", c->at.base);
        tries = code ? tries + 1 : 0;
        if (code)
            pause_before_retry(c, tries);
    }
    return NULL;
}
