#include "base/sort.h"
#include "store/exact.h"
#include "store/sqlite.h"

// Series and their points. Each point of the select is visited once.
struct scan {
    struct lite *lite;
    const struct store_select *select;
    struct arena *arena;
    struct block_reader r;
    struct reader *reader;
    struct found *found; // of one service
    size_t n_found;
    // Collects lines; step 0: only whether there is a point.
    int64_t step;
    struct line {
        struct store_series series;
        struct exact_line points;
    } * lines;
    size_t n_lines, cap_lines;
    struct hash_table index;
    struct picker picker; // of a select with a filter
};

enum { POINTS_PER_STEP = 8 }; // arena_spend steps

static struct line *find_or_add_line(struct scan *s, struct found *f)
{
    if (f->line)
        return &s->lines[f->line - 1];
    uint64_t hash = 0;
    const struct store_series *series = &f->series;
    for (size_t i = 0; i < series->n_labels; i++)
        hash = hash_bytes(series->labels[i].value.p, series->labels[i].value.n,
                          hash_bytes(series->labels[i].name.p, series->labels[i].name.n, hash));
    for (struct hash_probe at = hash_find(&s->index, hash); hash_hit(&s->index, &at);
         hash_next(&s->index, &at)) {
        const struct store_series *other = &s->lines[at.item].series;
        if (labels_compare(series->labels, series->n_labels, other->labels, other->n_labels) == 0) {
            f->line = at.item + 1;
            return &s->lines[at.item];
        }
    }
    s->lines = arena_push(s->arena, s->lines, s->n_lines, &s->cap_lines, sizeof *s->lines);
    s->lines[s->n_lines] = (struct line){.series = *series};
    hash_add(&s->index, s->arena, hash, (uint32_t)s->n_lines);
    f->line = ++s->n_lines;
    return &s->lines[f->line - 1];
}

static void add_series_point(struct scan *s, struct found *f, int64_t time, int64_t value)
{
    if (time < s->select->start || time > s->select->end)
        return;
    struct line *line = find_or_add_line(s, f);
    if (!s->step)
        return;
    int64_t index = exact_index(s->select->start, s->step, time);
    exact_add(&line->points, s->arena, (struct exact_point){.index = index, .sum = value, .n = 1});
}

// Returns the columns of a series, which are adjacent in found.
static struct found *find_series_columns(struct scan *s, int64_t series, struct found **end)
{
    struct found *f = reader_found(s->found, s->n_found, series);
    if (!f)
        return NULL;
    struct found *last = s->found + s->n_found;
    while (f > s->found && f[-1].id == series)
        f--;
    for (*end = f; *end < last && (*end)->id == series;)
        (*end)++;
    return f;
}

static int scan_blocks(struct scan *s, struct err *e)
{
    int code = 0, rc;
    sqlite3_stmt *q =
        db_prepare(&s->reader->db,
                   "SELECT points FROM block WHERE id BETWEEN ?1*128 AND ?1*128+127 AND "
                   "hour>=?2 AND hour<=?3 AND level=1 ORDER BY id",
                   &code, e);
    if (!q)
        return code;
    reader_bind_range(q, s->found->service, s->select);
    while ((rc = sqlite3_step(q)) == SQLITE_ROW) {
        struct found *f, *end = NULL;
        struct points p;
        points_open(&p, &s->r, db_blob(q, 0));
        while (points_next(&p)) {
            arena_spend(s->arena, 1 + p.n / POINTS_PER_STEP);
            for (f = find_series_columns(s, p.series, &end); f && f < end; f++) {
                const int64_t *totals = p.k == f->k ? points_column(&p, 2 + f->column) : NULL;
                for (size_t i = 0; totals && i < p.n; i++)
                    add_series_point(s, f, p.times[i], totals[i]);
            }
        }
        if (p.bad)
            return reader_damaged(s->reader, &s->r, "the points of an hour", -1, e);
    }
    sqlite3_reset(q);
    return rc == SQLITE_DONE ? 0 : db_error(&s->reader->db, rc, "read", e);
}

static int scan_service(struct scan *s, struct err *e)
{
    struct fresh fresh;
    int code = scan_blocks(s, e);
    if (!code)
        code = fresh_open(&fresh, s->reader, s->found->service, s->select, false, e);
    while (!code && fresh_next(&fresh)) {
        struct found *end = NULL;
        arena_spend(s->arena, 1);
        for (struct found *f = find_series_columns(s, fresh.series, &end); f && f < end; f++) {
            int64_t total = 0;
            if (fresh.k != f->k || !fresh_total(&fresh, f->column, &total))
                return reader_damaged(s->reader, &s->r, "a fresh profile", -1, e);
            add_series_point(s, f, fresh.time, total);
        }
    }
    return code ? code : fresh_end(&fresh, e);
}

// Adds a whole service or, on failure, nothing.
static int scan_picked(struct scan *s, struct err *e)
{
    struct picker *p = &s->picker;
    int code = picker_service(p, s->reader, s->found, s->n_found, e);
    for (size_t i = 0; i < p->n_cells && !code; i++) {
        arena_spend(s->arena, 1);
        exact_add(&find_or_add_line(s, p->cells[i].found)->points, s->arena, p->cells[i].point);
    }
    return code;
}

static int scan_day(struct scan *s, int64_t day, struct err *e)
{
    struct found *found;
    struct err why;
    size_t n = 0;
    int left_out = 0, code = reader_find(s->reader, s->select, s->arena, &found, &n, e);
    // A day that is entirely in the range has a profile of each of its series.
    bool whole = day * DAY_NANOS >= s->select->start && (day + 1) * DAY_NANOS - 1 <= s->select->end;
    for (size_t i = 0; i < n && whole && !s->step && !code; i++) {
        arena_spend(s->arena, 1 + found[i].series.n_labels);
        find_or_add_line(s, &found[i]);
    }
    for (size_t at = 0, end; at < n && !code && (!whole || s->step); at = end) {
        for (end = at; end < n && found[end].service == found[at].service; end++)
            ;
        s->found = found + at;
        s->n_found = end - at;
        code = s->step && s->select->filter ? scan_picked(s, e) : scan_service(s, e);
        // Leave out an unreadable service, but keep the others of the day.
        if (code == STORE_CORRUPT) {
            left_out = code;
            why = *e;
            code = 0;
            db_reset(&s->reader->db);
        }
    }
    if (left_out && !code) {
        *e = why;
        code = left_out;
    }
    return code;
}

static int scan_day_guarded(struct scan *s, int64_t day, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(s->arena, trap)) {
        arena_caught(s->arena, e);
        return STORE_BUSY;
    }
    if (!s->reader)
        hash_init(&s->index, s->arena, 256);
    int code = s->reader ? scan_day(s, day, e) : 0;
    arena_try_end(s->arena);
    return code;
}

static int scan_days(struct scan *s, struct store_answer *answer, struct err *e)
{
    int64_t *days;
    size_t n = 0;
    const struct store_select *select = s->select;
    int code =
        day_list(s->lite, select->tenant, select->start, select->end, s->arena, &days, &n, e);
    if (!code)
        code = block_reader_init(&s->r, s->arena, e);
    s->picker = (struct picker){
        .lite = s->lite, .select = select, .step = s->step, .arena = s->arena, .r = &s->r};
    if (!code && s->step && select->filter)
        code = names_open(s->lite, select->tenant, false, &s->picker.names, e);
    if (!code)
        code = scan_day_guarded(s, 0, e);
    for (size_t i = 0; i < n && !code; i++) {
        code = reader_take(s->lite, select->tenant, days[i], &s->reader, e);
        if (!code && s->reader) {
            s->reader->budget = arena_budget(s->arena);
            code = scan_day_guarded(s, days[i], e);
        }
        picker_release(&s->picker);
        if (s->reader)
            code = reader_give(s->lite, s->reader, code, e);
        s->reader = NULL;
        if (lite_is_unreadable(code)) {
            lite_leave_out(s->lite, code, days[i], answer, e);
            code = 0;
        }
    }
    block_reader_fini(&s->r);
    if (s->picker.names.handle)
        db_close(&s->picker.names);
    return code;
}

static int line_order(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    return labels_compare(x->series.labels, x->series.n_labels, y->series.labels,
                          y->series.n_labels);
}

int sqlite_series(void *driver, const struct store_select *select, struct arena *arena,
                  struct store_series **series, size_t *n, struct store_answer *answer,
                  struct err *e)
{
    struct scan s = {.lite = driver, .select = select, .arena = arena};
    int code = scan_days(&s, answer, e);
    if (code)
        return code;
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    sort_items(arena, s.lines, s.n_lines, sizeof *s.lines, line_order);
    *series = arena_array(arena, s.n_lines, sizeof **series);
    *n = s.n_lines;
    for (size_t i = 0; i < s.n_lines; i++)
        (*series)[i] = s.lines[i].series;
    arena_try_end(arena);
    return 0;
}

int sqlite_lines(void *driver, const struct store_select *select, int64_t step, struct arena *arena,
                 struct store_line **lines, size_t *n, struct store_answer *answer, struct err *e)
{
    struct scan s = {.lite = driver, .select = select, .arena = arena, .step = step};
    int code = scan_days(&s, answer, e);
    if (code)
        return code;
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    sort_items(arena, s.lines, s.n_lines, sizeof *s.lines, line_order);
    *lines = arena_array(arena, s.n_lines, sizeof **lines);
    *n = s.n_lines;
    for (size_t i = 0; i < s.n_lines; i++) {
        (*lines)[i].series = s.lines[i].series;
        (*lines)[i].points = exact_points(&s.lines[i].points, arena, &(*lines)[i].n_points);
    }
    arena_try_end(arena);
    return 0;
}
