#include "base/sort.h"
#include "changes/look.h"

enum {
    MAX_VERSIONS = 1000, // of a service, the newest
    MAX_MARKERS = 10000, // the same
    // In a piece of its history: a label with more, such as one of every run, tells no deploys.
    MAX_NEW_VERSIONS = 100,
};

static const struct str usual_labels[] = {STR("version"), STR("service_version"),
                                          STR("service_git_ref"), STR("git_ref")};
enum { N_USUAL = sizeof usual_labels / sizeof *usual_labels };

struct str deploys_value(const struct store_series *series, struct str label)
{
    for (size_t i = 0; i < series->n_labels; i++)
        if (str_eq(series->labels[i].name, label))
            return series->labels[i].value;
    return STR("");
}

// The first of the deploy labels that a line has.
struct str deploys_label(const struct changes_options *o, const struct store_line *lines, size_t n)
{
    for (size_t i = 0; i < o->n_deploy_labels + N_USUAL; i++) {
        struct str label =
            i < o->n_deploy_labels ? o->deploy_labels[i] : usual_labels[i - o->n_deploy_labels];
        for (size_t k = 0; k < n; k++)
            if (deploys_value(&lines[k].series, label).n)
                return label;
    }
    return STR("");
}

// Without printf, which would stop at a zero byte.
struct str deploys_text(struct str label, struct str value, struct arena *arena)
{
    size_t n = label.n + 1 + value.n;
    char *text = arena_alloc(arena, n);
    memcpy(text, label.p, label.n);
    text[label.n] = '=';
    memcpy(text + label.n + 1, value.p, value.n);
    return (struct str){text, n};
}

struct version {
    struct str text; // label=value
    int64_t seen;    // the last time
    int64_t since;   // since when it has been seen, without a gap of two windows
    bool is_changed;
};

struct versions {
    struct version *items;
    size_t n, cap;
    struct hash_table index; // of their texts
};

struct sighting {
    int64_t time;
    uint32_t version;
};

static int by_time(const void *a, const void *b)
{
    const struct sighting *x = a, *y = b;
    return x->time != y->time ? (x->time > y->time) - (x->time < y->time)
                              : (x->version > y->version) - (x->version < y->version);
}

static uint32_t version_index(struct versions *v, struct str text, struct arena *arena)
{
    uint64_t hash = hash_bytes(text.p, text.n, 0);
    for (struct hash_probe at = hash_find(&v->index, hash); hash_hit(&v->index, &at);
         hash_next(&v->index, &at))
        if (str_eq(v->items[at.item].text, text))
            return at.item;
    v->items = arena_push(arena, v->items, v->n, &v->cap, sizeof *v->items);
    v->items[v->n] = (struct version){.text = text};
    hash_add(&v->index, arena, hash, (uint32_t)v->n);
    return (uint32_t)v->n++;
}

static int load_deploy_versions(const struct look *l, struct str service, struct arena *arena,
                                struct versions *v, struct err *e)
{
    int code;
    *v = (struct versions){0};
    hash_init(&v->index, arena, 64);
    sqlite3_stmt *s = db_prepare(
        l->db,
        "SELECT text, seen, since FROM version WHERE service = ? ORDER BY seen DESC, text LIMIT ?",
        &code, e);
    if (!s)
        return code;
    db_bind_str(s, 1, service);
    sqlite3_bind_int64(s, 2, MAX_VERSIONS);
    while ((code = state_step(l->db, s, e)) > 0) {
        uint32_t version = version_index(v, state_text(s, 0, arena), arena);
        v->items[version].seen = sqlite3_column_int64(s, 1);
        v->items[version].since = sqlite3_column_int64(s, 2);
    }
    return code;
}

static bool was_away(const struct look *l, const struct version *v, int64_t time)
{
    return !v->seen || time - v->seen >= 2 * l->window;
}

// A version that is seen after it was away is a deploy if another one ran meanwhile. The first of a
// service is none: nothing was there before. Nor are versions that come back together after a
// pause: within a window, their order says nothing.
static bool is_deploy(const struct look *l, const struct versions *v, const struct version *now,
                      int64_t time)
{
    if (!was_away(l, now, time))
        return false;
    for (size_t i = 0; i < v->n; i++) {
        const struct version *other = &v->items[i];
        if (other != now && other->seen >= now->seen + l->window &&
            other->since <= time - l->window)
            return true;
    }
    return false;
}

static int write_version(struct look *l, struct str service, const struct version *v, struct err *e)
{
    int code;
    sqlite3_stmt *s =
        db_prepare(l->db, "INSERT OR REPLACE INTO version VALUES(?, ?, ?, ?)", &code, e);
    if (!s)
        return code;
    db_bind_str(s, 1, service);
    db_bind_str(s, 2, v->text);
    sqlite3_bind_int64(s, 3, v->seen);
    sqlite3_bind_int64(s, 4, v->since);
    return db_run(l->db, s, e);
}

int deploys_note(struct look *l, struct str service, const struct store_line *lines, size_t n,
                 int64_t origin, int64_t step, struct arena *arena, struct err *e)
{
    struct versions v;
    struct sighting *sightings = NULL;
    size_t n_sightings = 0, cap = 0, n_known;
    struct str label = deploys_label(&l->c->options, lines, n);
    if (!label.n)
        return 0;
    int code = load_deploy_versions(l, service, arena, &v, e);
    if (code)
        return code;
    n_known = v.n;
    for (size_t i = 0; i < n; i++) {
        struct str value = deploys_value(&lines[i].series, label);
        if (!value.n)
            continue;
        uint32_t version = version_index(&v, deploys_text(label, value, arena), arena);
        if (v.n - n_known > MAX_NEW_VERSIONS)
            return 0;
        for (size_t k = 0; k < lines[i].n_points; k++) {
            int64_t index = lines[i].points[k].index;
            if (index <= 0 || !lines[i].points[k].n)
                continue;
            sightings = arena_push(arena, sightings, n_sightings, &cap, sizeof *sightings);
            sightings[n_sightings++] = (struct sighting){origin + (index - 1) * step, version};
        }
    }
    sort_items(arena, sightings, n_sightings, sizeof *sightings, by_time);
    for (size_t i = 0; i < n_sightings && !code; i++) {
        struct version *now = &v.items[sightings[i].version];
        if (sightings[i].time <= now->seen)
            continue;
        if (is_deploy(l, &v, now, sightings[i].time))
            code = state_add_marker(l->db, service, sightings[i].time, now->text, 0, e);
        if (was_away(l, now, sightings[i].time))
            now->since = sightings[i].time;
        now->seen = sightings[i].time;
        now->is_changed = true;
    }
    for (size_t i = 0; i < v.n && !code; i++)
        if (v.items[i].is_changed)
            code = write_version(l, service, &v.items[i], e);
    return code;
}

int deploys_load(const struct look *l, struct str service, struct arena *arena,
                 struct stats_marker **markers, size_t *n, struct err *e)
{
    int code;
    size_t cap = 0;
    *markers = NULL;
    *n = 0;
    sqlite3_stmt *s = db_prepare(l->db,
                                 "SELECT time, text FROM marker WHERE service IN (?, '') AND "
                                 "time >= ? AND time < ? ORDER BY time DESC, id DESC LIMIT ?",
                                 &code, e);
    if (!s)
        return code;
    db_bind_str(s, 1, service);
    sqlite3_bind_int64(s, 2, l->begin - 2 * l->window);
    sqlite3_bind_int64(s, 3, l->end);
    sqlite3_bind_int64(s, 4, MAX_MARKERS);
    while ((code = state_step(l->db, s, e)) > 0) {
        *markers = arena_push(arena, *markers, *n, &cap, sizeof **markers);
        int64_t time = sqlite3_column_int64(s, 0);
        (*markers)[(*n)++] = (struct stats_marker){time, state_text(s, 1, arena)};
    }
    for (size_t i = 0; i < *n / 2; i++) {
        struct stats_marker other = (*markers)[i];
        (*markers)[i] = (*markers)[*n - 1 - i];
        (*markers)[*n - 1 - i] = other;
    }
    return code;
}

// --- listing ---

static int list_markers(struct db *db, const struct changes_marker_filter *filter,
                        struct arena *arena, struct changes_marker **markers, size_t *n,
                        struct err *e)
{
    int code;
    size_t cap = 0;
    sqlite3_stmt *s =
        db_prepare(db,
                   "SELECT time, text, annotation FROM marker WHERE service IN (?, '')"
                   " AND time BETWEEN ? AND ? ORDER BY time DESC, id DESC LIMIT ?",
                   &code, e);
    if (!s)
        return code;
    db_bind_str(s, 1, filter->service);
    sqlite3_bind_int64(s, 2, filter->from);
    sqlite3_bind_int64(s, 3, filter->until);
    sqlite3_bind_int64(s, 4, (int64_t)filter->limit);
    while ((code = state_step(db, s, e)) > 0) {
        *markers = arena_push(arena, *markers, *n, &cap, sizeof **markers);
        (*markers)[(*n)++] = (struct changes_marker){.time = sqlite3_column_int64(s, 0),
                                                     .text = state_text(s, 1, arena),
                                                     .annotation = sqlite3_column_int64(s, 2)};
    }
    return code;
}

int changes_markers(struct changes *c, struct str tenant,
                    const struct changes_marker_filter *filter, struct arena *arena,
                    struct changes_marker **markers, size_t *n, struct err *e)
{
    struct db db;
    struct arena_trap trap;
    *markers = NULL;
    *n = 0;
    int code = state_open(c, tenant, DB_READ, &db, e);
    if (code)
        return code > 0 ? 0 : code;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        db_close(&db);
        return STORE_BUSY;
    }
    // Another thread may be about to fill a new file.
    if (db.version)
        code = list_markers(&db, filter, arena, markers, n, e);
    arena_try_end(arena);
    db_close(&db);
    return code;
}
