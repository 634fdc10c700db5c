// Counts the profiles of each series, the divisors of a gauge's means.
#include "store/sqlite_merge.h"

static bool is_in_range(const struct merging *m, int64_t time)
{
    return time >= m->select->start && time <= m->select->end;
}

static int count_blocks(struct merging *m, struct err *e)
{
    int code = 0, rc;
    sqlite3_stmt *q = db_prepare(&m->reader->db,
                                 "SELECT points, hour FROM block WHERE id BETWEEN ?1*128 AND "
                                 "?1*128+127 AND hour>=?2 AND hour<=?3 AND level=1",
                                 &code, e);
    if (!q)
        return code;
    reader_bind_range(q, m->found->service, m->select);
    while ((rc = sqlite3_step(q)) == SQLITE_ROW) {
        struct points p;
        points_open(&p, &m->r, db_blob(q, 0));
        while (points_next(&p)) {
            struct found *f = reader_found(m->found, m->n_found, p.series);
            arena_spend(m->arena, 1 + p.n / MERGE_ENTRIES_PER_STEP);
            for (size_t i = 0; f && i < p.n; i++)
                f->n += is_in_range(m, p.times[i]);
        }
        if (p.bad)
            return reader_damaged(m->reader, &m->r, "the points", sqlite3_column_int64(q, 1), e);
    }
    sqlite3_reset(q);
    return rc == SQLITE_DONE ? 0 : db_error(&m->reader->db, rc, "read", e);
}

static int count_fresh(struct merging *m, struct err *e)
{
    struct fresh fresh;
    int code = fresh_open(&fresh, m->reader, m->found->service, m->select, false, e);
    while (!code && fresh_next(&fresh)) {
        struct found *f = reader_found(m->found, m->n_found, fresh.series);
        arena_spend(m->arena, 1);
        if (f)
            f->n += is_in_range(m, fresh.time);
    }
    return code ? code : fresh_end(&fresh, e);
}

uint64_t *merge_count_of(struct merging *m, const struct store_series *s)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < s->n_labels; i++)
        hash = hash_bytes(s->labels[i].value.p, s->labels[i].value.n,
                          hash_bytes(s->labels[i].name.p, s->labels[i].name.n, hash));
    for (struct hash_probe at = hash_find(&m->counts, hash); hash_hit(&m->counts, &at);
         hash_next(&m->counts, &at))
        if (m->count_hash[at.item] == hash)
            return &m->count[at.item];
    m->count = arena_push(m->arena, m->count, m->n_counts, &m->cap_count, sizeof *m->count);
    m->count_hash =
        arena_push(m->arena, m->count_hash, m->n_counts, &m->cap_count_hash, sizeof *m->count_hash);
    m->count[m->n_counts] = 0;
    m->count_hash[m->n_counts] = hash;
    hash_add(&m->counts, m->arena, hash, (uint32_t)m->n_counts);
    return &m->count[m->n_counts++];
}

int merge_count_service(struct merging *m, struct err *e)
{
    int code = count_blocks(m, e);
    if (!code)
        code = count_fresh(m, e);
    for (size_t i = 0; i < m->n_found && !code; i++) {
        arena_spend(m->arena, 1 + m->found[i].series.n_labels);
        *merge_count_of(m, &m->found[i].series) += m->found[i].n;
    }
    return code;
}
