// Puts that two servers stored at the same time: a client that retries through another server may
// be so fast that neither finds the other's rows when it decides what to send. After its rows are
// stored each server looks again, and the one that looks last sees all of them: of the batches that
// have the put, the one with the least number counts, those of the others become void. Nothing is
// ever taken back, so whoever sees whatever part of it voids only what is void in the end.
#include <stdlib.h>
#include <time.h>

#include "store/clickhouse.h"

// For so long nobody asks again when there were none.
#define NONE_NANOS (INT64_C(1) * 1000000000)

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void put_void(struct out *rows, uint16_t day, const struct void_put *v)
{
    out_write(rows, &day, sizeof day);
    out_write(rows, &v->series, sizeof v->series);
    out_write(rows, &v->ts, sizeof v->ts);
    out_write(rows, &v->batch, sizeof v->batch);
}

static int sent_order(const void *a, const void *b)
{
    const struct sent_id *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

int voids_write(struct clickhouse *c, uint16_t day, struct unpack *found, struct sent_id *sent,
                size_t n, uint64_t batch, struct arena *arena, uint64_t *own, struct err *e)
{
    struct out rows;
    out_init_arena(&rows, arena);
    if (n)
        qsort(sent, n, sizeof *sent, sent_order);
    while (found->p < found->end && !found->bad) {
        struct sent_id key = {.id = row_u64(found)};
        const struct sent_id *of = n ? bsearch(&key, sent, n, sizeof key, sent_order) : NULL;
        size_t n_batches = unpack_count(found);
        uint64_t *batches = arena_array(arena, n_batches, sizeof *batches);
        for (size_t i = 0; i < n_batches; i++)
            batches[i] = row_u64(found);
        n_batches = sql_distinct(batches, n_batches);
        for (size_t i = 1; i < n_batches && of && !found->bad; i++) {
            put_void(&rows, day, &(struct void_put){of->series, of->ts, batches[i]});
            *own += batches[i] == batch;
        }
    }
    return rows.n ? clickhouse_insert(c, "voids", "", out_result(&rows), e) : 0;
}

int voids_ask(struct clickhouse *c, uint32_t first_day, uint32_t last_day, struct arena *arena,
              struct void_put **voids, size_t *n, struct err *e)
{
    struct unpack rows;
    *voids = NULL;
    *n = 0;
    pthread_mutex_lock(&c->lock);
    bool none = c->no_voids_until > now();
    pthread_mutex_unlock(&c->lock);
    if (none)
        return 0;
    // All days at once: there are hardly ever any.
    char *sql = arena_printf(arena,
                             "SELECT toUInt32(toUInt16(day)) AS d, series, ts, batch FROM %s.voids "
                             "GROUP BY d, series, ts, batch FORMAT RowBinary",
                             c->at.database);
    int64_t asked = now();
    int code = clickhouse_ask(c, str_from(sql), arena, &rows, e);
    if (code)
        return code;
    pthread_mutex_lock(&c->lock);
    c->no_voids_until = rows.p == rows.end ? asked + NONE_NANOS : 0;
    pthread_mutex_unlock(&c->lock);
    for (size_t cap = 0; rows.p < rows.end && !rows.bad;) {
        uint32_t day = row_u32(&rows);
        struct void_put v = {.series = row_u64(&rows)};
        v.ts = (int64_t)row_u64(&rows);
        v.batch = row_u64(&rows);
        if (day < first_day || day > last_day)
            continue;
        *voids = arena_push(arena, *voids, *n, &cap, sizeof **voids);
        (*voids)[(*n)++] = v;
    }
    return 0;
}
