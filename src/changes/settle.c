#include "changes/look.h"

enum { MAX_DEPTH = 4096 };

// --- the stacks of a time, as the statistics ask for them ---

// A merge, and how its functions are numbered in the history.
struct part {
    struct store_stacks *stacks;
    struct query_functions *functions;
    uint32_t *numbers;
    double weight, seconds; // of window_cell
};

struct range_parts {
    struct stats_range range;
    struct part *parts;
    size_t n;
    struct range_parts *next;
};

struct stacks_reader {
    struct look *look;
    const struct watched *watched;
    const struct history *history;
    struct arena *arena;
    struct range_parts *ranges; // that have been read
    uint32_t *frames;
};

static void read_part(struct stacks_reader *r, int64_t start, int64_t end, struct part *part)
{
    struct err e = {""};
    struct look *l = r->look;
    if (windows_merge(l, r->watched, start, end, r->arena, &part->stacks, &e) ||
        query_functions(part->stacks, r->arena, &part->functions, &e))
        arena_fail(r->arena, "%s", e.message);
    part->numbers = arena_array(r->arena, (size_t)part->functions->n + 1, sizeof *part->numbers);
    for (uint32_t i = 0; i < part->functions->n; i++)
        part->numbers[i] = history_function(r->history, part->functions->items[i].name);
    part->weight = gauge_weight(r->watched, part->stacks->symbols);
    part->seconds = (double)(end - start) / 1e9;
    job_rest(l->c, r->arena);
}

// A state is averaged over a series' profiles: pods that live one after the other count once only
// if every window is asked for by itself.
static struct range_parts *read_range(struct stacks_reader *r, struct stats_range range)
{
    struct range_parts *to = arena_alloc(r->arena, sizeof *to);
    int64_t step = r->watched->gauge ? r->look->window : range.end - range.start;
    to->range = range;
    to->parts =
        arena_array(r->arena, (size_t)((range.end - range.start) / step) + 1, sizeof *to->parts);
    for (int64_t at = range.start; at < range.end; at += step)
        read_part(r, at, at + step < range.end ? at + step : range.end, &to->parts[to->n++]);
    to->next = r->ranges;
    r->ranges = to;
    return to;
}

static void give_part(struct stacks_reader *r, const struct part *p, struct stats_stacks *to)
{
    const struct store_stacks *s = p->stacks;
    for (uint32_t node = 1; node < s->n_nodes; node++) {
        if (s->self[node] <= 0)
            continue;
        arena_spend(r->arena, 4);
        size_t n = query_functions_of(p->functions, s, node, r->frames, MAX_DEPTH);
        for (size_t i = 0; i < n; i++)
            r->frames[i] = p->numbers[r->frames[i]];
        if (n)
            stats_stacks_add(to, r->frames, n,
                             window_cell((double)s->self[node], s->variance ? s->variance[node] : 0,
                                         p->weight, p->seconds));
    }
}

static void give_stacks(void *context, struct stats_range range, int side, struct stats_stacks *to)
{
    (void)side;
    struct stacks_reader *r = context;
    const struct range_parts *at = r->ranges;
    while (at && (at->range.start != range.start || at->range.end != range.end))
        at = at->next;
    if (!at)
        at = read_range(r, range);
    for (size_t i = 0; i < at->n; i++)
        give_part(r, &at->parts[i], to);
}

// --- entries ---

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

struct known {
    struct stats_entry *entries;
    int64_t *ids;
    size_t n, cap, cap_ids;
};

static int load_known(const struct look *l, const struct watched *w, struct arena *arena,
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
        known->ids = arena_push(arena, known->ids, known->n, &known->cap_ids, sizeof *known->ids);
        struct stats_entry *entry = &known->entries[known->n];
        *entry = change_entry(s, arena);
        // What went back is not looked for any more.
        if (entry->verdict == STATS_LASTING && sqlite3_column_int64(s, 21))
            entry->verdict = STATS_EXPLAINED;
        known->ids[known->n++] = sqlite3_column_int64(s, 0);
    }
    return code;
}

static void bind_entry(sqlite3_stmt *s, const struct look *l, const struct watched *w,
                       const struct stats_entry *e)
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
}

// id: of the entry whose place it takes; 0: it is new.
static int write_entry(struct look *l, const struct watched *w, const struct stats_entry *entry,
                       int64_t id, struct err *e)
{
    int code;
    sqlite3_stmt *s = db_prepare(
        l->db,
        "INSERT OR REPLACE INTO change(id, service, type, verdict, measured, function, because, "
        "time, low, high, before, after, deviation, cost, q, marker_time, marker, before_start, "
        "before_end, after_start, after_end, checked, found, acknowledged, who, comment) "
        "VALUES(?1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
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
    bind_entry(s, l, w, entry);
    return db_run(l->db, s, e);
}

static int64_t replaced_by(struct known *known, const struct stats_entry *entry)
{
    for (size_t i = 0; i < known->n; i++)
        if (known->entries[i].verdict == STATS_UNSURE &&
            stats_entry_same(&known->entries[i], entry)) {
            known->entries[i] = *entry;
            return known->ids[i];
        }
    return 0;
}

static int write_gone(struct look *l, int64_t id, struct err *e)
{
    int code;
    sqlite3_stmt *s =
        db_prepare(l->db, "UPDATE change SET gone = ? WHERE id = ? AND gone = 0", &code, e);
    if (!s)
        return code;
    sqlite3_bind_int64(s, 1, l->end);
    sqlite3_bind_int64(s, 2, id);
    return db_run(l->db, s, e);
}

static int keep_report(struct look *l, const struct watched *w, struct known *known,
                       const struct stats_report *report, size_t *n, struct err *e)
{
    int code = look_begin(l, w, e);
    for (size_t i = 0; i < report->n_gone && !code; i++)
        code = write_gone(l, known->ids[report->gone[i]], e);
    for (size_t i = 0; i < report->n && !code; i++) {
        const struct stats_entry *entry = &report->entries[i];
        code = write_entry(l, w, entry, replaced_by(known, entry), e);
        *n += entry->verdict == STATS_LASTING;
    }
    return state_end(l->db, code, e);
}

static bool has_work(const struct stats_candidates *found, const struct known *known)
{
    bool lasting = false;
    for (size_t i = 0; i < known->n; i++)
        lasting = lasting || known->entries[i].verdict == STATS_LASTING;
    for (size_t i = 0; i < found->n; i++)
        if (found->items[i].step.gone ? lasting : found->items[i].q <= STATS_CHANGES_LEVEL)
            return true;
    return false;
}

int settle_series(struct look *l, const struct watched *w, const struct stats_candidates *found,
                  struct arena *arena, size_t *n, struct err *e)
{
    struct history h;
    struct known known;
    struct stats_report report;
    struct stacks_reader reader = {.look = l, .watched = w, .history = &h, .arena = arena};
    *n = 0;
    int code = load_known(l, w, arena, &known, e);
    if (code || !has_work(found, &known))
        return code;
    code = windows_load(l, w, arena, &h, e);
    if (code || !h.n)
        return code;
    reader.frames = arena_array(arena, MAX_DEPTH, sizeof *reader.frames);
    struct stats_service service = {
        .history = {.n = h.n, .windows = h.windows, .lasting = l->c->options.lasting},
        .functions = h.functions,
        .n_functions = h.n_functions,
        .absolute = w->gauge,
        .stacks = give_stacks,
        .context = &reader,
    };
    stats_changes_settle(&service, found, known.entries, known.n, STATS_CHANGES_LEVEL, arena,
                         &report);
    return report.n || report.n_gone ? keep_report(l, w, &known, &report, n, e) : 0;
}
