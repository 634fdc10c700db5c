#include <stdlib.h>

#include "changes/look.h"

#define IS_OPEN CHANGE_LASTS " AND NOT " CHANGE_MUTED " AND (:decreases OR cost >= 0)"
#define OPEN_TABLES                                                  \
    LIST_TABLES " LEFT JOIN alert ON alert.receiver = :receiver AND" \
                " alert.change = change.id"
#define IS_ENDED                                \
    "alert.receiver = :receiver AND NOT EXISTS" \
    " (SELECT 1 FROM " LIST_TABLES " WHERE change.id = alert.change AND " IS_OPEN ")"
_Static_assert(STATS_LASTING == 1, "the verdict in CHANGE_LASTS");

#define SELECT_OPEN(total) \
    "SELECT " LIST_COLUMNS ", alert.told, " total " FROM " OPEN_TABLES " WHERE " IS_OPEN

static const char open_sql[] =
    SELECT_OPEN("0") " AND change.id > :after ORDER BY change.id LIMIT :limit";
static const char open_of_service_sql[] =
    SELECT_OPEN("count(*) OVER ()") " AND change.service = :service "
                                    "ORDER BY coalesce(alert.told, 0), change.id LIMIT :limit";
static const char ended_sql[] =
    "SELECT alert.change, alert.service, alert.starts, alert.text FROM alert WHERE " IS_ENDED
    " AND alert.change > :after AND (:service IS NULL OR alert.service = :service) "
    "ORDER BY alert.change LIMIT :limit";
static const char service_sql[] =
    "SELECT min(service) FROM (SELECT min(change.service) AS service FROM " OPEN_TABLES
    " WHERE " IS_OPEN " AND coalesce(alert.told, 0) = 0 AND change.service > :service"
    " UNION ALL SELECT min(alert.service) FROM alert WHERE " IS_ENDED
    " AND alert.service > :service)";

struct changes_outbox {
    struct db db;
};

int changes_outbox_open(struct changes *c, struct str tenant, struct changes_outbox **outbox,
                        struct err *e)
{
    struct changes_outbox *o = calloc(1, sizeof *o);
    *outbox = NULL;
    if (!o)
        return err_set(e, "out of memory");
    // A writer: it brings an older database up to date.
    int code = state_open(c, tenant, DB_WRITE, &o->db, e);
    if (code)
        free(o);
    else
        *outbox = o;
    return code > 0 ? 0 : code;
}

void changes_outbox_close(struct changes_outbox *o)
{
    if (!o)
        return;
    db_close(&o->db);
    free(o);
}

static sqlite3_stmt *prepare_query(struct db *db, const char *sql,
                                   const struct changes_alert_query *q, int *code, struct err *e)
{
    sqlite3_stmt *s = db_prepare(db, sql, code, e);
    if (!s)
        return NULL;
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {{":decreases", q->decreases},
                   {":now", q->now},
                   {":after", q->after},
                   {":limit", (int64_t)q->limit}};
    int at;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if ((at = sqlite3_bind_parameter_index(s, numbers[i].name)))
            sqlite3_bind_int64(s, at, numbers[i].value);
    db_bind_str(s, sqlite3_bind_parameter_index(s, ":receiver"), q->receiver);
    if (q->service.p && (at = sqlite3_bind_parameter_index(s, ":service")))
        db_bind_str(s, at, q->service);
    return s;
}

static struct changes_alert read_open(sqlite3_stmt *s, int64_t now, struct arena *arena)
{
    struct changes_entry entry = list_entry(s, now, arena);
    return (struct changes_alert){.id = entry.id,
                                  .open = true,
                                  .known = sqlite3_column_type(s, LIST_N_COLUMNS) != SQLITE_NULL,
                                  .told = sqlite3_column_int(s, LIST_N_COLUMNS) != 0,
                                  .service = entry.service,
                                  .entry = entry,
                                  .total = (size_t)sqlite3_column_int64(s, LIST_N_COLUMNS + 1)};
}

static struct changes_alert read_ended(sqlite3_stmt *s, int64_t now, struct arena *arena)
{
    (void)now;
    return (struct changes_alert){.id = sqlite3_column_int64(s, 0),
                                  .known = true,
                                  .service = state_text(s, 1, arena),
                                  .starts = sqlite3_column_int64(s, 2),
                                  .text = state_text(s, 3, arena)};
}

typedef struct changes_alert read_alert_fn(sqlite3_stmt *s, int64_t now, struct arena *arena);

static int read_alerts(struct changes_outbox *o, const struct changes_alert_query *q,
                       const char *sql, read_alert_fn *read, struct arena *arena,
                       struct changes_alert **alerts, size_t *n, struct err *e)
{
    struct arena_trap trap;
    size_t cap = 0;
    int code;
    *alerts = NULL;
    *n = 0;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        db_reset(&o->db);
        return STORE_BUSY;
    }
    sqlite3_stmt *s = prepare_query(&o->db, sql, q, &code, e);
    while (s && (code = state_step(&o->db, s, e)) > 0) {
        *alerts = arena_push(arena, *alerts, *n, &cap, sizeof **alerts);
        (*alerts)[(*n)++] = read(s, q->now, arena);
    }
    arena_try_end(arena);
    return code;
}

int changes_alerts_open(struct changes_outbox *o, const struct changes_alert_query *q,
                        struct arena *arena, struct changes_alert **alerts, size_t *n,
                        struct err *e)
{
    const char *sql = q->service.p ? open_of_service_sql : open_sql;
    return read_alerts(o, q, sql, read_open, arena, alerts, n, e);
}

int changes_alerts_ended(struct changes_outbox *o, const struct changes_alert_query *q,
                         struct arena *arena, struct changes_alert **alerts, size_t *n,
                         struct err *e)
{
    return read_alerts(o, q, ended_sql, read_ended, arena, alerts, n, e);
}

int changes_alerts_service(struct changes_outbox *o, const struct changes_alert_query *q,
                           struct arena *arena, struct str *service, struct err *e)
{
    struct arena_trap trap;
    int code;
    *service = (struct str){0};
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        db_reset(&o->db);
        return STORE_BUSY;
    }
    sqlite3_stmt *s = prepare_query(&o->db, service_sql, q, &code, e);
    if (s && (code = state_step(&o->db, s, e)) > 0) {
        if (sqlite3_column_type(s, 0) != SQLITE_NULL)
            *service = state_text(s, 0, arena);
        sqlite3_reset(s);
        code = 0;
    }
    arena_try_end(arena);
    return code;
}

// --- what receivers know ---

static int write_alert(struct db *db, const char *sql, struct str receiver,
                       const struct changes_alert *alert, struct err *e)
{
    int code;
    sqlite3_stmt *s = db_prepare(db, sql, &code, e);
    if (!s)
        return code;
    db_bind_str(s, 1, receiver);
    sqlite3_bind_int64(s, 2, alert->id);
    if (sqlite3_bind_parameter_count(s) > 2) {
        db_bind_str(s, 3, alert->service);
        sqlite3_bind_int64(s, 4, alert->starts);
        db_bind_str(s, 5, alert->text);
    }
    return db_run(db, s, e);
}

// What to write of an alert; NULL: nothing.
typedef const char *alert_sql_fn(const struct changes_alert *alert);

static const char *sql_of_attempt(const struct changes_alert *alert)
{
    return alert->open && !alert->known ? "INSERT OR IGNORE INTO alert(receiver, change, service,"
                                          " starts, text, told) VALUES(?, ?, ?, ?, ?, 0)"
                                        : NULL;
}

static const char *sql_of_success(const struct changes_alert *alert)
{
    if (!alert->open)
        return "DELETE FROM alert WHERE receiver = ? AND change = ?";
    return alert->told ? NULL : "UPDATE alert SET told = 1 WHERE receiver = ? AND change = ?";
}

static int write_alerts(struct changes_outbox *o, struct str receiver,
                        const struct changes_alert *alerts, size_t n, alert_sql_fn *sql_of,
                        struct err *e)
{
    size_t first = 0;
    while (first < n && !sql_of(&alerts[first]))
        first++;
    if (first == n)
        return 0;
    int code = state_begin(&o->db, e);
    for (size_t i = first; i < n && !code; i++) {
        const char *sql = sql_of(&alerts[i]);
        code = sql ? write_alert(&o->db, sql, receiver, &alerts[i], e) : 0;
    }
    return state_end(&o->db, code, e);
}

int changes_alerts_try(struct changes_outbox *o, struct str receiver,
                       const struct changes_alert *alerts, size_t n, struct err *e)
{
    int code = db_exec(&o->db, "PRAGMA synchronous=FULL", e);
    return code ? code : write_alerts(o, receiver, alerts, n, sql_of_attempt, e);
}

// What a power failure takes of this is sent again.
int changes_alerts_told(struct changes_outbox *o, struct str receiver,
                        const struct changes_alert *alerts, size_t n, struct err *e)
{
    int code = db_exec(&o->db, "PRAGMA synchronous=NORMAL", e);
    return code ? code : write_alerts(o, receiver, alerts, n, sql_of_success, e);
}

static bool is_one_of(struct str text, const struct str *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(text, list[i]))
            return true;
    return false;
}

// One at a time: a statement that reads sees what is deleted meanwhile.
static int drop_receiver(struct db *db, const struct str *receivers, size_t n, bool *dropped,
                         struct err *e)
{
    int code;
    *dropped = false;
    sqlite3_stmt *s = db_prepare(db, "SELECT DISTINCT receiver FROM alert", &code, e);
    sqlite3_stmt *drop =
        s ? db_prepare(db, "DELETE FROM alert WHERE receiver = ?", &code, e) : NULL;
    if (!drop)
        return code;
    while ((code = state_step(db, s, e)) > 0 && is_one_of(db_blob(s, 0), receivers, n))
        ;
    if (code <= 0)
        return code;
    *dropped = true;
    db_bind_str(drop, 1, db_blob(s, 0));
    code = db_run(db, drop, e);
    sqlite3_reset(s);
    return code;
}

int changes_alerts_keep(struct changes_outbox *o, const struct str *receivers, size_t n,
                        struct err *e)
{
    int code = 0;
    for (bool dropped = true; dropped && !code;)
        code = drop_receiver(&o->db, receivers, n, &dropped, e);
    return code;
}
