#include "changes/runs.h"

#include <stdlib.h>

#include "base/sort.h"

enum { LARGE = 10 }; // one in so many profiles of a window is a large part

// --- versions of windows ---

struct sighting {
    size_t window;
    struct str value; // of the label
    uint64_t profiles;
};

static int compare_run_windows(const void *a, const void *b)
{
    const struct sighting *x = a, *y = b;
    return x->window != y->window ? (x->window > y->window) - (x->window < y->window)
                                  : str_cmp(x->value, y->value);
}

struct sightings {
    struct arena *arena;
    struct sighting *items;
    size_t n, cap;
    uint64_t *totals; // of each window, profiles without a version included
};

static void see_line(struct sightings *s, const struct look *l, const struct store_line *line,
                     struct str value, int64_t step, const bool *is_noted, size_t n_windows)
{
    size_t first = s->n;
    for (size_t i = 0; i < line->n_points; i++) {
        const struct store_point *p = &line->points[i];
        size_t window = p->index > 0 ? (size_t)((p->index - 1) * step / l->window) : n_windows;
        if (window >= n_windows || !is_noted[window])
            continue;
        s->totals[window] += p->n;
        if (!value.n)
            continue;
        if (s->n == first || s->items[s->n - 1].window != window) {
            s->items = arena_push(s->arena, s->items, s->n, &s->cap, sizeof *s->items);
            s->items[s->n++] = (struct sighting){window, value, 0};
        }
        s->items[s->n - 1].profiles += p->n;
    }
}

static int forget_window(struct look *l, const struct watched *w, int64_t time, struct err *e)
{
    int code;
    sqlite3_stmt *s =
        db_prepare(l->db, "DELETE FROM version_window WHERE series = ? AND time = ?", &code, e);
    if (!s)
        return code;
    sqlite3_bind_int64(s, 1, w->id);
    sqlite3_bind_int64(s, 2, time);
    return db_run(l->db, s, e);
}

static int write_share(struct look *l, const struct watched *w, int64_t time, struct str version,
                       const struct sighting *share, struct err *e)
{
    int code;
    sqlite3_stmt *s = db_prepare(
        l->db, "INSERT INTO version_window(series, time, version, profiles) VALUES(?, ?, ?, ?)",
        &code, e);
    if (!s)
        return code;
    sqlite3_bind_int64(s, 1, w->id);
    sqlite3_bind_int64(s, 2, time);
    db_bind_str(s, 3, version);
    sqlite3_bind_int64(s, 4, (int64_t)share->profiles);
    return db_run(l->db, s, e);
}

// Sightings in order: one for each version of a window that has a large part of it, if it is not
// the only one.
static size_t keep_large(struct sightings *s)
{
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (n && s->items[n - 1].window == s->items[i].window &&
            str_eq(s->items[n - 1].value, s->items[i].value)) {
            s->items[n - 1].profiles += s->items[i].profiles;
        } else {
            s->items[n++] = s->items[i];
        }
    }
    for (size_t i = 0, end; i < n; i = end) {
        size_t first = kept;
        for (end = i; end < n && s->items[end].window == s->items[i].window; end++)
            if (s->items[end].profiles * LARGE >= s->totals[s->items[end].window])
                s->items[kept++] = s->items[end];
        kept = kept - first > 1 ? kept : first;
    }
    return kept;
}

int runs_note(struct look *l, const struct watched *w, const struct store_line *lines, size_t n,
              int64_t origin, int64_t step, const bool *is_noted, size_t n_windows,
              struct arena *arena, struct err *e)
{
    struct sightings s = {.arena = arena,
                          .totals = arena_array(arena, n_windows + 1, sizeof *s.totals)};
    struct str label = deploys_label(&l->c->options, lines, n);
    int code = 0;
    for (size_t i = 0; i < n_windows && !code; i++)
        if (is_noted[i])
            code = forget_window(l, w, origin + (int64_t)i * l->window, e);
    if (code || !label.n || str_find(label, STR("="), 0) != SIZE_MAX)
        return code;
    for (size_t i = 0; i < n; i++) {
        struct str value = deploys_value(&lines[i].series, label);
        // Of a longer one the marker has a part only.
        if (label.n + 1 + value.n > CHANGES_MARKER_BYTES)
            value = STR("");
        see_line(&s, l, &lines[i], value, step, is_noted, n_windows);
    }
    sort_items(arena, s.items, s.n, sizeof *s.items, compare_run_windows);
    s.n = keep_large(&s);
    for (size_t i = 0; i < s.n && !code; i++) {
        struct str version = deploys_text(label, s.items[i].value, arena);
        code = write_share(l, w, origin + (int64_t)s.items[i].window * l->window, version,
                           &s.items[i], e);
    }
    return code;
}

// --- what ran at the same time ---

static int load_run_versions(struct look *l, const struct watched *w, struct arena *arena,
                             struct runs *r, struct err *e)
{
    size_t cap = 0;
    int code;
    sqlite3_stmt *s = db_prepare(
        l->db,
        "SELECT version.text, seen, coalesce(deploy, 0) FROM version LEFT JOIN"
        " (SELECT text, max(time) AS deploy FROM marker WHERE service = ?1 AND annotation = 0"
        " GROUP BY text) AS deploys ON deploys.text = version.text"
        " WHERE version.service = ?1 ORDER BY version.text",
        &code, e);
    if (!s)
        return code;
    db_bind_str(s, 1, w->service);
    while ((code = state_step(l->db, s, e)) > 0) {
        r->versions = arena_push(arena, r->versions, r->n_versions, &cap, sizeof *r->versions);
        r->versions[r->n_versions++] = (struct run_version){.text = state_text(s, 0, arena),
                                                            .seen = sqlite3_column_int64(s, 1),
                                                            .deploy = sqlite3_column_int64(s, 2)};
    }
    return code;
}

static int by_text(const void *a, const void *b)
{
    return str_cmp(((const struct run_version *)a)->text, ((const struct run_version *)b)->text);
}

const struct run_version *runs_version(const struct runs *r, struct str text)
{
    struct run_version wanted = {.text = text};
    return r->n_versions ? bsearch(&wanted, r->versions, r->n_versions, sizeof wanted, by_text)
                         : NULL;
}

struct share {
    const struct run_version *version;
    uint64_t profiles;
};

// The older version of a window that a newer one is compared with: the same as in the window
// before, or the one with most profiles.
static const struct share *find_baseline(const struct share *shares, size_t n,
                                         const struct run_version *after, const struct run *last)
{
    const struct share *baseline = NULL;
    for (size_t i = 0; i < n; i++) {
        if (shares[i].version->deploy >= after->deploy)
            continue;
        if (last && shares[i].version == last->versions[0])
            return &shares[i];
        if (!baseline || shares[i].profiles > baseline->profiles)
            baseline = &shares[i];
    }
    return baseline;
}

// last: of each version, its last run, + 1.
static void extend_runs(const struct look *l, struct runs *r, int64_t time,
                        const struct share *shares, size_t n, size_t *last, struct arena *arena)
{
    for (size_t i = 0; i < n; i++) {
        const struct run_version *after = shares[i].version;
        size_t *at = &last[after - r->versions];
        // A window in which it was deployed has its start, and only a part of it.
        if (!after->deploy || after->deploy > time)
            continue;
        struct run *run = *at ? &r->items[*at - 1] : NULL;
        run = run && run->end == time ? run : NULL;
        const struct share *before = find_baseline(shares, n, after, run);
        if (!before)
            continue;
        if (!run || run->versions[0] != before->version) {
            r->items = arena_push(arena, r->items, r->n, &r->cap, sizeof *r->items);
            run = &r->items[r->n++];
            *run = (struct run){.versions = {before->version, after}, .start = time};
            *at = r->n;
        }
        run->end = time + l->window;
        run->n++;
        for (int side = 0; side < 2; side++) {
            const struct share *share = side ? &shares[i] : before;
            run->profiles[side] += share->profiles;
        }
    }
}

static int find_runs(struct look *l, const struct watched *w, struct arena *arena, struct runs *r,
                     struct err *e)
{
    struct share shares[LARGE + 1];
    size_t n = 0, *last = arena_array(arena, r->n_versions + 1, sizeof *last);
    int64_t time = 0;
    int code;
    sqlite3_stmt *s = db_prepare(l->db,
                                 "SELECT time, version, profiles FROM version_window "
                                 "WHERE series = ? AND time >= ? AND time < ? ORDER BY time",
                                 &code, e);
    if (!s)
        return code;
    sqlite3_bind_int64(s, 1, w->id);
    sqlite3_bind_int64(s, 2, l->begin);
    sqlite3_bind_int64(s, 3, l->end);
    while ((code = state_step(l->db, s, e)) > 0) {
        const struct run_version *version = runs_version(r, db_blob(s, 1));
        if (sqlite3_column_int64(s, 0) != time) {
            extend_runs(l, r, time, shares, n, last, arena);
            n = 0;
        }
        time = sqlite3_column_int64(s, 0);
        if (version && n < LARGE + 1)
            shares[n++] = (struct share){version, (uint64_t)sqlite3_column_int64(s, 2)};
    }
    if (!code)
        extend_runs(l, r, time, shares, n, last, arena);
    return code;
}

int runs_load(struct look *l, const struct watched *w, struct arena *arena, struct runs *r,
              struct err *e)
{
    *r = (struct runs){0};
    int code = load_run_versions(l, w, arena, r, e);
    return code ? code : find_runs(l, w, arena, r, e);
}

bool runs_taken_back(const struct look *l, const struct run_version *before,
                     const struct run_version *after)
{
    int64_t seen = after ? after->seen : 0;
    return before && seen < l->end - 2 * l->window && before->seen >= seen + 2 * l->window;
}
