#include "changes/look.h"

struct stats_entry change_entry(sqlite3_stmt *s, struct arena *arena)
{
    struct stats_entry e = {
        .verdict = (enum stats_verdict)sqlite3_column_int(s, 1),
        .measured = (enum stats_measured)sqlite3_column_int(s, 2),
        .function = state_text(s, 3, arena),
        .because = state_text(s, 4, arena),
        .time = sqlite3_column_int64(s, 5),
        .low = sqlite3_column_int64(s, 6),
        .high = sqlite3_column_int64(s, 7),
        .before = sqlite3_column_double(s, 8),
        .after = sqlite3_column_double(s, 9),
        .deviation = sqlite3_column_double(s, 10),
        .cost = sqlite3_column_double(s, 11),
        .q = sqlite3_column_double(s, 12),
        .sides = {{sqlite3_column_int64(s, 15), sqlite3_column_int64(s, 16)},
                  {sqlite3_column_int64(s, 17), sqlite3_column_int64(s, 18)}},
        .checked = sqlite3_column_int64(s, 19),
    };
    if (sqlite3_column_int64(s, 13)) {
        struct stats_marker *marker = arena_alloc(arena, sizeof *marker);
        *marker = (struct stats_marker){sqlite3_column_int64(s, 13), state_text(s, 14, arena)};
        e.marker = marker;
    }
    return e;
}

struct changes_versions change_versions(sqlite3_stmt *s, struct arena *arena)
{
    return (struct changes_versions){.label = state_text(s, 22, arena),
                                     .before = state_text(s, 23, arena),
                                     .after = state_text(s, 24, arena),
                                     .part = sqlite3_column_double(s, 25)};
}

int entries_load(const struct look *l, const struct watched *w, struct arena *arena,
                 struct known *known, struct err *e)
{
    int code;
    *known = (struct known){0};
    sqlite3_stmt *s = db_prepare(
        l->db, "SELECT " CHANGE_COLUMNS " FROM change WHERE service = ? AND type = ? ORDER BY id",
        &code, e);
    if (!s)
        return code;
    db_bind_str(s, 1, w->service);
    db_bind_str(s, 2, w->type);
    while ((code = state_step(l->db, s, e)) > 0) {
        known->entries =
            arena_push(arena, known->entries, known->n, &known->cap, sizeof *known->entries);
        known->more =
            arena_push(arena, known->more, known->n, &known->cap_more, sizeof *known->more);
        struct stats_entry *entry = &known->entries[known->n];
        *entry = change_entry(s, arena);
        struct known_entry *more = &known->more[known->n++];
        *more = (struct known_entry){.id = sqlite3_column_int64(s, 0),
                                     .gone = sqlite3_column_int64(s, 21),
                                     .high = entry->high,
                                     .verdict = entry->verdict,
                                     .versions = change_versions(s, arena)};
        if (!more->gone)
            continue;
        // What went back is not looked for any more. A version that was taken back says nothing
        // about those that come after it.
        if (entry->verdict == STATS_LASTING || more->versions.label.n)
            entry->verdict = STATS_EXPLAINED;
        if (more->versions.label.n)
            entry->high = entry->low;
    }
    return code;
}

static void bind_entry(sqlite3_stmt *s, const struct look *l, const struct watched *w,
                       const struct stats_entry *e, const struct changes_versions *versions)
{
    db_bind_str(s, 2, w->service);
    db_bind_str(s, 3, w->type);
    sqlite3_bind_int(s, 4, e->verdict);
    sqlite3_bind_int(s, 5, e->measured);
    db_bind_str(s, 6, e->function);
    db_bind_str(s, 7, e->because);
    sqlite3_bind_int64(s, 8, e->time);
    sqlite3_bind_int64(s, 9, e->low);
    sqlite3_bind_int64(s, 10, e->high);
    sqlite3_bind_double(s, 11, e->before);
    sqlite3_bind_double(s, 12, e->after);
    sqlite3_bind_double(s, 13, e->deviation);
    sqlite3_bind_double(s, 14, e->cost);
    sqlite3_bind_double(s, 15, e->q);
    sqlite3_bind_int64(s, 16, e->marker ? e->marker->time : 0);
    db_bind_str(s, 17, e->marker ? e->marker->text : STR(""));
    sqlite3_bind_int64(s, 18, e->sides[0].start);
    sqlite3_bind_int64(s, 19, e->sides[0].end);
    sqlite3_bind_int64(s, 20, e->sides[1].start);
    sqlite3_bind_int64(s, 21, e->sides[1].end);
    sqlite3_bind_int64(s, 22, e->checked);
    sqlite3_bind_int64(s, 23, l->end);
    db_bind_str(s, 24, versions ? versions->label : STR(""));
    db_bind_str(s, 25, versions ? versions->before : STR(""));
    db_bind_str(s, 26, versions ? versions->after : STR(""));
    sqlite3_bind_double(s, 27, versions ? versions->part : 0);
}

// id: of the entry whose place it takes; 0: it is new.
static int write_entry_row(struct look *l, const struct watched *w, const struct stats_entry *entry,
                           const struct changes_versions *versions, int64_t id, struct err *e)
{
    int code;
    sqlite3_stmt *s = db_prepare(
        l->db,
        "INSERT OR REPLACE INTO change(id, service, type, verdict, measured, function, because, "
        "time, low, high, before, after, deviation, cost, q, marker_time, marker, before_start, "
        "before_end, after_start, after_end, checked, found, version_label, version_before,"
        " version_after, version_part, acknowledged, who, comment) "
        "VALUES(?1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
        " coalesce((SELECT acknowledged FROM change WHERE id = ?1), 0),"
        " coalesce((SELECT who FROM change WHERE id = ?1), ''),"
        " coalesce((SELECT comment FROM change WHERE id = ?1), ''))",
        &code, e);
    if (!s)
        return code;
    if (id)
        sqlite3_bind_int64(s, 1, id);
    else
        sqlite3_bind_null(s, 1);
    bind_entry(s, l, w, entry, versions);
    return db_run(l->db, s, e);
}

static int64_t replaced_by(struct known *known, const struct stats_entry *entry)
{
    for (size_t i = 0; i < known->n; i++)
        if (known->entries[i].verdict == STATS_UNSURE &&
            stats_entry_same(&known->entries[i], entry)) {
            known->entries[i] = *entry;
            return known->more[i].id;
        }
    return 0;
}

int entries_add(struct look *l, const struct watched *w, struct known *known,
                const struct stats_entry *entries, size_t n_entries,
                const struct changes_versions *versions, size_t *n, struct err *e)
{
    int code = 0;
    for (size_t i = 0; i < n_entries && !code; i++) {
        code = write_entry_row(l, w, &entries[i], versions, replaced_by(known, &entries[i]), e);
        *n += entries[i].verdict == STATS_LASTING;
    }
    return code;
}

int entries_update(struct look *l, int64_t id, int64_t high, int64_t gone, struct err *e)
{
    int code;
    sqlite3_stmt *s =
        db_prepare(l->db, "UPDATE change SET high = ?, gone = ? WHERE id = ?", &code, e);
    if (!s)
        return code;
    sqlite3_bind_int64(s, 1, high);
    sqlite3_bind_int64(s, 2, gone);
    sqlite3_bind_int64(s, 3, id);
    return db_run(l->db, s, e);
}
