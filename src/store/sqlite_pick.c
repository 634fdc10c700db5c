// Sums the stacks of a filter over time, one service and day at a time. The points of an hour show
// on which step each profile falls. A row of a roll-up is used if all its profiles fall on one
// step; otherwise the profiles themselves are read. So the result is exact for any step, and reads
// little if steps are whole multiples of five minutes or hours.
#include "store/matrix.h"
#include "store/pick.h"
#include "store/sqlite.h"

enum { ROWS_PER_STEP = 8, FIVES = 12 }; // ROWS_PER_STEP: arena_spend steps

// Where the profiles of a series fall, within an hour or five minutes.
struct placement {
    enum { NOWHERE, ON_ONE, APART } on;
    uint32_t cell; // ON_ONE: the cell
};

struct picked_series {
    struct placement hour, fives[FIVES];
    uint32_t last; // the cell of its last profile, plus one
};

struct pick_row {
    int64_t total;
    uint32_t cell; // or MATRIX_NOBODY
    uint32_t series;
    uint8_t five;
};

// Classes of a matrix's nodes, for matrix_runs.
enum { OTHERS, THROUGH, ENDS, N_CLASSES };

// --- cells ---

// The cell of a profile; MATRIX_NOBODY: out of range.
static uint32_t profile_cell(struct picker *p, struct found *f, int64_t time)
{
    if (p->select->filter->join_lines)
        f = p->found;
    if (time < p->select->start || time > p->select->end)
        return MATRIX_NOBODY;
    struct picked_series *s = &p->series[f - p->found];
    int64_t index = exact_index(p->select->start, p->step, time);
    if (s->last && p->cells[s->last - 1].point.index == index)
        return s->last - 1;
    p->cells = arena_push(p->arena, p->cells, p->n_cells, &p->cap_cells, sizeof *p->cells);
    p->cells[p->n_cells] = (struct picked_cell){f, {.index = index}};
    s->last = (uint32_t)++p->n_cells;
    return s->last - 1;
}

static void record_placement(struct placement *f, uint32_t cell)
{
    if (f->on == NOWHERE && cell != MATRIX_NOBODY)
        *f = (struct placement){ON_ONE, cell};
    else if (f->on != ON_ONE || f->cell != cell)
        f->on = APART;
}

// Sums up totals and counts of the hour's profiles, and determines where they fall.
static int place_profiles(struct picker *p, int64_t hour, bool *any, struct err *e)
{
    int code = 0;
    struct points points;
    *any = false;
    p->n_rows = 0;
    for (size_t i = 0; i < p->n_found; i++)
        p->series[i] = (struct picked_series){.last = p->series[i].last};
    struct block_at at = {p->found->service, hour, LEVEL_RAW};
    sqlite3_stmt *q = reader_block(p->reader, at, &code, e);
    if (!q)
        return code;
    points_open(&points, p->r, db_blob(q, 0));
    while (points_next(&points)) {
        struct found *f = reader_found(p->found, p->n_found, points.series);
        const int64_t *totals =
            f && f->k == points.k ? points_column(&points, 2 + f->column) : NULL;
        arena_spend(p->arena, 1 + points.n / ROWS_PER_STEP);
        p->rows = block_scratch(p->r, p->rows, p->n_rows + points.n, &p->cap_rows, sizeof *p->rows);
        for (size_t i = 0; i < points.n; i++) {
            int64_t time = points.times[i];
            struct pick_row *row = &p->rows[p->n_rows++];
            *row =
                (struct pick_row){.cell = MATRIX_NOBODY,
                                  .five = (uint8_t)((uint64_t)time / FIVE_MINUTES_NANOS % FIVES)};
            if (!totals)
                continue;
            row->total = totals[i];
            row->series = (uint32_t)(f - p->found);
            row->cell = profile_cell(p, f, time);
            struct picked_series *s = &p->series[f - p->found];
            record_placement(&s->hour, row->cell);
            record_placement(&s->fives[row->five], row->cell);
            if (row->cell == MATRIX_NOBODY)
                continue;
            p->cells[row->cell].point.sum += totals[i];
            p->cells[row->cell].point.n++;
            *any = true;
        }
    }
    sqlite3_reset(q);
    return points.bad ? reader_damaged(p->reader, p->r, "the points", hour, e) : 0;
}

// --- values ---

static void add_picked_value(struct picker *p, uint32_t node, uint32_t cell, __int128 value)
{
    struct exact_point *point = &p->cells[cell].point;
    point->total += value;
    if (p->picks[node] & PICK_SELF)
        point->self += value;
}

static void add_segment_row(struct picker *p, const struct segment *s, uint32_t cell)
{
    const struct block_reader *r = p->r;
    arena_spend(p->arena, 1 + s->n / ROWS_PER_STEP);
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t node = r->dictionary[r->index[i]];
        if (p->picks[node])
            add_picked_value(p, node, cell, r->value[i]);
    }
}

static bool pick_segment(struct picker *p, const struct found *f, const struct pick_owner *owner,
                         size_t n, struct str bytes)
{
    struct segment s;
    segment_open(&s, p->r, bytes, f->k, p->n_nodes);
    for (size_t i = 0; i < n && !s.bad; i++) {
        if (!segment_next(&s, f->column))
            return false;
        if (owner[i].cell != MATRIX_NOBODY)
            add_segment_row(p, &s, owner[i].cell);
    }
    return !s.bad;
}

// Classifies the nodes of a matrix. If most entries belong to selected nodes, the other nodes are
// read instead (*inverted), and the result is the rows' totals minus those. Returns whether any
// node is selected.
static bool classify_nodes(struct picker *p, const struct matrix *m, bool may_invert,
                           bool *inverted)
{
    uint64_t n_picked = 0, n_read = 0;
    p->classes = block_scratch(p->r, p->classes, m->n_nodes, &p->cap_classes, sizeof *p->classes);
    for (uint32_t i = 0; i < m->n_nodes; i++) {
        uint8_t picks = p->picks[p->r->dictionary[i]];
        p->classes[i] = picks & PICK_SELF ? ENDS : picks ? THROUGH : OTHERS;
        n_picked += picks ? m->count[i] : 0;
        n_read += picks & PICK_SELF || !picks ? m->count[i] : 0;
    }
    *inverted = may_invert && n_read < n_picked;
    for (uint32_t i = 0; *inverted && i < m->n_nodes; i++)
        p->classes[i] = p->classes[i] == OTHERS    ? THROUGH
                        : p->classes[i] == THROUGH ? OTHERS
                                                   : ENDS;
    arena_spend(p->arena, m->n_nodes / ROWS_PER_STEP);
    return n_picked;
}

// Larger sums may have wrapped around, so totals cannot be trusted.
#define MOST_TOTAL (INT64_C(1) << 55)

// Builds runs of consecutive rows with the same cell. Run 0: rows that do not count.
static uint32_t make_runs(struct picker *p, size_t first, size_t n, bool *may_invert)
{
    uint32_t n_runs = 1;
    p->run = block_scratch(p->r, p->run, n, &p->cap_run, sizeof *p->run);
    p->run_cell = block_scratch(p->r, p->run_cell, n + 1, &p->cap_run_cell, sizeof *p->run_cell);
    for (size_t i = 0; i < n; i++) {
        const struct pick_owner *o = &p->owner[first + i];
        *may_invert &= o->total >= 0 && o->total <= MOST_TOTAL;
        if (o->cell == MATRIX_NOBODY) {
            p->run[i] = 0;
            continue;
        }
        if (!i || o[-1].cell != o->cell)
            p->run_cell[n_runs++] = o->cell;
        p->run[i] = n_runs - 1;
    }
    for (int k = 0; k < N_CLASSES; k++) {
        p->sums[k] = block_scratch(p->r, p->sums[k], n_runs, &p->cap_sums[k], sizeof **p->sums);
        for (uint32_t i = 0; i < n_runs; i++)
            p->sums[k][i] = 0;
    }
    return n_runs;
}

static int pick_matrix(struct picker *p, const struct parts *part, const struct found *f,
                       size_t first, struct err *e)
{
    struct matrix m;
    struct str bytes;
    size_t n = (size_t)part->n_rows;
    bool inverted, may_invert = true;
    matrix_open(&m, p->r, part->head, part->n_rows, p->n_nodes);
    if (m.bad || m.k != f->k)
        return body_damaged(&p->body, "the head of a matrix", e);
    uint32_t n_runs = make_runs(p, first, n, &may_invert);
    if (!classify_nodes(p, &m, may_invert, &inverted))
        return 0;
    // All rows belong to one cell.
    bool one = n_runs == 2 && p->run[0] && p->run[n - 1] && p->n_nobody == 0;
    if (!one || !matrix_has_sums(&m, f->column)) {
        int code = body_part(&p->body, part, &bytes, e);
        if (code)
            return code;
        if (!matrix_body(&m, bytes))
            return body_damaged(&p->body, "a matrix", e);
    }
    if (!matrix_runs(&m, f->column, p->classes, one ? NULL : p->run, n_runs, p->sums, N_CLASSES))
        return body_damaged(&p->body, "a matrix", e);
    for (size_t i = 0; i < n && inverted; i++)
        if (p->run[i])
            p->cells[p->owner[first + i].cell].point.total += p->owner[first + i].total;
    for (uint32_t i = one ? 0 : 1; i < (one ? 1 : n_runs); i++) {
        struct exact_point *point = &p->cells[p->run_cell[one ? 1 : i]].point;
        point->total += inverted ? -p->sums[THROUGH][i] : p->sums[THROUGH][i] + p->sums[ENDS][i];
        point->self += p->sums[ENDS][i];
    }
    return 0;
}

static int pick_part(void *ctx, const struct parts *part, size_t first, struct err *e)
{
    struct picker *p = ctx;
    const struct found *f = NULL;
    struct str bytes;
    arena_check(p->arena);
    p->n_nobody = 0;
    for (size_t i = 0; i < part->n_rows; i++) {
        uint32_t cell = p->owner[first + i].cell;
        p->n_nobody += cell == MATRIX_NOBODY;
        f = cell == MATRIX_NOBODY ? f : &p->found[p->owner[first + i].series];
    }
    if (!f || !part->is_segment)
        return f ? pick_matrix(p, part, f, first, e) : 0;
    int code = body_part(&p->body, part, &bytes, e);
    if (!code && !pick_segment(p, f, p->owner + first, (size_t)part->n_rows, bytes))
        code = body_damaged(&p->body, "a segment", e);
    return code;
}

// Decides which rows of a level are used: those not covered by a level above.
static void assign_rollup_owners(struct picker *p, struct points *points, enum level level,
                                 bool has_hour)
{
    while (points_next(points)) {
        struct found *f = reader_found(p->found, p->n_found, points->series);
        const struct picked_series *s = f && f->k == points->k ? &p->series[f - p->found] : NULL;
        const int64_t *totals = s ? points_column(points, 2 + f->column) : NULL;
        arena_spend(p->arena, 1 + points->n / ROWS_PER_STEP);
        p->owner =
            block_scratch(p->r, p->owner, p->n_owner + points->n, &p->cap_owner, sizeof *p->owner);
        for (size_t i = 0; i < points->n; i++) {
            const struct placement *at = NULL;
            if (s && level == LEVEL_HOUR)
                at = &s->hour;
            else if (s && !(has_hour && s->hour.on == ON_ONE))
                at = &s->fives[(uint64_t)points->times[i] / FIVE_MINUTES_NANOS % FIVES];
            p->owner[p->n_owner++] =
                at && at->on == ON_ONE && totals
                    ? (struct pick_owner){totals[i], at->cell, (uint32_t)(f - p->found)}
                    : (struct pick_owner){0, MATRIX_NOBODY, 0};
        }
    }
}

static void assign_raw_owners(struct picker *p, bool has_hour, bool has_five)
{
    p->owner = block_scratch(p->r, p->owner, p->n_rows, &p->cap_owner, sizeof *p->owner);
    arena_spend(p->arena, p->n_rows / ROWS_PER_STEP);
    for (; p->n_owner < p->n_rows; p->n_owner++) {
        const struct pick_row *row = &p->rows[p->n_owner];
        uint32_t cell = row->cell;
        if (cell != MATRIX_NOBODY) {
            const struct picked_series *s = &p->series[row->series];
            if ((has_hour && s->hour.on == ON_ONE) ||
                (has_five && s->fives[row->five].on == ON_ONE))
                cell = MATRIX_NOBODY;
        }
        p->owner[p->n_owner] = (struct pick_owner){row->total, cell, row->series};
    }
}

static int pick_level(struct picker *p, int64_t hour, enum level level, bool has_hour,
                      bool has_five, struct err *e)
{
    int code = 0;
    bool any = false;
    struct points points;
    struct block_at at = {p->found->service, hour, level};
    sqlite3_stmt *q = reader_block(p->reader, at, &code, e);
    if (!q)
        return code;
    p->n_owner = 0;
    if (level == LEVEL_RAW) {
        assign_raw_owners(p, has_hour, has_five);
    } else {
        points_open(&points, p->r, db_blob(q, 0));
        assign_rollup_owners(p, &points, level, has_hour);
        if (points.bad)
            code = reader_damaged(p->reader, p->r, "the points", hour, e);
    }
    for (size_t i = 0; i < p->n_owner && !any; i++)
        any = p->owner[i].cell != MATRIX_NOBODY;
    if (!code && any)
        code = body_each_part(&p->body, at, db_blob(q, 1), p->n_owner, pick_part, p, e);
    sqlite3_reset(q);
    return code;
}

static int pick_hour(struct picker *p, int64_t hour, unsigned levels, struct err *e)
{
    bool has_hour = levels & (1u << LEVEL_HOUR), has_five = levels & (1u << LEVEL_FIVE_MINUTES);
    bool any, hours_left = !has_hour, fives_left = !has_five;
    int code = place_profiles(p, hour, &any, e);
    if (code || !any || !p->picks)
        return code;
    // What is left for the levels below.
    for (size_t i = 0; i < p->n_found; i++) {
        const struct picked_series *s = &p->series[i];
        if (has_hour && s->hour.on != APART)
            continue;
        hours_left |= s->hour.on == APART;
        for (int k = 0; k < FIVES; k++)
            fives_left |= s->fives[k].on == APART;
    }
    arena_spend(p->arena, p->n_found);
    if (has_hour)
        code = pick_level(p, hour, LEVEL_HOUR, false, false, e);
    if (!code && has_five && hours_left)
        code = pick_level(p, hour, LEVEL_FIVE_MINUTES, has_hour, false, e);
    if (!code && hours_left && fives_left)
        code = pick_level(p, hour, LEVEL_RAW, has_hour, has_five, e);
    return code;
}

static int pick_fresh(struct picker *p, struct err *e)
{
    struct fresh fresh;
    int code = fresh_open(&fresh, p->reader, p->found->service, p->select, p->picks != NULL, e);
    while (!code && fresh_next(&fresh)) {
        struct found *f = reader_found(p->found, p->n_found, fresh.series);
        uint32_t cell = f ? profile_cell(p, f, fresh.time) : MATRIX_NOBODY;
        int64_t total = 0;
        arena_spend(p->arena, 1);
        if (cell == MATRIX_NOBODY)
            continue;
        struct segment s;
        bool bad = fresh.k != f->k || !fresh_total(&fresh, f->column, &total);
        if (!bad && p->picks) {
            segment_open(&s, p->r, fresh.body, f->k, p->n_nodes);
            bad = s.bad || !segment_next(&s, f->column);
        }
        if (bad)
            return reader_damaged(p->reader, p->r, "a fresh profile", fresh.time / HOUR_NANOS, e);
        p->cells[cell].point.sum += total;
        p->cells[cell].point.n++;
        if (p->picks)
            add_segment_row(p, &s, cell);
    }
    return code ? code : fresh_end(&fresh, e);
}

int picker_service(struct picker *p, struct reader *reader, struct found *found, size_t n_found,
                   struct err *e)
{
    unsigned levels[24];
    p->reader = p->body.reader = reader;
    p->body.r = p->r;
    p->found = found;
    p->n_found = n_found;
    p->n_cells = 0;
    int code = reader_symbols_take(p->lite, reader, found->service, p->r->zstd, &p->symbols, e);
    if (code)
        return code;
    p->n_nodes = p->symbols->symbols->n.nodes;
    p->picks = pick_nodes(p->select->filter, p->symbols->symbols, &p->names, p->arena);
    p->series = arena_array(p->arena, n_found, sizeof *p->series);
    code = reader_levels(reader, found->service, p->select, levels, e);
    for (int i = 0; i < 24 && !code; i++)
        if (levels[i])
            code = pick_hour(p, reader->number * 24 + i, levels[i], e);
    if (!code)
        code = pick_fresh(p, e);
    picker_release(p);
    return code;
}

void picker_release(struct picker *p)
{
    body_end(&p->body);
    if (p->symbols)
        reader_symbols_give(p->lite, p->reader, p->symbols);
    p->symbols = NULL;
}
