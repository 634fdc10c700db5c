// Implements kiln server check: finds missing or extra rows, and dangling references.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "store/clickhouse.h"

// Runs a query whose columns are all UInt64. Returns the numbers row by row in arena.
static int query_number_rows(struct clickhouse *c, struct str sql, size_t columns,
                             struct arena *arena, uint64_t **numbers, size_t *n_rows, struct err *e)
{
    struct unpack rows;
    struct arena_trap trap;
    size_t cap = 0;
    *numbers = NULL;
    *n_rows = 0;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    int code = clickhouse_query(c, sql, arena, &rows, e);
    while (!code && rows.p < rows.end && !rows.bad) {
        *numbers = arena_push(arena, *numbers, *n_rows, &cap, sizeof **numbers);
        (*numbers)[(*n_rows)++] = row_u64(&rows);
    }
    code = clickhouse_rows_end(c, &rows, code, e);
    *n_rows /= columns;
    arena_try_end(arena);
    return code;
}

// A day whose profiles promise another number of samples than there are.
struct difference {
    uint64_t day, said, there; // rows of samples
};

static int query_differences(struct clickhouse *c, struct arena *arena, struct difference **found,
                             size_t *n, struct err *e)
{
    char sql[600];
    uint64_t *numbers;
    snprintf(sql, sizeof sql,
             "SELECT toUInt64(toUInt16(day)), sum(a) AS x, sum(b) AS y FROM (SELECT day, "
             "toUInt64(n) * own AS a, toUInt64(0) AS b FROM %s.profiles UNION ALL SELECT day, "
             "toUInt64(0) AS a, toUInt64(1) AS b FROM %s.samples) AS u GROUP BY day HAVING x != y "
             "ORDER BY day FORMAT RowBinary",
             c->at.database, c->at.database);
    int code = query_number_rows(c, str_from(sql), 3, arena, &numbers, n, e);
    *found = (struct difference *)numbers;
    return code;
}

static int list_checked_days(struct clickhouse *c, struct arena *arena, uint64_t **days, size_t *n,
                             struct err *e)
{
    char sql[400];
    snprintf(sql, sizeof sql,
             "SELECT toUInt64(toUInt16(day)) AS d FROM (SELECT day FROM %s.profiles GROUP BY day "
             "UNION ALL SELECT day FROM %s.samples GROUP BY day) AS u GROUP BY d ORDER BY d FORMAT "
             "RowBinary",
             c->at.database, c->at.database);
    return query_number_rows(c, str_from(sql), 1, arena, days, n, e);
}

// References between tables: rows of `from` have an id that must exist in `to`.
static const struct {
    const char *id, *from, *key, *to, *what;
} references[] = {
    {"series", "profiles", "series", "series", "series"},
    {"series", "samples", "series", "series", "series"},
    {"stack", "samples", "stack", "stacks", "stacks"},
    {"arrayJoin(locations)", "stacks", "location", "locations", "locations"},
};
enum { N_REFERENCES = sizeof references / sizeof *references };

struct orphans {
    uint64_t day;
    uint64_t n[N_REFERENCES]; // missing ids
    uint64_t doubles;         // numbers that two stacks share
};

static int query_orphans(struct clickhouse *c, struct orphans *o, struct err *e)
{
    const char *db = c->at.database;
    unsigned day = (unsigned)o->day;
    char sql[700];
    int code = 0;
    for (int i = 0; i < N_REFERENCES && !code; i++) {
        snprintf(sql, sizeof sql,
                 "SELECT count() FROM (SELECT tenant, %s AS i FROM %s.%s WHERE day = toDate(%u) "
                 "GROUP BY tenant, i) AS f WHERE (tenant, i) GLOBAL NOT IN (SELECT tenant, %s FROM "
                 "%s.%s WHERE day = toDate(%u)) FORMAT RowBinary",
                 references[i].id, db, references[i].from, day, references[i].key, db,
                 references[i].to, day);
        code = clickhouse_number(c, str_from(sql), NULL, &o->n[i], e);
    }
    snprintf(sql, sizeof sql,
             "SELECT count() FROM (SELECT tenant FROM %s.stacks WHERE day = toDate(%u) GROUP BY "
             "tenant, service, stack HAVING min(id) != max(id)) AS d FORMAT RowBinary",
             db, day);
    return code ? code : clickhouse_number(c, str_from(sql), NULL, &o->doubles, e);
}

struct defect_report {
    void (*found)(void *ctx, const char *text);
    void *ctx;
    struct err *e;
    bool wrong;
};

static void report_defect(struct defect_report *t, const char *text)
{
    t->found(t->ctx, text);
    err_set(t->e, "%s", text);
    t->wrong = true;
}

static void report_differences(struct defect_report *t, const struct difference *first, size_t n,
                               const struct difference *then, size_t m)
{
    for (size_t i = 0, j = 0; i < n; i++) {
        char day[16], text[200];
        while (j < m && then[j].day < first[i].day)
            j++;
        if (j == m || then[j].day != first[i].day ||
            then[j].there - then[j].said != first[i].there - first[i].said)
            continue;
        clickhouse_day_text((uint32_t)first[i].day, day);
        snprintf(text, sizeof text,
                 "%s: its profiles say %llu rows of samples, there are %llu (or a server that was "
                 "stopped has some of them in its spool)",
                 day, (unsigned long long)then[j].said, (unsigned long long)then[j].there);
        report_defect(t, text);
    }
}

// Reports dangling references of days that had some earlier and still have.
static int report_orphans(struct defect_report *t, struct clickhouse *c, struct orphans *days,
                          size_t n)
{
    int code = 0;
    for (size_t i = 0; i < n && !code; i++) {
        struct orphans now = {.day = days[i].day};
        char day[16], text[200];
        code = query_orphans(c, &now, t->e);
        clickhouse_day_text((uint32_t)now.day, day);
        for (int j = 0; j < N_REFERENCES && !code; j++) {
            if (!now.n[j] || !days[i].n[j])
                continue;
            snprintf(text, sizeof text,
                     "%s: rows of %s refer to %llu %s that are not in the table %s: no query shows "
                     "them",
                     day, references[j].from, (unsigned long long)now.n[j], references[j].what,
                     references[j].to);
            report_defect(t, text);
        }
        if (code || !now.doubles)
            continue;
        snprintf(text, sizeof text,
                 "%s: two stacks of a service have the same id, %llu times: queries mistake one "
                 "for the other",
                 day, (unsigned long long)now.doubles);
        report_defect(t, text);
    }
    return code;
}

int clickhouse_check(void *driver, void (*found)(void *ctx, const char *text), void *ctx,
                     struct err *e)
{
    struct clickhouse *c = driver;
    struct arena *arena = arena_new(0);
    struct difference *first = NULL, *then = NULL;
    struct orphans *orphans = NULL;
    uint64_t *days = NULL;
    size_t n = 0, m = 0, n_days = 0, n_orphans = 0;
    struct defect_report t = {found, ctx, e, false};
    int code = arena ? query_differences(c, arena, &first, &n, e) : err_set(e, "no memory");
    if (!code)
        code = list_checked_days(c, arena, &days, &n_days, e);
    if (!code && !(orphans = calloc(n_days + 1, sizeof *orphans)))
        code = err_set(e, "no memory");
    for (size_t i = 0; i < n_days && !code; i++) {
        struct orphans o = {.day = days[i]};
        code = query_orphans(c, &o, e);
        uint64_t sum = o.doubles;
        for (int j = 0; j < N_REFERENCES; j++)
            sum += o.n[j];
        if (sum)
            orphans[n_orphans++] = o;
    }
    // Servers send samples before their profiles: a difference now may be transient.
    if (!code && (n || n_orphans)) {
        nanosleep(&(struct timespec){2, 0}, NULL);
        code = query_differences(c, arena, &then, &m, e);
    }
    if (!code)
        report_differences(&t, first, n, then, m);
    if (!code)
        code = report_orphans(&t, c, orphans, n_orphans);
    if (!code && t.wrong)
        code = STORE_CORRUPT;
    free(orphans);
    arena_free(arena);
    return code;
}
