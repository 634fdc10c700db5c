#include <stdlib.h>

#include "store/exact.h"
#include "store/fold.h"
#include "store/matrix.h"
#include "store/span_set.h"
#include "store/sqlite.h"

struct merging {
    struct lite *lite;
    const struct store_select *select;
    struct span_set wanted;
    struct arena *arena;
    struct block_reader r;
    struct reader *reader;
    struct reader_symbols *symbols;
    struct db names;
    struct fold fold;
    bool gauge, counting, named;
    struct hash_table counts; // of a gauge: profiles of a series, over all days
    uint64_t *count_hash, *count;
    size_t n_counts, cap_count, cap_count_hash;
    uint64_t n_profiles;
    int64_t duration;
    // Of one service and day.
    struct found *found;
    size_t n_found;
    uint32_t n_nodes;
    int64_t *sums;
    __int128 *shares; // of a gauge's means
    __int128 *wide;   // of a gauge: sums of a segment's profiles, over its dictionary
    size_t cap_wide;
    // With with_variance, by node: squared weights in units of values; where those are not known,
    // values and what is beside them.
    double *weighed, *plain, *beside, *variance;
    size_t cap_weighed, cap_plain, cap_beside, cap_variance;
    const struct kind_events *events; // of the part that is being read; NULL: nobody asked
    struct kind_events plain_events;
    bool is_counted;
    const struct store_blocks *blocks; // NULL: none
    int64_t *block_sums;
    size_t cap_block_sums;
    uint32_t n_blocks;
    // Of one block: whose profile each row is, as a place in found; MATRIX_NOBODY: it does not
    // count.
    uint32_t *owner;
    uint32_t *cell;    // with blocks: the window and group of a row
    uint32_t one_cell; // of all rows of a matrix that are not told apart
    size_t n_rows, cap_owner, cap_cell;
    struct block_body body;
};

enum { ENTRIES_PER_STEP = 8 }; // of arena_spend

// Which profiles of a block count.
enum keep {
    KEEP_IN_RANGE,
    KEEP_WHOLE_BUCKETS, // five minutes that are in the range from end to end
    KEEP_REST,          // in the range, and in no such five minutes
};

static bool whole_bucket(const struct store_select *s, int64_t time)
{
    int64_t start = time - time % FIVE_MINUTES_NANOS;
    return start >= s->start && start + FIVE_MINUTES_NANOS - 1 <= s->end;
}

static uint32_t window_of(const struct store_blocks *b, int64_t time)
{
    int64_t window = time > b->origin ? (time - b->origin) / b->step : 0;
    return window < b->n_windows ? (uint32_t)window : b->n_windows - 1;
}

static uint32_t cell_of(const struct store_blocks *b, int64_t time, uint32_t group)
{
    return window_of(b, time) * (b->n_groups ? b->n_groups : 1) + group;
}

// Whether a roll-up from start on is of one window.
static bool is_one_window(const struct merging *m, int64_t start, int64_t length)
{
    return !m->blocks || window_of(m->blocks, start) == window_of(m->blocks, start + length - 1);
}

static bool takes_bucket(const struct merging *m, int64_t time)
{
    return whole_bucket(m->select, time) &&
           is_one_window(m, time - time % FIVE_MINUTES_NANOS, FIVE_MINUTES_NANOS);
}

static bool is_kept(const struct merging *m, enum keep keep, int64_t time)
{
    const struct store_select *s = m->select;
    if (keep == KEEP_WHOLE_BUCKETS)
        return takes_bucket(m, time);
    return time >= s->start && time <= s->end && !(keep == KEEP_REST && takes_bucket(m, time));
}

// Whether the sample at i is of one of the spans, or traces, that are asked for.
static bool is_wanted(const struct merging *m, const struct segment *s, uint32_t i)
{
    return m->select->n_spans ? span_set_has_span(&m->wanted, m->r.span[i])
                              : s->has_traces && span_set_has_trace(&m->wanted, m->r.trace[i]);
}

// Adds what the reader holds to its sums over the dictionary.
static void add_item(struct merging *m, const struct segment *s)
{
    const uint32_t *index = m->r.index;
    const int64_t *value = m->r.value;
    int64_t *sum = m->r.sum;
    bool all = !m->select->n_spans && !m->select->n_traces;
    arena_spend(m->arena, 1 + s->n / ENTRIES_PER_STEP);
    if (m->gauge) {
        for (uint32_t i = 0; (all || s->has_spans) && i < s->n; i++)
            if (all || is_wanted(m, s, i))
                m->wide[index[i]] += value[i];
        return;
    }
    if (!all) {
        for (uint32_t i = 0; s->has_spans && i < s->n; i++)
            if (is_wanted(m, s, i))
                sum[index[i]] = pack_add(sum[index[i]], value[i]);
        return;
    }
    for (uint32_t i = 0; i < s->n; i++)
        sum[index[i]] = pack_add(sum[index[i]], value[i]);
}

static void begin_sums(struct merging *m, const struct segment *s)
{
    size_t n = s->n_dictionary;
    if (m->gauge)
        m->wide = block_scratch(&m->r, m->wide, n, &m->cap_wide, sizeof *m->wide);
    else
        m->r.sum = block_scratch(&m->r, m->r.sum, n, &m->r.cap_sum, sizeof *m->r.sum);
    for (size_t i = 0; m->gauge && i < n; i++)
        m->wide[i] = 0;
    for (size_t i = 0; !m->gauge && i < n; i++)
        m->r.sum[i] = 0;
}

// What is known of the events of a part that is read next.
static void begin_events(struct merging *m, const struct found *f)
{
    m->events = m->weighed ? &f->events : NULL;
    if (!m->events || m->events->is_weighed)
        return;
    m->plain_events = *m->events;
}

static void add_value(struct merging *m, uint32_t node, uint32_t cell, int64_t value)
{
    m->sums[node] = pack_add(m->sums[node], value);
    if (m->events && !m->events->is_weighed)
        m->plain[node] += (double)value;
    if (!m->blocks)
        return;
    uint32_t groups = m->blocks->n_groups;
    int64_t *blocks = m->block_sums + (size_t)node * m->n_blocks;
    int64_t *window = &blocks[groups ? cell / groups : cell];
    *window = pack_add(*window, value);
    if (groups) {
        int64_t *group = &blocks[m->blocks->n_windows + cell % groups];
        *group = pack_add(*group, value);
    }
}

// Of the column beside the type's own.
static void add_beside(struct merging *m, uint32_t node, double sum)
{
    if (m->events->is_weighed)
        m->weighed[node] += kind_variance(m->events, 0, sum);
    else
        m->beside[node] += sum;
}

static void end_sums(struct merging *m, const struct segment *s, const struct found *f,
                     uint32_t cell, bool is_beside)
{
    const uint32_t *nodes = m->r.dictionary;
    const int64_t *sum = m->r.sum;
    if (m->gauge)
        for (uint32_t i = 0; i < s->n_dictionary; i++)
            m->shares[nodes[i]] += exact_share(m->wide[i], f->n);
    else if (is_beside)
        for (uint32_t i = 0; i < s->n_dictionary; i++)
            add_beside(m, nodes[i], (double)sum[i]);
    else if (m->events || m->blocks)
        for (uint32_t i = 0; i < s->n_dictionary; i++)
            add_value(m, nodes[i], cell, sum[i]);
    else
        for (uint32_t i = 0; i < s->n_dictionary; i++)
            m->sums[nodes[i]] = pack_add(m->sums[nodes[i]], sum[i]);
}

// Fills owner, and counts what is kept.
static bool own_rows(struct merging *m, struct points *p, enum keep keep, bool *any)
{
    m->n_rows = 0;
    while (points_next(p)) {
        const struct found *f = reader_found(m->found, m->n_found, p->series);
        const int64_t *counts = points_column(p, 1), *durations = points_column(p, 0);
        arena_spend(m->arena, 1 + p->n / ENTRIES_PER_STEP);
        m->owner =
            block_scratch(&m->r, m->owner, m->n_rows + p->n, &m->cap_owner, sizeof *m->owner);
        if (m->blocks)
            m->cell =
                block_scratch(&m->r, m->cell, m->n_rows + p->n, &m->cap_cell, sizeof *m->cell);
        for (size_t i = 0; i < p->n; i++) {
            bool kept = f && f->k == p->k && is_kept(m, keep, p->times[i]);
            if (m->blocks)
                m->cell[m->n_rows] =
                    kept ? cell_of(m->blocks, p->times[i], f->group) : MATRIX_NOBODY;
            m->owner[m->n_rows++] = kept ? (uint32_t)(f - m->found) : MATRIX_NOBODY;
            if (!kept)
                continue;
            m->n_profiles += (uint64_t)counts[i];
            m->duration = pack_add(m->duration, durations[i]);
            *any = true;
        }
    }
    return !p->bad;
}

static bool merge_column(struct merging *m, const struct found *f, const uint32_t *owner,
                         const uint32_t *cell, size_t n, struct str bytes, bool is_beside)
{
    struct segment s;
    uint32_t now = MATRIX_NOBODY;
    segment_open(&s, &m->r, bytes, f->k, m->n_nodes);
    if (s.bad)
        return false;
    begin_sums(m, &s);
    for (size_t i = 0; i < n; i++) {
        if (!segment_next(&s, is_beside ? f->events.other : f->column))
            return false;
        if (owner[i] == MATRIX_NOBODY)
            continue;
        if (cell && cell[i] != now && now != MATRIX_NOBODY) {
            end_sums(m, &s, f, now, is_beside);
            begin_sums(m, &s);
        }
        now = cell ? cell[i] : 0;
        add_item(m, &s);
    }
    end_sums(m, &s, f, now, is_beside);
    return true;
}

static bool merge_segment(struct merging *m, const uint32_t *owner, const uint32_t *cell, size_t n,
                          struct str bytes)
{
    const struct found *f = NULL;
    for (size_t i = 0; i < n && !f; i++)
        f = owner[i] == MATRIX_NOBODY ? NULL : &m->found[owner[i]];
    begin_events(m, f);
    return merge_column(m, f, owner, cell, n, bytes, false) &&
           (!m->events || !m->events->has_other || merge_column(m, f, owner, cell, n, bytes, true));
}

static void give_sum(void *ctx, uint32_t place, uint32_t owner, __int128 sum)
{
    struct merging *m = ctx;
    uint32_t node = m->r.dictionary[place];
    if (m->gauge)
        m->shares[node] += exact_share(sum, m->found[owner].n);
    else
        add_value(m, node, owner + m->one_cell, (int64_t)sum);
}

static void give_beside(void *ctx, uint32_t place, uint32_t owner, __int128 sum)
{
    struct merging *m = ctx;
    add_beside(m, m->r.dictionary[place], (double)sum);
}

// For whom the rows of a matrix are added up. NULL: all for one, which may be in its head.
static const uint32_t *sum_owners(struct merging *m, size_t first, size_t n, size_t n_kept)
{
    uint32_t *owner = m->owner + first;
    const uint32_t *cell = m->blocks ? m->cell + first : NULL;
    size_t same = 0;
    m->one_cell = 0;
    if (m->gauge)
        return owner;
    while (m->blocks && same < n && cell[same] == cell[0])
        same++;
    if (m->blocks && (same < n || n_kept < n))
        return cell;
    if (m->blocks)
        m->one_cell = cell[0];
    if (n_kept == n)
        return NULL;
    for (size_t i = 0; i < n; i++)
        owner[i] = owner[i] == MATRIX_NOBODY ? MATRIX_NOBODY : 0;
    return owner;
}

static int part_bytes(struct merging *m, const struct parts *p, int64_t hour, struct str *bytes,
                      struct err *e)
{
    int code = reader_part(&m->body, m->reader, &m->r, p, bytes, e);
    return code == STORE_CORRUPT ? reader_damaged(m->reader, &m->r, "a block", hour, e) : code;
}

// Those of its rows that count; the body is read if need be.
static int merge_part(struct merging *m, const struct parts *p, size_t first, int64_t hour,
                      struct err *e)
{
    int code = 0;
    struct str bytes;
    size_t n_kept = 0;
    const uint32_t *owner = m->owner + first;
    struct matrix matrix;
    arena_check(m->arena);
    for (size_t i = 0; i < p->n_rows; i++)
        n_kept += owner[i] != MATRIX_NOBODY;
    if (!n_kept)
        return 0;
    if (!p->is_segment) {
        // Matrices have no spans.
        if (m->select->n_spans || m->select->n_traces)
            return 0;
        const struct found *f = m->found;
        for (size_t i = 0; i < p->n_rows; i++)
            f = owner[i] == MATRIX_NOBODY ? f : &m->found[owner[i]];
        matrix_open(&matrix, &m->r, p->head, p->n_rows, m->n_nodes);
        if (matrix.bad || matrix.k != f->k)
            return reader_damaged(m->reader, &m->r, "the head of a matrix", hour, e);
        begin_events(m, f);
        bool has_beside = m->events && m->events->has_other;
        const uint32_t *owners = sum_owners(m, first, p->n_rows, n_kept);
        // What is beside is not split.
        const uint32_t *beside_owners = n_kept == p->n_rows ? NULL : owners;
        if (owners || !matrix_has_sums(&matrix, f->column) ||
            (has_beside && (beside_owners || !matrix_has_sums(&matrix, f->events.other)))) {
            code = part_bytes(m, p, hour, &bytes, e);
            if (code)
                return code;
            if (!matrix_body(&matrix, bytes))
                return reader_damaged(m->reader, &m->r, "a matrix", hour, e);
        }
        return matrix_sums(&matrix, f->column, owners, give_sum, m) &&
                       (!has_beside ||
                        matrix_sums(&matrix, f->events.other, beside_owners, give_beside, m))
                   ? 0
                   : reader_damaged(m->reader, &m->r, "a matrix", hour, e);
    }
    code = part_bytes(m, p, hour, &bytes, e);
    if (!code &&
        !merge_segment(m, owner, m->blocks ? m->cell + first : NULL, (size_t)p->n_rows, bytes))
        code = reader_damaged(m->reader, &m->r, "a segment", hour, e);
    return code;
}

static int merge_block(struct merging *m, int64_t hour, enum level level, enum keep keep,
                       struct err *e)
{
    int code = 0;
    bool any = false;
    sqlite3_stmt *q = reader_block(m->reader, BLOCK_ROWS, m->found->service, hour, level, &code, e);
    if (!q)
        return code;
    struct points p;
    struct parts parts;
    size_t at = 0;
    points_open(&p, &m->r, db_blob(q, 0));
    parts_open(&parts, db_blob(q, 1));
    if (!own_rows(m, &p, keep, &any))
        return reader_damaged(m->reader, &m->r, "the points", hour, e);
    reader_body(&m->body, m->found->service * 128 + hour % 24 * 4 + level, parts);
    while (any && !code && parts_next(&parts)) {
        if (parts.n_rows > m->n_rows - at)
            return reader_damaged(m->reader, &m->r, "the directory", hour, e);
        code = merge_part(m, &parts, at, hour, e);
        at += (size_t)parts.n_rows;
    }
    sqlite3_reset(q);
    reader_body_end(&m->body);
    return !code && any && (parts.bad || at != m->n_rows)
               ? reader_damaged(m->reader, &m->r, "the directory", hour, e)
               : code;
}

static int merge_hour(struct merging *m, int64_t hour, unsigned levels, struct err *e)
{
    const struct store_select *s = m->select;
    bool has_hour = levels & (1u << LEVEL_HOUR), has_five = levels & (1u << LEVEL_FIVE_MINUTES);
    bool whole = hour * HOUR_NANOS >= s->start && (hour + 1) * HOUR_NANOS - 1 <= s->end;
    if (s->n_spans || s->n_traces) // Roll-ups know nothing of them.
        has_hour = has_five = false;
    if (whole && has_hour && is_one_window(m, hour * HOUR_NANOS, HOUR_NANOS))
        return merge_block(m, hour, LEVEL_HOUR, KEEP_IN_RANGE, e);
    if (!has_five)
        return merge_block(m, hour, LEVEL_RAW, KEEP_IN_RANGE, e);
    int code = merge_block(m, hour, LEVEL_FIVE_MINUTES, KEEP_WHOLE_BUCKETS, e);
    for (int64_t t = hour * HOUR_NANOS; whole && t < (hour + 1) * HOUR_NANOS;
         t += FIVE_MINUTES_NANOS)
        whole = takes_bucket(m, t);
    return code || whole ? code : merge_block(m, hour, LEVEL_RAW, KEEP_REST, e);
}

static void bind_range(sqlite3_stmt *q, int64_t service, const struct store_select *select)
{
    sqlite3_bind_int64(q, 1, service);
    sqlite3_bind_int64(q, 2, select->start / HOUR_NANOS);
    sqlite3_bind_int64(q, 3, select->end / HOUR_NANOS);
}

static int merge_blocks(struct merging *m, struct err *e)
{
    int code = 0, rc = SQLITE_DONE;
    sqlite3_stmt *q = db_prepare(
        &m->reader->db,
        "SELECT hour, level FROM block WHERE id BETWEEN ?1*128 AND ?1*128+127 AND hour>=?2 AND "
        "hour<=?3 ORDER BY id",
        &code, e);
    if (!q)
        return code;
    bind_range(q, m->found->service, m->select);
    int64_t hour = -1;
    unsigned levels = 0;
    while (!code && (rc = sqlite3_step(q)) == SQLITE_ROW) {
        if (sqlite3_column_int64(q, 0) != hour && levels)
            code = merge_hour(m, hour, levels, e);
        if (sqlite3_column_int64(q, 0) != hour)
            levels = 0;
        hour = sqlite3_column_int64(q, 0);
        levels |= 1u << (sqlite3_column_int(q, 1) & 7);
    }
    if (!code && levels)
        code = merge_hour(m, hour, levels, e);
    if (!code && rc != SQLITE_DONE)
        code = db_error(&m->reader->db, rc, "read", e);
    sqlite3_reset(q);
    return code;
}

static const char FRESH[] = "SELECT series, time, head, body FROM fresh WHERE service=? AND "
                            "hour>=? AND hour<=?";

static int merge_fresh(struct merging *m, struct err *e)
{
    int code = 0, rc;
    sqlite3_stmt *q = db_prepare(&m->reader->db, FRESH, &code, e);
    if (!q)
        return code;
    bind_range(q, m->found->service, m->select);
    while ((rc = sqlite3_step(q)) == SQLITE_ROW) {
        int64_t time = sqlite3_column_int64(q, 1);
        const struct found *f = reader_found(m->found, m->n_found, sqlite3_column_int64(q, 0));
        arena_spend(m->arena, 1);
        if (!f || !is_kept(m, KEEP_IN_RANGE, time))
            continue;
        struct str head = db_blob(q, 2);
        struct unpack b = {(const uint8_t *)head.p, (const uint8_t *)head.p + head.n, false};
        uint64_t k = unpack_varint(&b);
        uint32_t owner = (uint32_t)(f - m->found);
        uint32_t cell = m->blocks ? cell_of(m->blocks, time, f->group) : 0;
        m->duration = pack_add(m->duration, unpack_signed(&b));
        if (b.bad || k != f->k || !merge_segment(m, &owner, &cell, 1, db_blob(q, 3)))
            return reader_damaged(m->reader, &m->r, "a fresh profile", time / HOUR_NANOS, e);
        m->n_profiles++;
    }
    sqlite3_reset(q);
    return rc == SQLITE_DONE ? 0 : db_error(&m->reader->db, rc, "read", e);
}

// How many profiles each series has in the range: what a mean is divided by.
static int count_profiles(struct merging *m, struct err *e)
{
    int code = 0, rc;
    sqlite3_stmt *q = db_prepare(&m->reader->db,
                                 "SELECT points, hour FROM block WHERE id BETWEEN ?1*128 AND "
                                 "?1*128+127 AND hour>=?2 AND hour<=?3 AND level=1",
                                 &code, e);
    if (!q)
        return code;
    bind_range(q, m->found->service, m->select);
    while ((rc = sqlite3_step(q)) == SQLITE_ROW) {
        struct points p;
        points_open(&p, &m->r, db_blob(q, 0));
        while (points_next(&p)) {
            struct found *f = reader_found(m->found, m->n_found, p.series);
            arena_spend(m->arena, 1 + p.n / ENTRIES_PER_STEP);
            for (size_t i = 0; f && i < p.n; i++)
                f->n += is_kept(m, KEEP_IN_RANGE, p.times[i]);
        }
        if (p.bad)
            return reader_damaged(m->reader, &m->r, "the points", sqlite3_column_int64(q, 1), e);
    }
    sqlite3_reset(q);
    if (rc == SQLITE_DONE && (q = db_prepare(&m->reader->db, FRESH, &code, e))) {
        bind_range(q, m->found->service, m->select);
        while ((rc = sqlite3_step(q)) == SQLITE_ROW) {
            struct found *f = reader_found(m->found, m->n_found, sqlite3_column_int64(q, 0));
            arena_spend(m->arena, 1);
            if (f)
                f->n += is_kept(m, KEEP_IN_RANGE, sqlite3_column_int64(q, 1));
        }
        sqlite3_reset(q);
    }
    return rc == SQLITE_DONE ? code : db_error(&m->reader->db, rc, "read", e);
}

// The number of profiles of the series with these labels, of all days.
static uint64_t *count_of(struct merging *m, const struct store_series *s)
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

static int count_service(struct merging *m, struct err *e)
{
    int code = count_profiles(m, e);
    for (size_t i = 0; i < m->n_found && !code; i++) {
        arena_spend(m->arena, 1 + m->found[i].series.n_labels);
        *count_of(m, &m->found[i].series) += m->found[i].n;
    }
    return code;
}

static void *zeroed(struct merging *m, void *items, size_t n, size_t *cap, size_t size)
{
    items = block_scratch(&m->r, items, n, cap, size);
    memset(items, 0, n * size);
    return items;
}

static void begin_service(struct merging *m)
{
    size_t n = m->n_nodes;
    if (m->gauge) {
        m->shares = arena_array(m->arena, n, sizeof *m->shares);
        return;
    }
    m->sums = arena_array(m->arena, n, sizeof *m->sums);
    if (m->select->with_variance) {
        m->weighed = zeroed(m, m->weighed, n, &m->cap_weighed, sizeof *m->weighed);
        m->plain = zeroed(m, m->plain, n, &m->cap_plain, sizeof *m->plain);
        m->beside = zeroed(m, m->beside, n, &m->cap_beside, sizeof *m->beside);
        m->variance = zeroed(m, m->variance, n, &m->cap_variance, sizeof *m->variance);
    }
    if (m->blocks)
        m->block_sums =
            zeroed(m, m->block_sums, n * m->n_blocks, &m->cap_block_sums, sizeof *m->block_sums);
}

static void end_service(struct merging *m, const struct symbols *s)
{
    if (m->gauge) {
        fold_add_shares(&m->fold, s, m->shares, m->n_nodes);
        return;
    }
    for (uint32_t i = 0; m->weighed && i < m->n_nodes; i++) {
        m->variance[i] = m->weighed[i];
        if (m->plain[i] == 0)
            continue;
        m->variance[i] += kind_variance(&m->plain_events, m->plain[i], m->beside[i]);
        m->is_counted |= !(m->plain_events.events.rate > 0);
    }
    fold_add(&m->fold, s, m->sums, m->variance, m->block_sums, m->n_nodes);
}

static int merge_service(struct merging *m, struct err *e)
{
    uint64_t n_profiles = m->n_profiles;
    int64_t duration = m->duration;
    int code =
        reader_symbols_take(m->lite, m->reader, m->found->service, m->r.zstd, &m->symbols, e);
    if (code)
        return code;
    const struct symbols *s = m->symbols->symbols;
    m->n_nodes = s->n.nodes;
    begin_service(m);
    for (size_t i = 0; m->gauge && i < m->n_found; i++)
        m->found[i].n = *count_of(m, &m->found[i].series);
    code = merge_blocks(m, e);
    if (!code)
        code = merge_fresh(m, e);
    if (!code) {
        end_service(m, s);
    } else {
        m->n_profiles = n_profiles;
        m->duration = duration;
    }
    reader_symbols_give(m->lite, m->symbols);
    m->symbols = NULL;
    return code;
}

static void name_type(struct merging *m, const struct found *f)
{
    struct model_builder *b = &m->fold.b;
    model_build_type(b, f->type, f->unit);
    b->p->period_type = (struct model_value_type){model_build_string(b, f->period_type),
                                                  model_build_string(b, f->period_unit)};
    b->p->period = f->period;
    m->named = true;
}

static int merge_day(struct merging *m, struct err *e)
{
    struct found *found;
    struct err why;
    size_t n = 0;
    int left_out = 0, code = reader_find(m->reader, m->select, m->arena, &found, &n, e);
    for (size_t at = 0, end; at < n && !code; at = end) {
        for (end = at; end < n && found[end].service == found[at].service; end++)
            ;
        m->found = found + at;
        m->n_found = end - at;
        if (!m->named)
            name_type(m, found + at);
        code = m->counting ? count_service(m, e) : merge_service(m, e);
        reader_body_end(&m->body);
        // A service that cannot be read is left out; the others of the day are not.
        if (code == STORE_CORRUPT) {
            left_out = code;
            why = *e;
            code = 0;
            db_reset(&m->reader->db);
        }
    }
    if (left_out && !code) {
        *e = why;
        code = left_out;
    }
    return code;
}

// Jumps are caught here; what is held is in *m and given back by the caller.
static int merge_guarded(struct merging *m, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(m->arena, trap)) {
        arena_caught(m->arena, e);
        return STORE_BUSY;
    }
    int code = merge_day(m, e);
    arena_try_end(m->arena);
    return code;
}

static int finish(struct merging *m, struct store_stacks **stacks, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(m->arena, trap)) {
        arena_caught(m->arena, e);
        return STORE_BUSY;
    }
    struct type_id id;
    struct store_stacks *s = arena_alloc(m->arena, sizeof *s);
    if (!m->named && type_id_parse(m->select->type, &id))
        name_type(m, &(struct found){.type = id.type,
                                     .unit = id.unit,
                                     .period_type = id.period_type,
                                     .period_unit = id.period_unit});
    fold_end(&m->fold);
    *s = (struct store_stacks){.n_nodes = m->fold.n,
                               .parent = m->fold.parent,
                               .location = m->fold.location,
                               .self = m->fold.self,
                               .symbols = m->fold.b.p,
                               .n_profiles = m->n_profiles,
                               .duration = m->duration,
                               .variance = m->fold.variance,
                               .is_counted = m->is_counted,
                               .blocks = m->fold.blocks,
                               .n_blocks = m->fold.n_blocks,
                               .n_windows = m->blocks ? m->blocks->n_windows : 0};
    *stacks = s;
    arena_try_end(m->arena);
    return 0;
}

static int begin_fold(struct merging *m, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(m->arena, trap)) {
        arena_caught(m->arena, e);
        return STORE_BUSY;
    }
    fold_init(&m->fold, m->arena, &m->names, m->gauge);
    m->fold.with_variance = m->select->with_variance && !m->gauge;
    m->fold.n_blocks = m->n_blocks;
    hash_init(&m->counts, m->arena, 64);
    span_set_init(&m->wanted, m->select, m->arena);
    arena_try_end(m->arena);
    return 0;
}

// Reads every day once; days that are damaged are left out.
static int each_day(struct merging *m, const int64_t *days, size_t n, struct store_answer *answer,
                    struct err *e)
{
    int code = 0;
    for (size_t i = 0; i < n && !code; i++) {
        code = reader_take(m->lite, m->select->tenant, days[i], &m->reader, e);
        if (!code && m->reader) {
            m->reader->budget = arena_budget(m->arena);
            code = merge_guarded(m, e);
        }
        reader_body_end(&m->body);
        if (m->symbols)
            reader_symbols_give(m->lite, m->symbols);
        if (m->reader)
            code = reader_give(m->lite, m->reader, code, e);
        m->symbols = NULL;
        m->reader = NULL;
        if (lite_is_unreadable(code)) {
            if (!m->counting)
                lite_leave_out(m->lite, code, days[i], answer, e);
            code = 0;
        }
    }
    return code;
}

int sqlite_merge(void *driver, const struct store_select *select, struct arena *arena,
                 struct store_stacks **stacks, struct store_answer *answer, struct err *e)
{
    struct merging m = {.lite = driver, .select = select, .arena = arena};
    int64_t *days;
    size_t n = 0;
    m.gauge = store_type_is_gauge(select->type);
    m.blocks = m.gauge ? NULL : select->blocks;
    m.n_blocks = m.blocks ? m.blocks->n_windows + m.blocks->n_groups : 0;
    int code = day_list(driver, select->tenant, select->start, select->end, arena, &days, &n, e);
    if (!code)
        code = block_reader_init(&m.r, arena, e);
    if (!code)
        code = names_open(driver, select->tenant, false, &m.names, e);
    if (!code)
        code = begin_fold(&m, e);
    if (!code && m.gauge) {
        m.counting = true;
        code = each_day(&m, days, n, answer, e);
        m.counting = false;
    }
    if (!code)
        code = each_day(&m, days, n, answer, e);
    if (!code)
        code = finish(&m, stacks, e);
    block_reader_fini(&m.r);
    if (m.names.handle)
        db_close(&m.names);
    return code;
}
