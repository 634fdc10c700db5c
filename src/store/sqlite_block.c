// Reads a service of a day for queries: the blocks of its closed hours, and the profiles of open
// hours.
#include <stdio.h>

#include "store/sqlite.h"

int reader_damaged(const struct reader *reader, const struct block_reader *r, const char *what,
                   int64_t hour, struct err *e)
{
    char of[32] = "";
    if (hour >= 0)
        snprintf(of, sizeof of, " of hour %d", (int)(hour % 24));
    if (block_reader_starved(r)) {
        err_set(e, "no memory to read %s%s", what, of);
        return STORE_BUSY;
    }
    err_set(e, "%s is damaged: %s%s cannot be read", reader->db.path, what, of);
    return STORE_CORRUPT;
}

void reader_bind_range(sqlite3_stmt *q, int64_t service, const struct store_select *select)
{
    sqlite3_bind_int64(q, 1, service);
    sqlite3_bind_int64(q, 2, select->start / HOUR_NANOS);
    sqlite3_bind_int64(q, 3, select->end / HOUR_NANOS);
}

int reader_levels(struct reader *reader, int64_t service, const struct store_select *select,
                  unsigned levels[24], struct err *e)
{
    int code = 0, rc;
    memset(levels, 0, 24 * sizeof *levels);
    sqlite3_stmt *q = db_prepare(
        &reader->db,
        "SELECT hour, level FROM block WHERE id BETWEEN ?1*128 AND ?1*128+127 AND hour>=?2 AND "
        "hour<=?3",
        &code, e);
    if (!q)
        return code;
    reader_bind_range(q, service, select);
    while ((rc = sqlite3_step(q)) == SQLITE_ROW)
        levels[(uint64_t)sqlite3_column_int64(q, 0) % 24] |= 1u << (sqlite3_column_int(q, 1) & 7);
    sqlite3_reset(q);
    return rc == SQLITE_DONE ? 0 : db_error(&reader->db, rc, "read", e);
}

sqlite3_stmt *reader_block(struct reader *reader, struct block_at at, int *code, struct err *e)
{
    sqlite3_stmt *q = db_prepare(
        &reader->db, "SELECT points, head FROM block WHERE id=?1*128+?2%24*4+?3", code, e);
    if (!q)
        return NULL;
    sqlite3_bind_int64(q, 1, at.service);
    sqlite3_bind_int64(q, 2, at.hour);
    sqlite3_bind_int64(q, 3, at.level);
    int rc = sqlite3_step(q);
    if (rc == SQLITE_ROW)
        return q;
    if (rc != SQLITE_DONE)
        *code = db_error(&reader->db, rc, "read", e);
    return NULL;
}

// --- bodies ---

enum { WHOLE_BODY = 4 << 20 };

int body_damaged(const struct block_body *b, const char *what, struct err *e)
{
    return reader_damaged(b->reader, b->r, what, b->at.hour, e);
}

static int64_t block_id(struct block_at at)
{
    return at.service * 128 + at.hour % 24 * 4 + at.level;
}

static int read_whole_body(struct block_body *b, struct err *e)
{
    struct db *db = &b->reader->db;
    int code = 0;
    sqlite3_stmt *q = db_prepare(db, "SELECT body FROM block WHERE id=?", &code, e);
    if (!q)
        return code;
    sqlite3_bind_int64(q, 1, block_id(b->at));
    int rc = sqlite3_step(q);
    if (rc != SQLITE_ROW)
        return rc == SQLITE_DONE ? body_damaged(b, "a block", e) : db_error(db, rc, "read", e);
    b->bytes = db_blob(q, 0);
    return 0;
}

int body_part(struct block_body *b, const struct parts *part, struct str *bytes, struct err *e)
{
    struct db *db = &b->reader->db;
    int code = 0, rc = SQLITE_OK;
    if (b->whole) {
        if (!b->bytes.p)
            code = read_whole_body(b, e);
        if (!code)
            *bytes = parts_bytes(part, b->bytes);
        return code;
    }
    if (!b->blob)
        rc = sqlite3_blob_open(db->handle, "main", "block", "body", block_id(b->at), 0, &b->blob);
    if (rc != SQLITE_OK)
        return db_error(db, rc, "read", e);
    if (part->n > INT32_MAX || part->at > INT32_MAX)
        return body_damaged(b, "a block", e);
    b->part = block_scratch(b->r, b->part, part->n, &b->cap_part, 1);
    rc = sqlite3_blob_read(b->blob, b->part, (int)part->n, (int)part->at);
    *bytes = (struct str){(const char *)b->part, part->n};
    // SQLITE_ERROR: the body ends before the part does
    return rc == SQLITE_OK      ? 0
           : rc == SQLITE_ERROR ? body_damaged(b, "a block", e)
                                : db_error(db, rc, "read", e);
}

void body_end(struct block_body *b)
{
    sqlite3_blob_close(b->blob);
    b->blob = NULL;
    b->bytes = (struct str){0};
}

int body_each_part(struct block_body *b, struct block_at place, struct str head, size_t n_rows,
                   body_part_fn *take, void *ctx, struct err *e)
{
    struct parts parts;
    size_t at = 0, size = 0;
    int code = 0;
    body_end(b);
    for (parts_open(&parts, head); parts_next(&parts);)
        size += parts.n;
    b->at = place;
    b->whole = size <= WHOLE_BODY;
    for (parts_open(&parts, head); !code && parts_next(&parts); at += (size_t)parts.n_rows)
        code = parts.n_rows > n_rows - at ? body_damaged(b, "the directory", e)
                                          : take(ctx, &parts, at, e);
    if (!code && (parts.bad || at != n_rows))
        code = body_damaged(b, "the directory", e);
    body_end(b);
    return code;
}

// --- profiles of open hours ---

int fresh_open(struct fresh *f, struct reader *reader, int64_t service,
               const struct store_select *select, bool bodies, struct err *e)
{
    int code = 0;
    *f = (struct fresh){.reader = reader};
    f->q = db_prepare(&reader->db,
                      bodies ? "SELECT series, time, head, body FROM fresh WHERE service=? AND "
                               "hour>=? AND hour<=?"
                             : "SELECT series, time, head FROM fresh WHERE service=? AND hour>=? "
                               "AND hour<=?",
                      &code, e);
    f->bodies = bodies;
    if (f->q)
        reader_bind_range(f->q, service, select);
    return code;
}

bool fresh_next(struct fresh *f)
{
    f->rc = sqlite3_step(f->q);
    if (f->rc != SQLITE_ROW)
        return false;
    struct str head = db_blob(f->q, 2);
    f->series = sqlite3_column_int64(f->q, 0);
    f->time = sqlite3_column_int64(f->q, 1);
    f->totals = (struct unpack){(const uint8_t *)head.p, (const uint8_t *)head.p + head.n, false};
    f->k = unpack_varint(&f->totals);
    f->duration = unpack_signed(&f->totals);
    if (f->bodies)
        f->body = db_blob(f->q, 3);
    return true;
}

bool fresh_total(const struct fresh *f, uint32_t column, int64_t *total)
{
    struct unpack totals = f->totals;
    for (uint32_t c = 0; c <= column; c++)
        *total = unpack_signed(&totals);
    return column < f->k && !totals.bad;
}

int fresh_end(struct fresh *f, struct err *e)
{
    sqlite3_reset(f->q);
    return f->rc == SQLITE_DONE ? 0 : db_error(&f->reader->db, f->rc, "read", e);
}
