#include "changes/look.h"

#include <stdlib.h>

#include "base/sort.h"

#define DAY (INT64_C(86400) * 1000000000)

static int fail_deleted(struct err *e)
{
    err_set(e, "the service was deleted during the search");
    return STORE_BUSY;
}

// Only the job adds series, when it lists them.
int look_begin(struct look *l, const struct watched *w, struct err *e)
{
    int code = state_begin(l->db, e);
    if (code)
        return code;
    sqlite3_stmt *s = db_prepare(l->db, "SELECT 1 FROM series WHERE id = ?", &code, e);
    if (!s)
        return code;
    sqlite3_bind_int64(s, 1, w->id);
    code = state_step(l->db, s, e);
    sqlite3_reset(s);
    return code > 0 ? 0 : code ? code : fail_deleted(e);
}

void look_clear(struct look *l)
{
    arena_free(l->chunk);
    arena_free(l->series);
    l->chunk = l->series = NULL;
    db_rollback(l->db);
}

static struct str copy_change_text(struct str text, struct arena *arena)
{
    return (struct str){arena_copy(arena, text.p, text.n), text.n};
}

// --- what there is to watch ---

// Whether the type says nothing that another type of the service does not say as well: types of a
// service that count the samples of another one are in counts, in order.
static bool is_redundant(struct str type, const struct str *counts, size_t n)
{
    return str_find(type, STR(":inuse_objects:"), 0) != SIZE_MAX ||
           (n && bsearch(&type, counts, n, sizeof *counts, str_compare));
}

static struct str *list_counts(const struct store_series *sets, size_t n, struct arena *arena,
                               size_t *n_counts)
{
    struct str *counts = arena_array(arena, n + 1, sizeof *counts);
    *n_counts = 0;
    for (size_t i = 0; i < n; i++) {
        struct str type = sets[i].labels[0].value, count = query_count_type(type, arena);
        if (count.n && !str_eq(count, type))
            counts[(*n_counts)++] = count;
    }
    sort_items(arena, counts, *n_counts, sizeof *counts, str_compare);
    return counts;
}

static int load_series(struct look *l, struct watched *w, struct err *e)
{
    int code;
    sqlite3_stmt *s = db_prepare(l->db,
                                 "INSERT INTO series(service, type, read_until) VALUES(?, ?, 0) "
                                 "ON CONFLICT(service, type) DO UPDATE SET type = excluded.type "
                                 "RETURNING id, read_until",
                                 &code, e);
    if (!s)
        return code;
    db_bind_str(s, 1, w->service);
    db_bind_str(s, 2, w->type);
    code = state_step(l->db, s, e);
    if (code > 0) {
        w->id = sqlite3_column_int64(s, 0);
        w->read_until = sqlite3_column_int64(s, 1);
    }
    sqlite3_reset(s);
    return code < 0 ? code : 0;
}

static int by_service(const void *a, const void *b)
{
    const struct store_series *x = a, *y = b;
    int order = str_cmp(x->labels[1].value, y->labels[1].value);
    return order ? order : str_cmp(x->labels[0].value, y->labels[0].value);
}

// deletions: before sets were read.
static int write_watched(struct look *l, const struct store_series *sets, size_t n,
                         int64_t deletions, struct arena *arena, struct watching *watching,
                         struct err *e)
{
    int64_t now;
    watching->items = arena_array(arena, n + 1, sizeof *watching->items);
    watching->found = arena_array(arena, n + 1, sizeof *watching->found);
    int code = state_begin(l->db, e);
    if (!code)
        code = state_number(l->db, "deletions", &now, e);
    // One of them may have been a service that is listed here.
    if (!code && now != deletions)
        code = fail_deleted(e);
    // The types of a service are neighbors.
    for (size_t first = 0, end; first < n && !code; first = end) {
        struct str service = sets[first].labels[1].value;
        size_t n_counts;
        for (end = first + 1; end < n && str_eq(sets[end].labels[1].value, service);)
            end++;
        const struct str *counts = list_counts(sets + first, end - first, arena, &n_counts);
        for (size_t i = first; i < end && !code; i++) {
            if (is_redundant(sets[i].labels[0].value, counts, n_counts))
                continue;
            struct watched *w = &watching->items[watching->n++];
            struct str type = copy_change_text(sets[i].labels[0].value, arena);
            *w = (struct watched){.service = copy_change_text(service, arena),
                                  .type = type,
                                  .gauge = store_type_is_gauge(type)};
            code = load_series(l, w, e);
        }
    }
    return state_end(l->db, code, e);
}

static int list_watched(struct look *l, struct arena *arena, struct watching *watching,
                        struct err *e)
{
    static const struct str names[] = {STR("__profile_type__"), STR("service_name")};
    struct store_select select = {.tenant = l->tenant, .start = l->begin, .end = l->end - 1};
    struct store_series *sets;
    struct store_answer answer;
    size_t n, kept = 0;
    int64_t deletions;
    l->series = arena_new_in(&l->c->budget, 0);
    if (!l->series)
        return err_set(e, "out of memory"), STORE_BUSY;
    int code = state_number(l->db, "deletions", &deletions, e);
    if (!code)
        code = query_label_sets(l->c->options.store, &select, names, 2, l->series, &sets, &n,
                                &answer, e);
    for (size_t i = 0; !code && i < n; i++)
        if (sets[i].n_labels == 2)
            sets[kept++] = sets[i];
    if (kept)
        qsort(sets, kept, sizeof *sets, by_service);
    if (!code)
        code = write_watched(l, sets, kept, deletions, arena, watching, e);
    look_clear(l);
    return code;
}

// --- scan and settle ---

// Candidates outlive the arena that they were found in.
static void keep_candidates(const struct stats_candidates *from, struct arena *arena,
                            struct stats_candidates *to)
{
    *to = *from;
    to->items = arena_array(arena, from->n + 1, sizeof *to->items);
    for (size_t i = 0; i < from->n; i++) {
        to->items[i] = from->items[i];
        const struct stats_marker *marker = from->items[i].step.marker;
        if (!marker)
            continue;
        struct stats_marker *copy = arena_alloc(arena, sizeof *copy);
        *copy = (struct stats_marker){marker->time, copy_change_text(marker->text, arena)};
        to->items[i].step.marker = copy;
    }
}

static void count_look_rows(struct changes *c, size_t found, size_t skipped)
{
    pthread_mutex_lock(&c->lock);
    c->counters.found += found;
    c->counters.skipped += skipped;
    pthread_mutex_unlock(&c->lock);
}

static int scan_series(struct look *l, struct watched *w, struct arena *arena,
                       struct stats_candidates *found, struct err *e)
{
    struct history h;
    struct stats_marker *markers;
    size_t n_markers;
    int code = windows_read(l, w, arena, e);
    if (!code)
        code = windows_load(l, w, arena, &h, e);
    if (!code)
        code = deploys_load(l, w->service, arena, &markers, &n_markers, e);
    if (code || !h.n)
        return code;
    struct stats_service service = {
        .history = {.n = h.n,
                    .windows = h.windows,
                    .n_markers = n_markers,
                    .markers = markers,
                    .lasting = l->c->options.lasting},
        .functions = h.functions,
        .n_functions = h.n_functions,
        .absolute = w->gauge,
    };
    stats_changes_scan(&service, arena, found);
    return 0;
}

// What is done with a series.
enum task { SCAN, COMPARE_VERSIONS, SETTLE };

// One series in memory of its own, at the mercy of limits: one that has no room is left out. found:
// of SCAN and SETTLE.
static int try_series(struct look *l, struct watched *w, struct stats_candidates *found,
                      struct arena *keep, enum task task, struct err *e)
{
    struct stats_candidates here = {0};
    struct arena_trap trap;
    size_t n = 0;
    int code = STORE_BUSY;
    l->series = arena_new_in(&l->c->budget, 0);
    if (!l->series)
        return err_set(e, "out of memory"), STORE_BUSY;
    if (ARENA_TRY(l->series, trap)) {
        arena_caught(l->series, e);
        look_clear(l);
        count_look_rows(l->c, 0, 1);
        return STORE_BUSY;
    }
    code = task == SCAN     ? scan_series(l, w, l->series, &here, e)
           : task == SETTLE ? settle_series(l, w, found, l->series, &n, e)
                            : canary_series(l, w, l->series, &n, e);
    job_rest(l->c, l->series);
    arena_try_end(l->series);
    if (!code && task == SCAN)
        keep_candidates(&here, keep, found);
    count_look_rows(l->c, n, code != 0);
    look_clear(l);
    return code;
}

// Whether a look goes on after an error with one series.
static bool goes_on(struct look *l, const struct watched *w, int code, const struct err *e,
                    unsigned *n_errors)
{
    struct changes *c = l->c;
    if (c->budget.cancelled || code == STORE_CORRUPT || code == STORE_FORMAT || code == STORE_FULL)
        return false;
    if ((*n_errors)++ == 0)
        job_note(c, "changes: search skips service %.*s of tenant %.*s: %s", (int)w->service.n,
                 w->service.p, (int)l->tenant.n, l->tenant.p, e->message);
    return true;
}

// --- looking after what is kept ---

// Changes that were found before somebody noted the deploy: each with its nearest marker, which
// comes first.
static int attribute_late(struct look *l, struct err *e)
{
    int code, updated = 0;
    int64_t last = 0;
    sqlite3_stmt *s = db_prepare(l->db,
                                 "SELECT change.id, marker.time, marker.text FROM change"
                                 " JOIN marker ON marker.service IN (change.service, '')"
                                 " AND marker.time BETWEEN low - ? AND high "
                                 "WHERE marker_time = 0 AND verdict IN (?, ?) AND found >= ? "
                                 "ORDER BY change.id, abs(marker.time - change.time), marker.id",
                                 &code, e);
    sqlite3_stmt *update =
        s ? db_prepare(l->db, "UPDATE change SET marker_time = ?, marker = ? WHERE id = ?", &code,
                       e)
          : NULL;
    if (!update)
        return code;
    sqlite3_bind_int64(s, 1, l->window);
    sqlite3_bind_int(s, 2, STATS_LASTING);
    sqlite3_bind_int(s, 3, STATS_SHIFT);
    sqlite3_bind_int64(s, 4, l->begin);
    while (!updated && (code = state_step(l->db, s, e)) > 0) {
        if (sqlite3_column_int64(s, 0) == last)
            continue;
        last = sqlite3_column_int64(s, 0);
        sqlite3_bind_int64(update, 1, sqlite3_column_int64(s, 1));
        db_bind_str(update, 2, db_blob(s, 2));
        sqlite3_bind_int64(update, 3, last);
        updated = db_run(l->db, update, e);
    }
    sqlite3_reset(s);
    return updated ? updated : code;
}

// Binds the times to a statement that has up to two parameters.
static int drop_by_time(struct look *l, const char *sql, int64_t first, int64_t second,
                        struct err *e)
{
    int code;
    sqlite3_stmt *s = db_prepare(l->db, sql, &code, e);
    if (!s)
        return code;
    const int64_t times[] = {first, second};
    for (int i = 0; i < sqlite3_bind_parameter_count(s); i++)
        sqlite3_bind_int64(s, i + 1, times[i]);
    return db_run(l->db, s, e);
}

static int drop_old(struct look *l, int64_t oldest, struct err *e)
{
    int64_t begin = l->begin, known = begin - 3 * DAY;
    int64_t first = oldest < begin ? oldest : begin;
    const struct {
        const char *sql;
        int64_t first, second;
    } statements[] = {
        {"DELETE FROM window WHERE time < ?", begin, 0},
        {"DELETE FROM version_window WHERE time < ?", begin, 0},
        {"DELETE FROM canary WHERE until < ?", begin, 0},
        {"DELETE FROM function WHERE used < ?", begin - 2 * DAY, 0},
        {"DELETE FROM series WHERE read_until < ? AND NOT EXISTS"
         " (SELECT 1 FROM window WHERE window.series = series.id)",
         begin, 0},
        {"DELETE FROM version WHERE seen < ?", begin, 0},
        {"DELETE FROM marker WHERE time < ? AND annotation = 0", known, 0},
        // What is neither a change nor a shift is only there to be known at the next look.
        {"DELETE FROM change WHERE verdict IN (0, 3) AND high < ?", known, 0},
        // Those with a diff to open are there as long as one of their profiles.
        {"DELETE FROM change WHERE time < ? AND found < ?", first, begin},
        {"DELETE FROM marker WHERE annotation IN (SELECT id FROM annotation WHERE time_end < ?)",
         first, 0},
        {"DELETE FROM annotation WHERE time_end < ?", first, 0},
        {"DELETE FROM number WHERE name = 'annotation_bytes'", 0, 0},
        {"DELETE FROM mute WHERE until <> 0 AND until < ?", begin, 0},
    };
    _Static_assert(STATS_UNSURE == 0 && STATS_EXPLAINED == 3, "verdicts in the statement above");
    int code = 0;
    for (size_t i = 0; i < sizeof statements / sizeof *statements && !code; i++)
        code = drop_by_time(l, statements[i].sql, statements[i].first, statements[i].second, e);
    return code;
}

// The next service that is not watched any more, in the order of names. lost: the one before.
static int find_lost(struct look *l, const struct watching *watching, struct arena *arena,
                     struct str *lost, struct err *e)
{
    int code;
    sqlite3_stmt *s = db_prepare(
        l->db, "SELECT DISTINCT service FROM series WHERE service > ? ORDER BY service", &code, e);
    if (!s)
        return code;
    db_bind_str(s, 1, *lost);
    *lost = STR("");
    size_t at = 0;
    while ((code = state_step(l->db, s, e)) > 0) {
        struct str service = db_blob(s, 0);
        while (at < watching->n && str_cmp(watching->items[at].service, service) < 0)
            at++;
        if (at == watching->n || !str_eq(watching->items[at].service, service)) {
            *lost = state_text(s, 0, arena);
            break;
        }
    }
    sqlite3_reset(s);
    return code < 0 ? code : 0;
}

// One that is not in the store any more, such as one that another server deleted.
static int drop_if_deleted(struct look *l, struct str service, struct err *e)
{
    struct store_matcher matcher = {STORE_EQ, STR("service_name"), service, NULL};
    struct store_select select = {
        .tenant = l->tenant, .matchers = &matcher, .n_matchers = 1, .start = 0, .end = INT64_MAX};
    struct arena *arena = arena_new_in(&l->c->budget, 0);
    struct store_series *series;
    struct store_answer answer;
    size_t n;
    if (!arena)
        return err_set(e, "out of memory"), STORE_BUSY;
    int code = store_series(l->c->options.store, &select, arena, &series, &n, &answer, e);
    // A day that cannot be read may have it.
    if (!code && !n && !answer.damaged_days)
        code = changes_forget_service(l->c, l->tenant, service, e);
    arena_free(arena);
    return code;
}

static int drop_lost(struct look *l, const struct watching *watching, struct arena *arena,
                     struct err *e)
{
    struct str lost = STR("");
    int code;
    while (!(code = find_lost(l, watching, arena, &lost, e)) && lost.n) {
        code = drop_if_deleted(l, lost, e);
        if (code)
            break;
        job_rest(l->c, arena);
    }
    return code;
}

static int finish_look(struct look *l, struct err *e)
{
    struct store_stats stats;
    int code = store_stats(l->c->options.store, l->tenant, &l->c->budget, &stats, e);
    if (!code)
        code = state_begin(l->db, e);
    if (!code)
        code = attribute_late(l, e);
    if (!code)
        code = drop_old(l, stats.any ? stats.oldest : l->begin, e);
    if (!code)
        code = state_set_number(l->db, "looked", l->end, e);
    return state_end(l->db, code, e);
}

// --- a tenant ---

// Windows of another length say nothing about these.
static int set_window(struct look *l, struct err *e)
{
    int64_t window;
    int code = state_number(l->db, "window", &window, e);
    if (code || window == l->window)
        return code;
    code = state_begin(l->db, e);
    if (!code)
        code = db_exec(l->db,
                       "DELETE FROM window; DELETE FROM version_window; DELETE FROM canary;"
                       "UPDATE series SET read_until = 0",
                       e);
    if (!code)
        code = state_set_number(l->db, "window", l->window, e);
    return state_end(l->db, code, e);
}

// What was seen while the clock was ahead would be newer than all that comes until then. Series are
// read again from the beginning (windows_read), which notes versions and their deploys.
static int drop_future(struct look *l, struct err *e)
{
    static const char *const statements[] = {
        "DELETE FROM version WHERE seen >= ?",
        "DELETE FROM canary WHERE until > ?",
        "DELETE FROM marker WHERE time >= ? AND annotation = 0",
    };
    int code = state_begin(l->db, e);
    for (size_t i = 0; i < sizeof statements / sizeof *statements && !code; i++)
        code = drop_by_time(l, statements[i], l->end, 0, e);
    return state_end(l->db, code, e);
}

// Lists what there is to watch, in arena.
static int begin_look(struct look *l, struct arena *arena, struct err *e)
{
    int code = set_window(l, e);
    if (!code)
        code = drop_future(l, e);
    if (!code)
        code = list_watched(l, arena, &l->watching, e);
    l->watching.is_listed = !code;
    return code;
}

// A failure of one series does not end the look, unless there are too many.
static int visit_series(struct look *l, size_t i, enum task task, struct arena *arena,
                        struct err *e)
{
    struct watching *w = &l->watching;
    struct stats_candidates *found = task == COMPARE_VERSIONS ? NULL : &w->found[i];
    int code = try_series(l, &w->items[i], found, arena, task, e);
    return code && goes_on(l, &w->items[i], code, e, &w->n_errors) ? 0 : code;
}

int look_go_on(struct look *l, struct arena *arena, struct err *e)
{
    struct watching *w = &l->watching;
    int code = w->is_listed ? 0 : begin_look(l, arena, e);
    for (int n = 0; n < LOOK_SERIES && !code;) {
        if (w->at == w->n && !w->settles) {
            // The false discovery rate is that of all series of the tenant.
            stats_changes_adjust(w->found, w->n, arena);
            w->settles = true;
            w->at = 0;
        }
        if (w->at == w->n) {
            code = finish_look(l, e);
            return code ? code : drop_lost(l, w, arena, e);
        }
        size_t i = w->at++;
        n++;
        if (!w->settles) {
            code = visit_series(l, i, SCAN, arena, e);
            continue;
        }
        // All deploys are known now. Versions are compared before steps are settled, because a
        // comparison says more than a step.
        code = visit_series(l, i, COMPARE_VERSIONS, arena, e);
        if (!code && w->found[i].n)
            code = visit_series(l, i, SETTLE, arena, e);
    }
    return code ? code : 1;
}
