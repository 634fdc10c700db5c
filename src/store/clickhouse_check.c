// What kiln server check looks for: rows that are missing or too many, and rows that refer to
// nothing.
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "store/clickhouse.h"

struct difference {
    uint32_t day;
    uint64_t said, there; // rows of samples
};

// Days whose profiles say another number of samples than there is.
static int ask_differences(struct clickhouse *c, struct arena *arena, struct difference **found,
                           size_t *n, struct err *e)
{
    struct unpack rows;
    struct arena_trap trap;
    size_t cap = 0;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    char *sql = arena_printf(
        arena,
        "SELECT toUInt32(toUInt16(day)), sum(a) AS x, sum(b) AS y FROM (SELECT day, toUInt64(n) * "
        "own AS a, toUInt64(0) AS b FROM %s.profiles UNION ALL SELECT day, toUInt64(0) AS a, "
        "toUInt64(1) AS b FROM %s.samples) AS u GROUP BY day HAVING x != y ORDER BY day FORMAT "
        "RowBinary",
        c->at.database, c->at.database);
    int code = clickhouse_ask(c, str_from(sql), arena, &rows, e);
    *found = NULL;
    *n = 0;
    while (!code && rows.p < rows.end && !rows.bad) {
        *found = arena_push(arena, *found, *n, &cap, sizeof **found);
        struct difference *d = &(*found)[(*n)++];
        d->day = row_u32(&rows);
        d->said = row_u64(&rows);
        d->there = row_u64(&rows);
    }
    arena_try_end(arena);
    return code;
}

// What rows of a day refer to by an id, and where that has to be.
static const struct {
    const char *id, *from, *key, *to;
} references[] = {
    {"series", "profiles", "series", "series"},
    {"series", "samples", "series", "series"},
    {"stack", "samples", "stack", "stacks"},
    {"arrayJoin(locations)", "stacks", "location", "locations"},
};
enum { N_REFERENCES = sizeof references / sizeof *references };

struct orphans {
    uint32_t day;
    uint64_t n[N_REFERENCES]; // ids that are not there
};

static int list_days(struct clickhouse *c, struct arena *arena, struct orphans **days, size_t *n,
                     struct err *e)
{
    struct unpack rows;
    struct arena_trap trap;
    size_t cap = 0;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    const char *db = c->at.database;
    char *sql = arena_printf(
        arena,
        "SELECT toUInt32(toUInt16(day)) AS d FROM (SELECT day FROM %s.profiles GROUP BY day UNION "
        "ALL SELECT day FROM %s.samples GROUP BY day) AS u GROUP BY d ORDER BY d FORMAT RowBinary",
        db, db);
    int code = clickhouse_ask(c, str_from(sql), arena, &rows, e);
    *days = NULL;
    *n = 0;
    while (!code && rows.p < rows.end && !rows.bad) {
        *days = arena_push(arena, *days, *n, &cap, sizeof **days);
        (*days)[(*n)++] = (struct orphans){.day = row_u32(&rows)};
    }
    arena_try_end(arena);
    return code;
}

static int ask_orphans(struct clickhouse *c, struct orphans *o, struct err *e)
{
    const char *db = c->at.database;
    int code = 0;
    for (int i = 0; i < N_REFERENCES && !code; i++) {
        char sql[700];
        snprintf(sql, sizeof sql,
                 "SELECT count() FROM (SELECT tenant, %s AS i FROM %s.%s WHERE day = toDate(%u) "
                 "GROUP BY tenant, i) AS f WHERE (tenant, i) GLOBAL NOT IN (SELECT tenant, %s FROM "
                 "%s.%s WHERE day = toDate(%u)) FORMAT RowBinary",
                 references[i].id, db, references[i].from, o->day, references[i].key, db,
                 references[i].to, o->day);
        code = clickhouse_number(c, str_from(sql), &o->n[i], e);
    }
    return code;
}

struct telling {
    void (*found)(void *ctx, const char *text);
    void *ctx;
    struct err *e;
    bool wrong;
};

static void tell(struct telling *t, const char *text)
{
    t->found(t->ctx, text);
    err_set(t->e, "%s", text);
    t->wrong = true;
}

static void tell_differences(struct telling *t, const struct difference *first, size_t n,
                             const struct difference *then, size_t m)
{
    for (size_t i = 0, j = 0; i < n; i++) {
        char day[16], text[200];
        while (j < m && then[j].day < first[i].day)
            j++;
        if (j == m || then[j].day != first[i].day ||
            then[j].there - then[j].said != first[i].there - first[i].said)
            continue;
        clickhouse_day_text(first[i].day, day);
        snprintf(text, sizeof text,
                 "%s: its profiles say %llu rows of samples, there are %llu (or a server that was "
                 "stopped has some of them in its spool)",
                 day, (unsigned long long)then[j].said, (unsigned long long)then[j].there);
        tell(t, text);
    }
}

// Days on which there were orphans a while ago; others are left out.
static int tell_orphans(struct telling *t, struct clickhouse *c, struct orphans *days, size_t n)
{
    int code = 0;
    for (size_t i = 0; i < n && !code; i++) {
        struct orphans now = {.day = days[i].day};
        code = ask_orphans(c, &now, t->e);
        for (int j = 0; j < N_REFERENCES && !code; j++) {
            char day[16], text[200];
            if (!now.n[j] || !days[i].n[j])
                continue;
            clickhouse_day_text(now.day, day);
            snprintf(text, sizeof text,
                     "%s: rows of %s refer to %llu %s that are not in the table %s: no query shows "
                     "them",
                     day, references[j].from, (unsigned long long)now.n[j],
                     strcmp(references[j].key, "series") == 0  ? "series"
                     : strcmp(references[j].key, "stack") == 0 ? "stacks"
                                                               : "locations",
                     references[j].to);
            tell(t, text);
        }
    }
    return code;
}

int clickhouse_check(void *driver, void (*found)(void *ctx, const char *text), void *ctx,
                     struct err *e)
{
    struct clickhouse *c = driver;
    struct arena *arena = arena_new(0);
    struct difference *first = NULL, *then = NULL;
    struct orphans *days = NULL;
    size_t n = 0, m = 0, n_days = 0, n_orphans = 0;
    struct telling t = {found, ctx, e, false};
    int code = arena ? ask_differences(c, arena, &first, &n, e) : err_set(e, "no memory");
    if (!code)
        code = list_days(c, arena, &days, &n_days, e);
    for (size_t i = 0; i < n_days && !code; i++) {
        uint64_t sum = 0;
        code = ask_orphans(c, &days[i], e);
        for (int j = 0; j < N_REFERENCES; j++)
            sum += days[i].n[j];
        if (sum)
            days[n_orphans++] = days[i];
    }
    // Servers send samples before their profiles: what differs now may be under way.
    if (!code && (n || n_orphans)) {
        nanosleep(&(struct timespec){2, 0}, NULL);
        code = ask_differences(c, arena, &then, &m, e);
    }
    if (!code)
        tell_differences(&t, first, n, then, m);
    if (!code)
        code = tell_orphans(&t, c, days, n_orphans);
    if (!code && t.wrong)
        code = STORE_CORRUPT;
    arena_free(arena);
    return code;
}
