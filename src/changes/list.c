#include "changes/look.h"

struct changes_entry list_entry(sqlite3_stmt *s, int64_t now, struct arena *arena)
{
    enum { AT = CHANGE_N_COLUMNS };
    struct changes_entry entry = {
        .id = sqlite3_column_int64(s, 0),
        .service = state_text(s, AT, arena),
        .type = state_text(s, AT + 1, arena),
        .entry = change_entry(s, arena),
        .versions = change_versions(s, arena),
        .found = sqlite3_column_int64(s, 20),
        .gone = sqlite3_column_int64(s, 21),
    };
    int64_t until = sqlite3_column_int64(s, AT + 6);
    int from = AT + 3;
    entry.marked = sqlite3_column_int64(s, AT + 2);
    if (entry.marked)
        entry.mark = CHANGES_ACKNOWLEDGED;
    if (sqlite3_column_type(s, AT + 5) != SQLITE_NULL && (!until || until > now)) {
        entry.mark = CHANGES_MUTED;
        entry.marked = sqlite3_column_int64(s, AT + 5);
        entry.until = until;
        from = AT + 7;
    }
    entry.who = state_text(s, from, arena);
    entry.comment = state_text(s, from + 1, arena);
    return entry;
}

static const char list_sql[] = "SELECT " LIST_COLUMNS " FROM " LIST_TABLES
                               " WHERE (:service = '' OR change.service = :service)"
                               " AND (:type = '' OR change.type = :type)"
                               " AND change.time BETWEEN :from AND :until"
                               " AND (:verdict < 0 OR verdict = :verdict)"
                               " AND (:found = 0 OR (found, change.id) < (:found, :id))"
                               " AND CASE :state WHEN 0 THEN 1"
                               " WHEN 1 THEN gone = 0 AND acknowledged = 0 AND NOT " CHANGE_MUTED
                               " WHEN 2 THEN acknowledged <> 0 AND NOT " CHANGE_MUTED
                               " WHEN 3 THEN " CHANGE_MUTED " ELSE gone <> 0 END "
                               "ORDER BY found DESC, change.id DESC LIMIT :limit";
_Static_assert(CHANGES_STATE_ANY == 0 && CHANGES_STATE_OPEN == 1 &&
                   CHANGES_STATE_ACKNOWLEDGED == 2 && CHANGES_STATE_MUTED == 3,
               "states in the statement above");

static void list_bind(sqlite3_stmt *s, const char *name, int64_t value)
{
    sqlite3_bind_int64(s, sqlite3_bind_parameter_index(s, name), value);
}

int changes_list(struct changes *c, struct str tenant, const struct changes_filter *filter,
                 struct arena *arena, struct changes_entry **entries, size_t *n, struct err *e)
{
    struct db db;
    struct arena_trap trap;
    size_t cap = 0;
    *entries = NULL;
    *n = 0;
    int code = state_open(c, tenant, DB_READ, &db, e);
    if (code)
        return code > 0 ? 0 : code;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        db_close(&db);
        return STORE_BUSY;
    }
    // Its maker has only just made the file.
    sqlite3_stmt *s = db.version ? db_prepare(&db, list_sql, &code, e) : NULL;
    if (s) {
        db_bind_str(s, sqlite3_bind_parameter_index(s, ":service"), filter->service);
        db_bind_str(s, sqlite3_bind_parameter_index(s, ":type"), filter->type);
        list_bind(s, ":from", filter->from);
        list_bind(s, ":until", filter->until);
        list_bind(s, ":verdict",
                  filter->verdict == CHANGES_VERDICT_LASTING ? (int)STATS_LASTING
                  : filter->verdict == CHANGES_VERDICT_SHIFT ? (int)STATS_SHIFT
                                                             : -1);
        list_bind(s, ":found", filter->after_found);
        list_bind(s, ":id", filter->after_id);
        list_bind(s, ":state", filter->state);
        list_bind(s, ":now", filter->now);
        list_bind(s, ":limit", (int64_t)filter->limit);
        while ((code = state_step(&db, s, e)) > 0) {
            *entries = arena_push(arena, *entries, *n, &cap, sizeof **entries);
            (*entries)[(*n)++] = list_entry(s, filter->now, arena);
        }
    }
    arena_try_end(arena);
    db_close(&db);
    return code;
}

// --- marks ---

static int run_marking(struct db *db, const char *sql, const struct changes_marking *m,
                       struct err *e)
{
    int code;
    sqlite3_stmt *s = db_prepare(db, sql, &code, e);
    if (!s)
        return code;
    sqlite3_clear_bindings(s);
    const struct {
        const char *name;
        struct str text;
    } texts[] = {{":who", m->who}, {":comment", m->comment}};
    list_bind(s, ":id", m->id);
    for (size_t i = 0; i < 2; i++)
        if (sqlite3_bind_parameter_index(s, texts[i].name))
            db_bind_str(s, sqlite3_bind_parameter_index(s, texts[i].name), texts[i].text);
    if (sqlite3_bind_parameter_index(s, ":now"))
        list_bind(s, ":now", m->now);
    if (sqlite3_bind_parameter_index(s, ":until"))
        list_bind(s, ":until", m->until);
    return db_run(db, s, e);
}

int changes_mark(struct changes *c, struct str tenant, const struct changes_marking *marking,
                 bool *found, struct err *e)
{
    struct db db;
    *found = false;
    int code = state_open(c, tenant, DB_WRITE, &db, e);
    if (code)
        return code > 0 ? 0 : code;
    code = state_begin(&db, e);
    // What was said before does not hold any more.
    if (!code)
        code = run_marking(&db,
                           "UPDATE change SET acknowledged = 0, who = '', comment = '' "
                           "WHERE id = :id",
                           marking, e);
    *found = !code && sqlite3_changes(db.handle) > 0;
    if (!code)
        code = run_marking(&db,
                           "DELETE FROM mute WHERE (service, type, function) IN"
                           " (SELECT service, type, function FROM change WHERE id = :id)",
                           marking, e);
    if (!code && marking->mark == CHANGES_ACKNOWLEDGED)
        code = run_marking(&db,
                           "UPDATE change SET acknowledged = :now, who = :who,"
                           " comment = :comment WHERE id = :id",
                           marking, e);
    if (!code && marking->mark == CHANGES_MUTED)
        code = run_marking(&db,
                           "INSERT INTO mute SELECT service, type, function, :now, :until, :who,"
                           " :comment FROM change WHERE id = :id",
                           marking, e);
    code = state_end(&db, code, e);
    db_close(&db);
    if (!code)
        state_changed(c);
    return code;
}
