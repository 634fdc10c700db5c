// Late names: function names from debug files for addresses stored without names.
#include <stdlib.h>
#include <time.h>

#include "store/clickhouse.h"

static uint64_t names_version_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

// The row of an address with the highest version wins.
static int write_names(struct clickhouse *c, struct str tenant, const struct store_name *names,
                       size_t n, struct arena *arena, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    struct pack rows = {.arena = arena};
    uint64_t version = names_version_now();
    for (size_t i = 0; i < n; i++) {
        struct pack b = {.arena = arena};
        pack_varint(&b, names[i].n_frames);
        for (size_t j = 0; j < names[i].n_frames; j++) {
            const struct store_frame *f = &names[i].frames[j];
            pack_str(&b, f->name);
            pack_str(&b, f->system_name);
            pack_str(&b, f->file);
            pack_signed(&b, f->line);
            pack_signed(&b, f->start_line);
        }
        pack_bytes(&rows, "\0\0", 2); // day 0: names do not expire
        pack_str(&rows, tenant);
        pack_str(&rows, names[i].build_id);
        pack_bytes(&rows, &names[i].offset, sizeof names[i].offset);
        pack_bytes(&rows, &version, sizeof version);
        pack_str(&rows, (struct str){(const char *)b.p, b.n});
    }
    int code = clickhouse_insert(c, "names", "", (struct str){(const char *)rows.p, rows.n}, e);
    arena_try_end(arena);
    return code;
}

int clickhouse_name(void *driver, struct str tenant, const struct store_name *names, size_t n,
                    struct err *e)
{
    struct clickhouse *c = driver;
    struct arena *arena = arena_new(0);
    if (!arena)
        return err_set(e, "no memory to keep names");
    int code = n ? write_names(c, tenant, names, n, arena, e) : 0;
    arena_free(arena);
    if (!code)
        stacks_expire(c);
    return code;
}

int clickhouse_watch_names(struct clickhouse *c, struct err *e)
{
    struct arena *arena = arena_new(0);
    uint64_t version = 0;
    if (!arena)
        return err_set(e, "no memory");
    char *sql =
        arena_printf(arena, "SELECT max(version) FROM %s.names FORMAT RowBinary", c->at.database);
    int code = clickhouse_number(c, str_from(sql), NULL, &version, e);
    arena_free(arena);
    if (!code && version != c->names_version) {
        c->names_version = version;
        stacks_expire(c);
    }
    return code;
}

struct late_name {
    struct str build_id, frames;
    uint64_t place;
};

static int name_order(const void *a, const void *b)
{
    const struct late_name *x = a, *y = b;
    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return str_cmp(x->build_id, y->build_id);
}

int names_query(struct clickhouse *c, struct str tenant, const uint64_t *places, size_t n,
                struct arena *arena, struct late_names *names, struct err *e)
{
    struct out sql;
    struct unpack rows;
    size_t cap = 0;
    *names = (struct late_names){0};
    if (!n)
        return 0;
    out_init_arena(&sql, arena);
    out_printf(&sql,
               "SELECT build_id, place, argMax(frames, version) FROM %s.names WHERE tenant = ",
               c->at.database);
    sql_text(&sql, tenant);
    out_text(&sql, " AND place IN (");
    sql_numbers(&sql, places, n);
    out_text(&sql, ") GROUP BY build_id, place FORMAT RowBinary");
    int code = clickhouse_query(c, out_result(&sql), arena, &rows, e);
    while (!code && rows.p < rows.end && !rows.bad) {
        names->items = arena_push(arena, names->items, names->n, &cap, sizeof *names->items);
        struct late_name *name = &names->items[names->n++];
        name->build_id = unpack_str(&rows);
        name->place = row_u64(&rows);
        name->frames = unpack_str(&rows);
    }
    if (names->n)
        qsort(names->items, names->n, sizeof *names->items, name_order);
    return clickhouse_rows_end(c, &rows, code, e);
}

uint32_t names_lines(const struct late_names *names, struct str build_id, uint64_t place,
                     struct model_builder *b, struct model_line **lines)
{
    struct late_name key = {.build_id = build_id, .place = place};
    const struct late_name *found =
        names->n ? bsearch(&key, names->items, names->n, sizeof key, name_order) : NULL;
    if (!found)
        return 0;
    struct unpack u = {(const uint8_t *)found->frames.p,
                       (const uint8_t *)found->frames.p + found->frames.n, false};
    size_t n = unpack_count(&u);
    *lines = arena_array(b->arena, n, sizeof **lines);
    for (size_t i = 0; i < n; i++) {
        uint32_t name = model_build_string(b, unpack_str(&u));
        uint32_t system_name = model_build_string(b, unpack_str(&u));
        uint32_t file = model_build_string(b, unpack_str(&u));
        (*lines)[i].line = unpack_signed(&u);
        (*lines)[i].function = model_build_function(b, name, system_name, file, unpack_signed(&u));
    }
    return u.bad ? 0 : (uint32_t)n;
}

int clickhouse_unnamed(void *driver, struct str tenant, struct str build_id, int64_t start,
                       int64_t end, struct arena *arena, struct store_address **addresses,
                       size_t *n, struct err *e)
{
    struct clickhouse *c = driver;
    struct out sql;
    struct unpack rows;
    struct arena_trap trap;
    size_t cap = 0;
    *addresses = NULL;
    *n = 0;
    spool_flush(&c->spool, INT64_C(5) * 1000000000, arena_budget(arena));
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    out_init_arena(&sql, arena);
    out_printf(&sql,
               "SELECT build_id, any(file), address + offset AS place FROM %s.locations WHERE "
               "day >= toDate(%u) AND day <= toDate(%u) AND mapped = 1 AND empty(names) AND "
               "tenant = ",
               c->at.database, clickhouse_day(start), clickhouse_day(end));
    sql_text(&sql, tenant);
    out_text(&sql, " AND build_id ");
    out_text(&sql, build_id.n ? "= " : "!= ");
    sql_text(&sql, build_id);
    out_text(&sql, " GROUP BY build_id, place FORMAT RowBinary");
    int code = clickhouse_query(c, out_result(&sql), arena, &rows, e);
    while (!code && rows.p < rows.end && !rows.bad) {
        *addresses = arena_push(arena, *addresses, *n, &cap, sizeof **addresses);
        struct store_address *a = &(*addresses)[(*n)++];
        a->build_id = unpack_str(&rows);
        a->file = unpack_str(&rows);
        a->offset = row_u64(&rows);
    }
    code = clickhouse_rows_end(c, &rows, code, e);
    arena_try_end(arena);
    return code;
}
