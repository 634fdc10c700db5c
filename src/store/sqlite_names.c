// Late names: function names from debug files for addresses stored without names.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/sqlite.h"

static const char NAMES_SCHEMA[] =
    "CREATE TABLE name(build_id BLOB NOT NULL, place INTEGER NOT NULL, frames BLOB NOT NULL,"
    " PRIMARY KEY(build_id, place)) WITHOUT ROWID";
static const struct db_format NAMES_FORMAT = {.schema = NAMES_SCHEMA, .version = 1, .oldest = 1};

int names_open(struct lite *lite, struct str tenant, bool create, struct db *db, struct err *e)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/tenants/%.*s", lite->directory, (int)tenant.n, tenant.p);
    *db = (struct db){0};
    if (create && access(path, F_OK) != 0) {
        err_set(e, "tenant %.*s has no profiles", (int)tenant.n, tenant.p);
        return STORE_BAD_INPUT;
    }
    snprintf(path, sizeof path, "%s/tenants/%.*s/names.db", lite->directory, (int)tenant.n,
             tenant.p);
    if (!create && access(path, F_OK) != 0)
        return 0;
    int code = db_open(db, path, create ? DB_CREATE : DB_READ, &NAMES_FORMAT, e);
    if (code && !create) { // profiles can be shown without names
        lite_note(lite, "%s", e->message);
        code = 0;
    }
    return code;
}

static bool names_find(struct db *db, struct str build_id, uint64_t offset, struct arena *arena,
                       struct store_frame **frames, size_t *n)
{
    int code;
    struct err e;
    sqlite3_stmt *q =
        db_prepare(db, "SELECT frames FROM name WHERE build_id=? AND place=?", &code, &e);
    if (!q)
        return false;
    db_bind_blob(q, 1, build_id);
    sqlite3_bind_int64(q, 2, (int64_t)offset);
    if (sqlite3_step(q) != SQLITE_ROW)
        return false;
    struct str bytes = db_blob(q, 0);
    bytes.p = arena_copy(arena, bytes.p, bytes.n);
    sqlite3_reset(q);
    struct unpack b = {(const uint8_t *)bytes.p, (const uint8_t *)bytes.p + bytes.n, false};
    *n = unpack_count(&b);
    *frames = arena_array(arena, *n, sizeof **frames);
    for (size_t i = 0; i < *n; i++) {
        struct store_frame *f = &(*frames)[i];
        f->name = unpack_str(&b);
        f->system_name = unpack_str(&b);
        f->file = unpack_str(&b);
        f->line = unpack_signed(&b);
        f->start_line = unpack_signed(&b);
    }
    return !b.bad && *n;
}

bool names_of_location(struct db *db, const struct symbols *s, const struct symbols_location *l,
                       struct arena *arena, struct store_frame **frames, size_t *n)
{
    const struct symbols_mapping *m = l->mapping ? &s->mappings[l->mapping - 1] : NULL;
    return db && db->handle && m && m->build_id &&
           names_find(db, s->strings[m->build_id], l->address + m->offset, arena, frames, n);
}

static int insert_name(struct db *db, const struct store_name *name, struct arena *arena,
                       struct err *e)
{
    struct arena_trap trap;
    int code = 0;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    struct pack b = {.arena = arena};
    pack_varint(&b, name->n_frames);
    for (size_t i = 0; i < name->n_frames; i++) {
        const struct store_frame *f = &name->frames[i];
        pack_str(&b, f->name);
        pack_str(&b, f->system_name);
        pack_str(&b, f->file);
        pack_signed(&b, f->line);
        pack_signed(&b, f->start_line);
    }
    arena_try_end(arena);
    sqlite3_stmt *q = db_prepare(db, "INSERT OR REPLACE INTO name VALUES(?,?,?)", &code, e);
    if (!q)
        return code;
    db_bind_blob(q, 1, name->build_id);
    sqlite3_bind_int64(q, 2, (int64_t)name->offset);
    db_bind_blob(q, 3, (struct str){(const char *)b.p, b.n});
    return db_run(db, q, e);
}

int sqlite_name(void *driver, struct str tenant, const struct store_name *names, size_t n,
                struct err *e)
{
    struct db db;
    struct arena *arena = arena_new(0);
    if (!arena)
        return err_set(e, "no memory to keep names");
    int code = names_open(driver, tenant, true, &db, e);
    if (code) {
        arena_free(arena);
        return code;
    }
    code = db_exec(&db, "BEGIN IMMEDIATE", e);
    for (size_t i = 0; i < n && !code; i++)
        code = insert_name(&db, &names[i], arena, e);
    if (!code)
        code = db_exec(&db, "COMMIT", e);
    if (code)
        db_rollback(&db);
    db_close(&db);
    arena_free(arena);
    return code;
}

int sqlite_forget_names(void *driver, struct str tenant, struct str build_id, struct err *e)
{
    const struct lite *lite = driver;
    char path[PATH_MAX];
    struct db db;
    snprintf(path, sizeof path, "%s/tenants/%.*s/names.db", lite->directory, (int)tenant.n,
             tenant.p);
    if (access(path, F_OK) != 0)
        return 0;
    int code = db_open(&db, path, DB_WRITE, &NAMES_FORMAT, e);
    if (code)
        return code;
    sqlite3_stmt *q = db_prepare(&db, "DELETE FROM name WHERE build_id=?", &code, e);
    if (q) {
        db_bind_blob(q, 1, build_id);
        code = db_run(&db, q, e);
    }
    db_close(&db);
    return code;
}

// --- addresses without names ---

struct search {
    struct lite *lite;
    struct arena *arena;
    struct str build_id;
    struct reader *reader;
    struct reader_symbols *symbols;
    struct block_reader r;
    struct store_address *addresses;
    size_t n, cap;
    struct hash_table index;
};

static void add_address(struct search *s, const struct symbols *y, const struct symbols_mapping *m,
                        uint64_t offset)
{
    struct str id = y->strings[m->build_id], file = y->strings[m->file];
    uint64_t hash = hash_bytes(id.p, id.n, offset);
    for (struct hash_probe at = hash_find(&s->index, hash); hash_hit(&s->index, &at);
         hash_next(&s->index, &at))
        if (s->addresses[at.item].offset == offset && str_eq(s->addresses[at.item].build_id, id))
            return;
    s->addresses = arena_push(s->arena, s->addresses, s->n, &s->cap, sizeof *s->addresses);
    s->addresses[s->n] = (struct store_address){{arena_copy(s->arena, id.p, id.n), id.n},
                                                {arena_copy(s->arena, file.p, file.n), file.n},
                                                offset};
    hash_add(&s->index, s->arena, hash, (uint32_t)s->n++);
}

static int search_day(struct search *s, struct err *e)
{
    int code = 0, rc;
    sqlite3_stmt *q =
        db_prepare(&s->reader->db, "SELECT id FROM service WHERE " LIVE_SERVICE, &code, e);
    if (!q)
        return code;
    while (!code && (rc = sqlite3_step(q)) == SQLITE_ROW) {
        code = reader_symbols_take(s->lite, s->reader, sqlite3_column_int64(q, 0), s->r.zstd,
                                   &s->symbols, e);
        if (code)
            break;
        const struct symbols *y = s->symbols->symbols;
        for (uint32_t i = 0; i < y->n.locations; i++) {
            const struct symbols_location *l = &y->locations[i];
            arena_spend(s->arena, 1);
            if (l->n_lines || !l->mapping)
                continue;
            const struct symbols_mapping *m = &y->mappings[l->mapping - 1];
            if (m->build_id && (!s->build_id.n || str_eq(s->build_id, y->strings[m->build_id])))
                add_address(s, y, m, l->address + m->offset);
        }
        reader_symbols_give(s->lite, s->reader, s->symbols);
        s->symbols = NULL;
    }
    return code ? code : rc == SQLITE_DONE ? 0 : db_error(&s->reader->db, rc, "read", e);
}

static int search_day_guarded(struct search *s, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(s->arena, trap)) {
        arena_caught(s->arena, e);
        return STORE_BUSY;
    }
    if (!s->index.slots)
        hash_init(&s->index, s->arena, 256);
    int code = search_day(s, e);
    arena_try_end(s->arena);
    return code;
}

int sqlite_unnamed(void *driver, struct str tenant, struct str build_id, int64_t start, int64_t end,
                   struct arena *arena, struct store_address **addresses, size_t *n, struct err *e)
{
    struct search s = {.lite = driver, .arena = arena, .build_id = build_id};
    int64_t *days;
    size_t n_days = 0;
    int code = day_list(driver, tenant, start, end, arena, &days, &n_days, e);
    if (!code)
        code = block_reader_init(&s.r, arena, e);
    for (size_t i = 0; i < n_days && !code; i++) {
        code = reader_take(driver, tenant, days[i], &s.reader, e);
        if (!code && s.reader) {
            s.reader->budget = arena_budget(arena);
            code = search_day_guarded(&s, e);
        }
        if (s.symbols)
            reader_symbols_give(driver, s.reader, s.symbols);
        if (s.reader)
            code = reader_give(driver, s.reader, code, e);
        s.symbols = NULL;
        s.reader = NULL;
        if (lite_is_unreadable(code)) {
            lite_note(driver, "%s", e->message);
            code = 0;
        }
    }
    block_reader_fini(&s.r);
    *addresses = s.addresses;
    *n = s.n;
    return code;
}
