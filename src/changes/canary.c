// Versions of a service that run at the same time, such as a canary and the version that it is to
// replace, are compared with each other: neither the time of day nor a step elsewhere can be what
// differs.
#include <math.h>

#include "changes/runs.h"

enum {
    LEAST = 2,      // windows, one after the other
    MAX_AT_ONCE = 4 // comparisons of a series at one look; the others come at the next ones
};
#define AGAIN 1.5 // how much longer than at the last comparison it must have lasted for another one

// --- which ones are due ---

// The last comparison of two versions.
struct compared {
    struct str before, after;
    int64_t deploy, until; // of the newer version; the end of the windows
    int64_t windows, looks;
};

struct canary {
    struct look *look;
    const struct watched *watched;
    struct runs runs;
    struct compared *compared;
    size_t n_compared;
    struct history history; // n 0: not loaded
};

static int has_versions(const struct look *l, const struct watched *w, bool *any, struct err *e)
{
    int code;
    *any = false;
    sqlite3_stmt *s = db_prepare(l->db,
                                 "SELECT EXISTS(SELECT 1 FROM version_window WHERE series = ?) OR"
                                 " EXISTS(SELECT 1 FROM change WHERE service = ? AND type = ?"
                                 " AND version_label <> '')",
                                 &code, e);
    if (!s)
        return code;
    sqlite3_bind_int64(s, 1, w->id);
    db_bind_str(s, 2, w->service);
    db_bind_str(s, 3, w->type);
    code = state_step(l->db, s, e);
    *any = code > 0 && sqlite3_column_int(s, 0);
    sqlite3_reset(s);
    return code < 0 ? code : 0;
}

static int load_compared(struct canary *k, struct arena *arena, struct err *e)
{
    size_t cap = 0;
    int code;
    struct look *l = k->look;
    sqlite3_stmt *s = db_prepare(
        l->db, "SELECT before, after, deploy, until, windows, looks FROM canary WHERE series = ?",
        &code, e);
    if (!s)
        return code;
    sqlite3_bind_int64(s, 1, k->watched->id);
    while ((code = state_step(l->db, s, e)) > 0) {
        k->compared = arena_push(arena, k->compared, k->n_compared, &cap, sizeof *k->compared);
        k->compared[k->n_compared++] = (struct compared){
            .before = state_text(s, 0, arena),
            .after = state_text(s, 1, arena),
            .deploy = sqlite3_column_int64(s, 2),
            .until = sqlite3_column_int64(s, 3),
            .windows = sqlite3_column_int64(s, 4),
            .looks = sqlite3_column_int64(s, 5),
        };
    }
    return code;
}

// The last comparison since the newer version was deployed.
static const struct compared *find_compared(const struct canary *k, const struct run *run)
{
    for (size_t i = 0; i < k->n_compared; i++)
        if (str_eq(k->compared[i].before, run->versions[0]->text) &&
            str_eq(k->compared[i].after, run->versions[1]->text))
            return k->compared[i].deploy == run->versions[1]->deploy ? &k->compared[i] : NULL;
    return NULL;
}

static bool is_due(const struct canary *k, const struct run *run)
{
    const struct look *l = k->look;
    const struct compared *c = find_compared(k, run);
    if (run->n < LEAST || runs_taken_back(l, run->versions[0], run->versions[1]))
        return false;
    if (!c || run->start >= c->until)
        return true;
    // When it is over, all of it.
    return run->end > c->until &&
           (run->end < l->end || (double)run->n >= AGAIN * (double)c->windows);
}

// --- entries ---

// The last run of the deploy that an entry is about.
static const struct run *run_of(const struct canary *k, const struct stats_entry *e,
                                const struct run_version *before, const struct run_version *after)
{
    for (size_t i = k->runs.n; i-- > 0;) {
        const struct run *run = &k->runs.items[i];
        if (run->versions[0] == before && run->versions[1] == after && e->marker &&
            e->marker->time == after->deploy)
            return run;
    }
    return NULL;
}

// As long as both versions run, an entry goes on; what was found of a version that is taken back is
// gone, and back if only its profiles were late.
static int update_entry(struct canary *k, const struct stats_entry *e,
                        const struct known_entry *known, struct arena *arena, struct err *error)
{
    struct look *l = k->look;
    const struct changes_versions *v = &known->versions;
    const struct run_version *before =
        runs_version(&k->runs, deploys_text(v->label, v->before, arena));
    const struct run_version *after =
        runs_version(&k->runs, deploys_text(v->label, v->after, arena));
    const struct run *run = run_of(k, e, before, after);
    bool may_go = known->verdict == STATS_LASTING || known->verdict == STATS_SHIFT;
    bool taken_back = runs_taken_back(l, before, after);
    bool is_back = run && run->end > l->end - 2 * l->window && l->end >= known->gone;
    int64_t high = run && run->end > known->high ? run->end : known->high, gone = known->gone;
    if (!gone && may_go && taken_back)
        gone = l->end;
    else if (gone && is_back && !taken_back)
        gone = 0;
    return high == known->high && gone == known->gone
               ? 0
               : entries_update(l, known->id, high, gone, error);
}

static int update_entries(struct canary *k, struct arena *arena, struct err *e)
{
    struct known known;
    int code = entries_load(k->look, k->watched, arena, &known, e);
    bool any = false;
    for (size_t i = 0; i < known.n; i++)
        any = any || known.more[i].versions.label.n;
    if (code || !any)
        return code;
    code = look_begin(k->look, k->watched, e);
    for (size_t i = 0; i < known.n && !code; i++)
        if (known.more[i].versions.label.n)
            code = update_entry(k, &known.entries[i], &known.more[i], arena, e);
    return state_end(k->look->db, code, e);
}

// --- the same by pods ---

// What differs between pods of one version is not what a version changed. Windows do not show that:
// each has all pods. Where there is one pod of each version, or nothing tells pods, it is how much
// most functions differ between the versions.
struct grouped {
    // Of the older version first.
    struct grouped_part {
        struct store_stacks *stacks;
        struct query_functions *functions;
        uint32_t *rows;  // of functions
        size_t n_groups; // 1: all of it
        double weight;   // of window_cell
    } * parts;
    size_t n_parts;
    double seconds;
    uint32_t *frames;
    struct arena *arena;
};

static void give_node(const struct grouped *g, const struct grouped_part *part, size_t first,
                      uint32_t node, struct stats_functions *f)
{
    const struct store_stacks *s = part->stacks;
    double self = (double)s->self[node];
    const int64_t *groups =
        s->n_blocks ? s->blocks + (size_t)node * s->n_blocks + s->n_windows : NULL;
    struct stats_cell all =
        window_cell(self, s->variance ? s->variance[node] : 0, part->weight, g->seconds);
    size_t n = query_functions_of(part->functions, s, node, g->frames, MAX_DEPTH);
    for (size_t i = 0; i < n; i++)
        g->frames[i] = part->rows[g->frames[i]];
    for (size_t i = 0; i < part->n_groups && n; i++) {
        double share = groups ? (double)groups[i] / self : 1;
        if (share > 0)
            stats_functions_add(f, first + i, g->frames, n,
                                (struct stats_cell){all.value * share, all.variance * share});
    }
}

static void give_groups(void *context, struct stats_functions *f)
{
    const struct grouped *g = context;
    size_t first = 0;
    for (size_t i = 0; i < g->n_parts; i++) {
        const struct grouped_part *part = &g->parts[i];
        for (uint32_t node = 1; node < part->stacks->n_nodes; node++) {
            arena_spend(g->arena, 4);
            if (part->stacks->self[node] > 0)
                give_node(g, part, first, node, f);
        }
        first += part->n_groups;
    }
}

static int read_grouped(struct canary *k, struct store_select *select, struct arena *arena,
                        struct stats_functions *f, struct grouped_part *part, struct err *e)
{
    struct look *l = k->look;
    struct store_answer answer;
    select->with_variance = !k->watched->gauge;
    int code = store_merge(l->c->options.store, select, arena, &part->stacks, &answer, e);
    if (!code)
        code = query_functions(part->stacks, arena, &part->functions, e);
    if (code)
        return code;
    job_rest(l->c, arena);
    part->weight = gauge_weight(k->watched, part->stacks->symbols);
    part->rows = arena_array(arena, (size_t)part->functions->n + 1, sizeof *part->rows);
    for (uint32_t i = 0; i < part->functions->n; i++)
        part->rows[i] = stats_functions_row(f, part->functions->items[i].name);
    return 0;
}

// Adds the pods of a version to g, and their number to f. matchers: of select, with room for one.
static int read_pods(struct canary *k, struct store_select *select, struct store_matcher *matchers,
                     const struct query_pods *pods, struct store_blocks *blocks, struct grouped *g,
                     size_t *n, struct stats_functions *f, struct err *e)
{
    // A merge of a gauge has no blocks.
    bool is_grouped = blocks->n_groups && pods->n_groups > 1, gauge = k->watched->gauge;
    size_t merges = is_grouped && gauge ? pods->n_groups : 1;
    select->blocks = is_grouped && !gauge ? blocks : NULL;
    select->n_matchers += merges > 1;
    for (size_t i = 0; i < merges; i++) {
        struct grouped_part *part = &g->parts[g->n_parts];
        if (merges > 1)
            matchers[select->n_matchers - 1] = (struct store_matcher){
                STORE_EQ, pods->label, pods->items[i * pods->n / merges], NULL};
        int code = read_grouped(k, select, g->arena, f, part, e);
        if (code)
            return code;
        // A pod may have another label.
        if (merges > 1 && part->stacks->n_nodes < 2)
            continue;
        part->n_groups = select->blocks ? pods->n_groups : 1;
        *n += part->n_groups;
        g->n_parts++;
    }
    return 0;
}

static int compare_pods(struct canary *k, const struct run *run, const struct store_label *versions,
                        uint32_t *frames, struct arena *arena, struct stats_functions *f,
                        struct err *e)
{
    struct look *l = k->look;
    struct store_matcher matchers[2][WINDOW_MATCHERS];
    struct store_select selects[2];
    struct query_blocks blocks;
    struct store_answer answer;
    struct grouped g = {
        .seconds = (double)(run->end - run->start) / 1e9, .frames = frames, .arena = arena};
    for (int i = 0; i < 2; i++)
        selects[i] = window_select(l, k->watched, &versions[i], run->start, run->end, matchers[i]);
    int code = query_blocks(l->c->options.store, selects, arena, &blocks, &answer, e);
    if (code)
        return code;
    g.parts =
        arena_array(arena, blocks.pods[0].n_groups + blocks.pods[1].n_groups + 2, sizeof *g.parts);
    stats_functions_init(f, (size_t[]){0, 0}, arena);
    for (int i = 0; i < 2; i++) {
        struct store_blocks *b = &blocks.sides[i];
        b->origin = run->start;
        b->step = run->end - run->start;
        b->n_windows = 1;
        code =
            read_pods(k, &selects[i], matchers[i], &blocks.pods[i], b, &g, &f->n_profiles[i], f, e);
        if (code)
            return code;
    }
    f->each = give_groups;
    f->context = &g;
    stats_functions_compare(f, STATS_CHANGES_LEVEL);
    return 0;
}

static bool is_confirmed(struct stats_functions *f, const struct stats_entry *e)
{
    uint32_t at = stats_functions_row(f, e->function);
    const struct stats_function *row = &f->rows[at];
    return (e->measured == STATS_SELF ? row->self.mark : row->total.mark) != STATS_NOISE;
}

// --- a comparison ---

// A version without what the one before costs: that one's entry is gone when all have it.
static bool is_undone(const struct look *l, const struct known *known, const struct stats_entry *e)
{
    for (size_t i = 0; i < known->n && e->after < e->before; i++)
        if (known->entries[i].verdict == STATS_LASTING && known->entries[i].high >= l->begin &&
            known->entries[i].after > known->entries[i].before &&
            str_eq(known->entries[i].function, e->function))
            return true;
    return false;
}

// Known ones that may be the same change: what was over before the version came is another one.
static struct stats_entry *choose_known(const struct look *l, const struct known *known,
                                        const struct run_version *after, struct arena *arena,
                                        size_t *n)
{
    struct stats_entry *to = arena_array(arena, known->n + 1, sizeof *to);
    *n = 0;
    for (size_t i = 0; i < known->n; i++)
        if (known->entries[i].verdict != STATS_UNSURE &&
            known->entries[i].high >= after->deploy - l->window)
            to[(*n)++] = known->entries[i];
    return to;
}

static int write_compared(struct canary *k, const struct run *run, int64_t looks, struct err *e)
{
    int code;
    sqlite3_stmt *s = db_prepare(
        k->look->db, "INSERT OR REPLACE INTO canary VALUES(?, ?, ?, ?, ?, ?, ?)", &code, e);
    if (!s)
        return code;
    sqlite3_bind_int64(s, 1, k->watched->id);
    db_bind_str(s, 2, run->versions[0]->text);
    db_bind_str(s, 3, run->versions[1]->text);
    sqlite3_bind_int64(s, 4, run->versions[1]->deploy);
    sqlite3_bind_int64(s, 5, run->end);
    sqlite3_bind_int64(s, 6, (int64_t)run->n);
    sqlite3_bind_int64(s, 7, looks);
    return db_run(k->look->db, s, e);
}

// The windows of a run in the history; NULL: not all of them are there.
static const struct stats_window *windows_of(const struct history *h, const struct run *run)
{
    size_t i = 0;
    while (i < h->n && h->windows[i].start < run->start)
        i++;
    bool complete = i + run->n <= h->n && h->windows[i].start == run->start &&
                    h->windows[i + run->n - 1].end == run->end;
    return complete ? h->windows + i : NULL;
}

static struct store_label canary_label(const struct run_version *v)
{
    size_t at = str_find(v->text, STR("="), 0);
    return (struct store_label){str_from_to(v->text, 0, at),
                                str_from_to(v->text, at + 1, v->text.n)};
}

// Whether an entry that was left out is the reason for this one.
static bool is_baseless(const struct stats_report *report, const bool *is_out,
                        const struct stats_entry *e)
{
    for (size_t i = 0; i < report->n && e->verdict != STATS_LASTING; i++)
        if (is_out[i] && str_eq(report->entries[i].function, e->because))
            return true;
    return false;
}

// What remains of a report: changes of the version, in the units of other entries.
static void keep_certain(struct canary *k, const struct run *run, const struct known *known,
                         struct stats_functions *pods, double level, struct arena *arena,
                         struct stats_report *report)
{
    double load = report->scale * (double)run->profiles[0] / (double)run->profiles[1];
    struct stats_entry *entries = arena_array(arena, report->n + 1, sizeof *entries);
    bool *is_out = arena_array(arena, report->n + 1, sizeof *is_out);
    size_t kept = 0;
    for (size_t i = 0; i < report->n; i++) {
        const struct stats_entry *e = &report->entries[i];
        is_out[i] = !is_confirmed(pods, e) ||
                    stats_entry_is_due_to_load(e, load, report->scale_deviation, level);
    }
    for (size_t i = 0; i < report->n; i++) {
        struct stats_entry *e = &entries[kept];
        *e = report->entries[i];
        if (is_out[i] || is_baseless(report, is_out, e) || is_undone(k->look, known, e))
            continue;
        if (k->watched->gauge && e->after != e->before) {
            double all = e->cost / (e->after - e->before);
            e->before *= all;
            e->after *= all;
            e->deviation *= all;
        }
        kept++;
    }
    report->entries = entries;
    report->n = kept;
}

static int keep_comparison(struct canary *k, const struct run *run, struct known *known,
                           const struct stats_report *report,
                           const struct changes_versions *versions, int64_t looks, size_t *n,
                           struct err *e)
{
    struct look *l = k->look;
    int code = look_begin(l, k->watched, e);
    if (!code)
        code = entries_add(l, k->watched, known, report->entries, report->n, versions, n, e);
    if (!code)
        code = write_compared(k, run, looks, e);
    return state_end(l->db, code, e);
}

static int compare_run(struct canary *k, const struct run *run, struct arena *arena, size_t *n,
                       struct err *e)
{
    struct look *l = k->look;
    struct known known;
    struct stats_report report;
    struct stats_functions pods;
    size_t n_same;
    const struct run_version *after = run->versions[1];
    const struct stats_window *windows = windows_of(&k->history, run);
    const struct compared *last = find_compared(k, run);
    const struct store_label labels[2] = {canary_label(run->versions[0]), canary_label(after)};
    const struct stats_marker marker = {after->deploy, after->text};
    struct stacks_reader reader = {.look = l,
                                   .watched = k->watched,
                                   .history = &k->history,
                                   .arena = arena,
                                   .versions = labels,
                                   .frames = arena_array(arena, MAX_DEPTH, sizeof *reader.frames)};
    if (!windows)
        return 0;
    int code = entries_load(l, k->watched, arena, &known, e);
    if (code)
        return code;
    // Not absolute: how much memory a version uses depends on how many pods have it.
    struct stats_service service = {
        .history = {.n = run->n, .windows = windows, .lasting = l->c->options.lasting},
        .functions = k->history.functions,
        .n_functions = k->history.n_functions,
        .stacks = range_stacks,
        .context = &reader,
    };
    // 1/2 + 1/6 + 1/12 + ... = 1: all comparisons of a deploy together have the level.
    int64_t looks = last ? last->looks + 1 : 1;
    double level = STATS_CHANGES_LEVEL / (double)(looks * (looks + 1));
    struct stats_entry *same = choose_known(l, &known, after, arena, &n_same);
    stats_changes_compare(&service, &marker, same, n_same, level, arena, &report);
    if (report.n)
        code = compare_pods(k, run, labels, reader.frames, arena, &pods, e);
    if (code)
        return code;
    double profiles = 0;
    for (size_t i = 0; i < run->n; i++)
        profiles += windows[i].profiles;
    keep_certain(k, run, &known, &pods, level, arena, &report);
    const struct changes_versions versions = {.label = labels[0].name,
                                              .before = labels[0].value,
                                              .after = labels[1].value,
                                              .part = (double)run->profiles[1] / profiles};
    return keep_comparison(k, run, &known, &report, &versions, looks, n, e);
}

// In memory of its own.
static int try_run(struct canary *k, const struct run *run, size_t *n, struct err *e)
{
    struct look *l = k->look;
    struct arena_trap trap;
    l->chunk = arena_new_in(&l->c->budget, 0);
    if (!l->chunk)
        return err_set(e, "out of memory"), STORE_BUSY;
    int code;
    if (ARENA_TRY(l->chunk, trap)) {
        arena_caught(l->chunk, e);
        db_rollback(l->db);
        code = STORE_BUSY;
    } else {
        code = compare_run(k, run, l->chunk, n, e);
        if (!code)
            job_rest(l->c, l->chunk);
        arena_try_end(l->chunk);
    }
    arena_free(l->chunk);
    l->chunk = NULL;
    return code;
}

int canary_series(struct look *l, const struct watched *w, struct arena *arena, size_t *n,
                  struct err *e)
{
    struct canary k = {.look = l, .watched = w};
    bool any;
    *n = 0;
    int code = has_versions(l, w, &any, e);
    if (code || !any)
        return code;
    code = runs_load(l, w, arena, &k.runs, e);
    if (!code)
        code = load_compared(&k, arena, e);
    if (!code)
        code = update_entries(&k, arena, e);
    int done = 0;
    for (size_t i = 0; i < k.runs.n && done < MAX_AT_ONCE && !code; i++) {
        if (!is_due(&k, &k.runs.items[i]))
            continue;
        if (!done++)
            code = windows_load(l, w, arena, &k.history, e);
        if (!code)
            code = try_run(&k, &k.runs.items[i], n, e);
    }
    return code;
}
