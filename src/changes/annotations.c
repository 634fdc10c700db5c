#include "changes/state.h"

bool changes_tag_service(struct str tag, struct str *service)
{
    static const struct str prefixes[] = {STR("service_name:"), STR("service_name=")};
    for (size_t i = 0; i < 2; i++)
        if (str_starts(tag, prefixes[i]) && tag.n > prefixes[i].n) {
            *service = str_from_to(tag, prefixes[i].n, tag.n);
            return true;
        }
    return false;
}

static int write_annotation_row(struct db *db, struct changes_annotation *a, struct str tags,
                                struct err *e)
{
    int code;
    sqlite3_stmt *s = db_prepare(
        db, "INSERT INTO annotation(time, time_end, text, tags, who) VALUES(?, ?, ?, ?, ?)", &code,
        e);
    if (!s)
        return code;
    sqlite3_bind_int64(s, 1, a->time);
    sqlite3_bind_int64(s, 2, a->end);
    db_bind_str(s, 3, a->text);
    db_bind_blob(s, 4, tags);
    db_bind_str(s, 5, a->who);
    code = db_run(db, s, e);
    a->id = sqlite3_last_insert_rowid(db->handle);
    return code;
}

static int write_markers(struct db *db, const struct changes_annotation *a, struct err *e)
{
    struct str service;
    bool any = false;
    int code = 0;
    for (size_t i = 0; i < a->n_tags && !code; i++)
        if (changes_tag_service(a->tags[i], &service)) {
            any = true;
            code = state_add_marker(db, service, a->time, a->text, a->id, e);
        }
    return code || any ? code : state_add_marker(db, STR(""), a->time, a->text, a->id, e);
}

// The row annotation_bytes of the table number has the bytes of all annotations. Code that deletes
// annotations without counting them deletes the row; the next addition then counts all of them.
#define ANNOTATION_BYTES "length(CAST(text AS BLOB)) + length(tags) + length(CAST(who AS BLOB))"
static const char count_sql[] = "SELECT coalesce(sum(" ANNOTATION_BYTES "), 0) FROM annotation";
static const char oldest_sql[] =
    "SELECT " ANNOTATION_BYTES " FROM annotation ORDER BY time, id LIMIT 1";

static bool has_annotation_room(struct db *db, int64_t bytes)
{
    return bytes <= CHANGES_ANNOTATION_BYTES &&
           db_number(db, "SELECT count(*) FROM marker WHERE annotation <> 0", 0) <
               CHANGES_ANNOTATIONS;
}

// Deletes the oldest annotations until there is room for one more of so many bytes. Each has at
// least one marker, and one for each service that it names.
static int make_room(struct db *db, size_t bytes, struct err *e)
{
    int64_t all, oldest;
    int code = state_number(db, "annotation_bytes", &all, e);
    if (!code && !all)
        all = db_number(db, count_sql, 0);
    all += (int64_t)bytes;
    while (!code && !has_annotation_room(db, all) &&
           (oldest = db_number(db, oldest_sql, -1)) >= 0) {
        code = db_exec(db,
                       "DELETE FROM marker WHERE annotation ="
                       " (SELECT id FROM annotation ORDER BY time, id LIMIT 1);"
                       "DELETE FROM annotation WHERE id ="
                       " (SELECT id FROM annotation ORDER BY time, id LIMIT 1)",
                       e);
        all -= oldest;
    }
    return code ? code : state_set_number(db, "annotation_bytes", all, e);
}

int changes_annotate(struct changes *c, struct str tenant, struct changes_annotation *a,
                     struct err *e)
{
    struct db db;
    struct out tags;
    out_init_memory(&tags, CHANGES_TAGS * (CHANGES_TAG_BYTES + 1));
    for (size_t i = 0; i < a->n_tags; i++) {
        out_str(&tags, a->tags[i]);
        out_char(&tags, '\0');
    }
    int code = tags.error ? STORE_BUSY : state_open(c, tenant, DB_CREATE, &db, e);
    if (tags.error)
        err_set(e, "out of memory");
    if (!code) {
        code = state_begin(&db, e);
        if (!code)
            code = make_room(&db, a->text.n + out_result(&tags).n + a->who.n, e);
        if (!code)
            code = write_annotation_row(&db, a, out_result(&tags), e);
        if (!code)
            code = write_markers(&db, a, e);
        code = state_end(&db, code, e);
        db_close(&db);
    }
    out_fini(&tags);
    return code;
}

int changes_remove_annotation(struct changes *c, struct str tenant, int64_t id, bool *found,
                              struct err *e)
{
    // Changes that it was the deploy of belong to what else is near, at the next look.
    static const char *const statements[] = {
        ("UPDATE change SET marker_time = 0, marker = ''"
         " WHERE (marker_time, marker) IN (SELECT time, text FROM marker WHERE annotation = ?)"),
        "DELETE FROM marker WHERE annotation = ?",
        "DELETE FROM number WHERE name = 'annotation_bytes'",
        "DELETE FROM annotation WHERE id = ?",
    };
    struct db db;
    *found = false;
    int code = state_open(c, tenant, DB_WRITE, &db, e);
    if (code)
        return code > 0 ? 0 : code;
    code = state_begin(&db, e);
    for (size_t i = 0; i < sizeof statements / sizeof *statements && !code; i++) {
        sqlite3_stmt *s = db_prepare(&db, statements[i], &code, e);
        if (!s)
            break;
        sqlite3_bind_int64(s, 1, id);
        code = db_run(&db, s, e);
        *found = !code && sqlite3_changes(db.handle) > 0;
    }
    code = state_end(&db, code, e);
    db_close(&db);
    return code;
}

// --- listing ---

static void take_tags(struct changes_annotation *a, struct str tags, struct arena *arena)
{
    size_t n = 0;
    for (size_t i = 0; i < tags.n; i++)
        n += tags.p[i] == 0;
    a->tags = arena_array(arena, n + 1, sizeof *a->tags);
    for (size_t from = 0, at = 0; at < tags.n; at++)
        if (tags.p[at] == 0) {
            a->tags[a->n_tags++] = str_from_to(tags, from, at);
            from = at + 1;
        }
}

// tags: as they are kept.
static bool has_tag(struct str tags, struct str tag)
{
    for (size_t from = 0, at = 0; at < tags.n; at++)
        if (tags.p[at] == 0) {
            if (str_eq(str_from_to(tags, from, at), tag))
                return true;
            from = at + 1;
        }
    return false;
}

static bool has_tags(struct str tags, const struct changes_annotation_filter *filter)
{
    size_t n = 0;
    for (size_t i = 0; i < filter->n_tags; i++)
        n += has_tag(tags, filter->tags[i]);
    return filter->any_tag ? n > 0 || !filter->n_tags : n == filter->n_tags;
}

int changes_annotations(struct changes *c, struct str tenant,
                        const struct changes_annotation_filter *filter, struct arena *arena,
                        struct changes_annotation **annotations, size_t *n, struct err *e)
{
    struct db db;
    struct arena_trap trap;
    size_t cap = 0;
    *annotations = NULL;
    *n = 0;
    int code = state_open(c, tenant, DB_READ, &db, e);
    if (code)
        return code > 0 ? 0 : code;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        db_close(&db);
        return STORE_BUSY;
    }
    sqlite3_stmt *s =
        db.version ? db_prepare(&db,
                                "SELECT id, time, time_end, text, tags, who FROM annotation "
                                "WHERE time <= ? AND time_end >= ? ORDER BY time DESC, id DESC",
                                &code, e)
                   : NULL;
    if (s) {
        sqlite3_bind_int64(s, 1, filter->until);
        sqlite3_bind_int64(s, 2, filter->from);
        while (*n < filter->limit && (code = state_step(&db, s, e)) > 0) {
            struct changes_annotation a = {.id = sqlite3_column_int64(s, 0),
                                           .time = sqlite3_column_int64(s, 1),
                                           .end = sqlite3_column_int64(s, 2)};
            struct str tags = db_blob(s, 4);
            arena_spend(arena, 4 + tags.n / 1024 * filter->n_tags);
            if (!has_tags(tags, filter))
                continue;
            take_tags(&a, state_text(s, 4, arena), arena);
            a.text = state_text(s, 3, arena);
            a.who = state_text(s, 5, arena);
            *annotations = arena_push(arena, *annotations, *n, &cap, sizeof **annotations);
            (*annotations)[(*n)++] = a;
        }
    }
    arena_try_end(arena);
    db_close(&db);
    return code < 0 ? code : 0;
}
