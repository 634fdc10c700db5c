// Sums the profiles of a service and day. Uses roll-ups that are entirely in the range and, if
// there are blocks, within one window.
#include "store/exact.h"
#include "store/matrix.h"
#include "store/sqlite_merge.h"

// Which rows of a block count.
enum keep {
    KEEP_IN_RANGE,
    KEEP_WHOLE_BUCKETS, // five-minute rows that are entirely in the range
    KEEP_REST,          // rows in the range that are not in such five minutes
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

static uint32_t merge_cell(const struct store_blocks *b, int64_t time, uint32_t group)
{
    return window_of(b, time) * (b->n_groups ? b->n_groups : 1) + group;
}

// Whether a roll-up that begins at start is within one window.
static bool is_one_window(const struct merging *m, int64_t start, int64_t length)
{
    return !m->blocks || window_of(m->blocks, start) == window_of(m->blocks, start + length - 1);
}

static bool uses_bucket(const struct merging *m, int64_t time)
{
    return whole_bucket(m->select, time) &&
           is_one_window(m, time - time % FIVE_MINUTES_NANOS, FIVE_MINUTES_NANOS);
}

static bool row_is_kept(const struct merging *m, enum keep keep, int64_t time)
{
    const struct store_select *s = m->select;
    if (keep == KEEP_WHOLE_BUCKETS)
        return uses_bucket(m, time);
    return time >= s->start && time <= s->end && !(keep == KEEP_REST && uses_bucket(m, time));
}

// Whether sample i has one of the selected spans or traces.
static bool sample_is_selected(const struct merging *m, const struct segment *s, uint32_t i)
{
    return m->select->n_spans ? span_set_has_span(&m->wanted, m->r.span[i])
                              : s->has_traces && span_set_has_trace(&m->wanted, m->r.trace[i]);
}

// Adds the reader's values to its sums by dictionary index.
static void sum_item(struct merging *m, const struct segment *s)
{
    const uint32_t *index = m->r.index;
    const int64_t *value = m->r.value;
    int64_t *sum = m->r.sum;
    bool all = !m->select->n_spans && !m->select->n_traces;
    arena_spend(m->arena, 1 + s->n / MERGE_ENTRIES_PER_STEP);
    if (m->gauge) {
        for (uint32_t i = 0; (all || s->has_spans) && i < s->n; i++)
            if (all || sample_is_selected(m, s, i))
                m->wide[index[i]] += value[i];
        return;
    }
    if (!all) {
        for (uint32_t i = 0; s->has_spans && i < s->n; i++)
            if (sample_is_selected(m, s, i))
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

// Prepares the event data of the next part.
static void begin_events(struct merging *m, const struct found *f)
{
    m->events = m->select->with_variance && !m->gauge ? &f->events : NULL;
    if (!m->events || m->events->is_weighed)
        return;
    m->way = variance_way(&m->ways, m->events);
    variance_use(&m->variance, m->way, m->arena);
}

static void sum_value(struct merging *m, uint32_t node, uint32_t cell, int64_t value)
{
    m->sums[node] = pack_add(m->sums[node], value);
    if (m->events && !m->events->is_weighed)
        m->variance.ways[m->way].values[node] += (double)value;
    if (!m->blocks)
        return;
    int64_t *blocks = m->block_sums + (size_t)node * m->n_blocks;
    uint32_t groups = m->blocks->n_groups;
    int64_t *window = &blocks[groups ? cell / groups : cell];
    *window = pack_add(*window, value);
    if (groups) {
        int64_t *group = &blocks[m->blocks->n_windows + cell % groups];
        *group = pack_add(*group, value);
    }
}

// Adds the sum of the related column.
static void add_beside(struct merging *m, uint32_t node, double sum)
{
    if (m->events->is_weighed)
        m->variance.known[node] += kind_variance(m->events, 0, sum);
    else
        m->variance.ways[m->way].beside[node] += sum;
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
            sum_value(m, nodes[i], cell, sum[i]);
    else
        for (uint32_t i = 0; i < s->n_dictionary; i++)
            m->sums[nodes[i]] = pack_add(m->sums[nodes[i]], sum[i]);
}

// Fills owner and counts the kept profiles.
static bool assign_owners(struct merging *m, struct points *p, enum keep keep, bool *any)
{
    m->n_rows = 0;
    while (points_next(p)) {
        const struct found *f = reader_found(m->found, m->n_found, p->series);
        const int64_t *counts = points_column(p, 1), *durations = points_column(p, 0);
        arena_spend(m->arena, 1 + p->n / MERGE_ENTRIES_PER_STEP);
        m->owner =
            block_scratch(&m->r, m->owner, m->n_rows + p->n, &m->cap_owner, sizeof *m->owner);
        if (m->blocks)
            m->cell =
                block_scratch(&m->r, m->cell, m->n_rows + p->n, &m->cap_cell, sizeof *m->cell);
        for (size_t i = 0; i < p->n; i++) {
            bool kept = f && f->k == p->k && row_is_kept(m, keep, p->times[i]);
            if (m->blocks)
                m->cell[m->n_rows] =
                    kept ? merge_cell(m->blocks, p->times[i], f->group) : MATRIX_NOBODY;
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
        sum_item(m, &s);
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
        sum_value(m, node, owner + m->one_cell, (int64_t)sum);
}

static void give_beside(void *ctx, uint32_t place, uint32_t owner, __int128 sum)
{
    struct merging *m = ctx;
    add_beside(m, m->r.dictionary[place], (double)sum);
}

// The owners by which the rows of a matrix are summed. NULL: all rows together, whose sums may be
// in the head.
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

// Sums the rows that count; reads the body if necessary.
static int merge_matrix(struct merging *m, const struct parts *p, size_t first, size_t n_kept,
                        struct err *e)
{
    struct matrix matrix;
    struct str bytes;
    const struct found *f = m->found;
    for (size_t i = 0; i < p->n_rows; i++)
        f = m->owner[first + i] == MATRIX_NOBODY ? f : &m->found[m->owner[first + i]];
    matrix_open(&matrix, &m->r, p->head, p->n_rows, m->n_nodes);
    if (matrix.bad || matrix.k != f->k)
        return body_damaged(&m->body, "the head of a matrix", e);
    begin_events(m, f);
    bool has_beside = m->events && m->events->has_other;
    const uint32_t *owners = sum_owners(m, first, p->n_rows, n_kept);
    // The related column is not split by blocks.
    const uint32_t *beside_owners = n_kept == p->n_rows ? NULL : owners;
    if (owners || !matrix_has_sums(&matrix, f->column) ||
        (has_beside && (beside_owners || !matrix_has_sums(&matrix, f->events.other)))) {
        int code = body_part(&m->body, p, &bytes, e);
        if (code)
            return code;
        if (!matrix_body(&matrix, bytes))
            return body_damaged(&m->body, "a matrix", e);
    }
    return matrix_sums(&matrix, f->column, owners, give_sum, m) &&
                   (!has_beside ||
                    matrix_sums(&matrix, f->events.other, beside_owners, give_beside, m))
               ? 0
               : body_damaged(&m->body, "a matrix", e);
}

static int merge_part(void *ctx, const struct parts *p, size_t first, struct err *e)
{
    struct merging *m = ctx;
    struct str bytes;
    size_t n_kept = 0;
    arena_check(m->arena);
    for (size_t i = 0; i < p->n_rows; i++)
        n_kept += m->owner[first + i] != MATRIX_NOBODY;
    if (!n_kept)
        return 0;
    // Matrices have no spans.
    if (!p->is_segment)
        return m->select->n_spans || m->select->n_traces ? 0 : merge_matrix(m, p, first, n_kept, e);
    int code = body_part(&m->body, p, &bytes, e);
    if (!code && !merge_segment(m, m->owner + first, m->blocks ? m->cell + first : NULL,
                                (size_t)p->n_rows, bytes))
        code = body_damaged(&m->body, "a segment", e);
    return code;
}

static int merge_block(struct merging *m, int64_t hour, enum level level, enum keep keep,
                       struct err *e)
{
    int code = 0;
    bool any = false;
    struct points p;
    struct block_at at = {m->found->service, hour, level};
    sqlite3_stmt *q = reader_block(m->reader, at, &code, e);
    if (!q)
        return code;
    points_open(&p, &m->r, db_blob(q, 0));
    if (!assign_owners(m, &p, keep, &any))
        code = reader_damaged(m->reader, &m->r, "the points", hour, e);
    else if (any)
        code = body_each_part(&m->body, at, db_blob(q, 1), m->n_rows, merge_part, m, e);
    sqlite3_reset(q);
    return code;
}

static int merge_hour(struct merging *m, int64_t hour, unsigned levels, struct err *e)
{
    const struct store_select *s = m->select;
    bool has_hour = levels & (1u << LEVEL_HOUR), has_five = levels & (1u << LEVEL_FIVE_MINUTES);
    bool whole = hour * HOUR_NANOS >= s->start && (hour + 1) * HOUR_NANOS - 1 <= s->end;
    if (s->n_spans || s->n_traces) // roll-ups have neither
        has_hour = has_five = false;
    if (whole && has_hour && is_one_window(m, hour * HOUR_NANOS, HOUR_NANOS))
        return merge_block(m, hour, LEVEL_HOUR, KEEP_IN_RANGE, e);
    if (!has_five)
        return merge_block(m, hour, LEVEL_RAW, KEEP_IN_RANGE, e);
    int code = merge_block(m, hour, LEVEL_FIVE_MINUTES, KEEP_WHOLE_BUCKETS, e);
    for (int64_t t = hour * HOUR_NANOS; whole && t < (hour + 1) * HOUR_NANOS;
         t += FIVE_MINUTES_NANOS)
        whole = uses_bucket(m, t);
    return code || whole ? code : merge_block(m, hour, LEVEL_RAW, KEEP_REST, e);
}

static int merge_fresh(struct merging *m, struct err *e)
{
    struct fresh fresh;
    int code = fresh_open(&fresh, m->reader, m->found->service, m->select, true, e);
    while (!code && fresh_next(&fresh)) {
        const struct found *f = reader_found(m->found, m->n_found, fresh.series);
        arena_spend(m->arena, 1);
        if (!f || !row_is_kept(m, KEEP_IN_RANGE, fresh.time))
            continue;
        uint32_t owner = (uint32_t)(f - m->found);
        uint32_t cell = m->blocks ? merge_cell(m->blocks, fresh.time, f->group) : 0;
        m->duration = pack_add(m->duration, fresh.duration);
        if (fresh.totals.bad || fresh.k != f->k || !merge_segment(m, &owner, &cell, 1, fresh.body))
            return reader_damaged(m->reader, &m->r, "a fresh profile", fresh.time / HOUR_NANOS, e);
        m->n_profiles++;
    }
    return code ? code : fresh_end(&fresh, e);
}

int merge_profiles(struct merging *m, struct err *e)
{
    unsigned levels[24];
    int code = reader_levels(m->reader, m->found->service, m->select, levels, e);
    for (int i = 0; i < 24 && !code; i++)
        if (levels[i])
            code = merge_hour(m, m->reader->number * 24 + i, levels[i], e);
    return code ? code : merge_fresh(m, e);
}
