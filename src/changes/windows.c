#include <math.h>

#include "base/sort.h"
#include "changes/look.h"

enum {
    MAX_FUNCTIONS = 4096, // of a window: the largest
    MAX_SCANNED = 16384,  // of a history: those that are in most windows
    CHUNK = 24,           // windows that are asked for and committed together
    RECENT = 26,          // windows that are compared with the store at each look
};
// Of the time between two points in which versions are looked for.
#define VERSION_STEP (INT64_C(300) * 1000000000)

struct stats_cell window_cell(double value, double variance, double weight, double seconds)
{
    if (weight > 0)
        return (struct stats_cell){value * seconds, value * weight * seconds * seconds};
    return (struct stats_cell){value, variance};
}

double gauge_weight(const struct watched *w, const struct model_profile *symbols)
{
    if (!w->gauge)
        return 0;
    // Bytes in use are sampled every so many bytes. What is counted one by one is worth one.
    bool bytes = str_find(w->type, STR(":bytes:"), 0) != SIZE_MAX;
    return bytes && symbols->period > 1 ? (double)symbols->period : 1;
}

struct store_select window_select(const struct look *l, const struct watched *w,
                                  const struct store_label *version, int64_t start, int64_t end,
                                  struct store_matcher matchers[WINDOW_MATCHERS])
{
    matchers[0] = (struct store_matcher){STORE_EQ, STR("service_name"), w->service, NULL};
    if (version)
        matchers[1] = (struct store_matcher){STORE_EQ, version->name, version->value, NULL};
    return (struct store_select){.tenant = l->tenant,
                                 .type = w->type,
                                 .matchers = matchers,
                                 .n_matchers = version ? 2 : 1,
                                 .start = start,
                                 .end = end - 1};
}

int windows_merge(const struct look *l, const struct watched *w, const struct store_label *version,
                  int64_t start, int64_t end, struct arena *arena, struct store_stacks **stacks,
                  struct err *e)
{
    struct store_matcher matchers[WINDOW_MATCHERS];
    struct store_select select = window_select(l, w, version, start, end, matchers);
    struct store_answer answer;
    select.with_variance = !w->gauge;
    return store_merge(l->c->options.store, &select, arena, stacks, &answer, e);
}

// --- the functions of a window, packed ---
//
// A function is the difference of its number to the one before, a byte of flags and up to four
// numbers of four bytes: self, its weight, total, its weight. A weight is variance / value; that of
// the function before is not repeated.

enum { NO_SELF = 1, TOTAL_IS_SELF = 2, SELF_WEIGHT = 4, TOTAL_WEIGHT = 8 };

struct packed {
    int64_t id;
    struct query_cost cost;
};

static int compare_window_ids(const void *a, const void *b)
{
    int64_t x = ((const struct packed *)a)->id, y = ((const struct packed *)b)->id;
    return (x > y) - (x < y);
}

static void put_float(struct out *out, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    for (int i = 0; i < 4; i++)
        out_char(out, (char)(bits >> 8 * i));
}

static float weight_of(double value, double variance)
{
    return value > 0 ? (float)(variance / value) : 0;
}

static struct str pack_functions(struct packed *items, size_t n, struct arena *arena)
{
    struct out out;
    int64_t last = 0;
    float weight = 0;
    out_init_arena(&out, arena);
    sort_items(arena, items, n, sizeof *items, compare_window_ids);
    for (size_t i = 0; i < n; i++) {
        const struct query_cost *c = &items[i].cost;
        float self = weight_of(c->self, c->self_variance);
        float total = weight_of(c->total, c->total_variance);
        bool same = c->total == c->self && c->total_variance == c->self_variance;
        uint8_t flags = (c->self == 0 ? NO_SELF : 0) | (same ? TOTAL_IS_SELF : 0);
        if (c->self != 0 && self != weight) {
            flags |= SELF_WEIGHT;
            weight = self;
        }
        if (!same && total != weight)
            flags |= TOTAL_WEIGHT;
        uint64_t delta = (uint64_t)(items[i].id - last);
        last = items[i].id;
        for (; delta >= 128; delta >>= 7)
            out_char(&out, (char)(delta | 128));
        out_char(&out, (char)delta);
        out_char(&out, (char)flags);
        if (!(flags & NO_SELF))
            put_float(&out, (float)c->self);
        if (flags & SELF_WEIGHT)
            put_float(&out, self);
        if (!same)
            put_float(&out, (float)c->total);
        if (flags & TOTAL_WEIGHT) {
            put_float(&out, total);
            weight = total;
        }
    }
    return out_result(&out);
}

struct unpacking {
    const uint8_t *p;
    size_t n;
    int64_t id;
    float weight;
};

static bool take_float(struct unpacking *u, float *value)
{
    uint32_t bits = 0;
    if (u->n < 4)
        return false;
    for (int i = 0; i < 4; i++)
        bits |= (uint32_t)u->p[i] << 8 * i;
    memcpy(value, &bits, sizeof bits);
    u->p += 4;
    u->n -= 4;
    return isfinite(*value);
}

// False at the end (n is 0 then), or if the bytes are damaged.
static bool unpack_function(struct unpacking *u, struct stats_cell *self, struct stats_cell *total)
{
    uint64_t delta = 0;
    unsigned shift = 0;
    float value = 0;
    uint8_t byte = 128;
    for (; u->n && shift < 63 && byte & 128; u->n--, shift += 7) {
        byte = *u->p++;
        delta |= (uint64_t)(byte & 127) << shift;
    }
    if (byte & 128 || !u->n)
        return false;
    u->id = (int64_t)((uint64_t)u->id + delta);
    uint8_t flags = *u->p++;
    u->n--;
    *self = (struct stats_cell){0};
    if ((!(flags & NO_SELF) && !take_float(u, &value)) ||
        (flags & SELF_WEIGHT && !take_float(u, &u->weight)))
        return false;
    if (!(flags & NO_SELF))
        *self = (struct stats_cell){(double)value, (double)value * (double)u->weight};
    *total = *self;
    if (flags & TOTAL_IS_SELF)
        return true;
    if (!take_float(u, &value) || (flags & TOTAL_WEIGHT && !take_float(u, &u->weight)))
        return false;
    *total = (struct stats_cell){(double)value, (double)value * (double)u->weight};
    return true;
}

// --- numbers of functions ---

struct numbered {
    int64_t id, used;
    struct str name;
};

struct numbers {
    struct arena *arena;
    struct numbered *items;
    size_t n, cap;
    struct hash_table index;
};

static void add_number(struct numbers *f, struct numbered item)
{
    f->items = arena_push(f->arena, f->items, f->n, &f->cap, sizeof *f->items);
    f->items[f->n] = item;
    hash_add(&f->index, f->arena, hash_bytes(item.name.p, item.name.n, 0), (uint32_t)f->n++);
}

static struct numbered *find_number(struct numbers *f, struct str name)
{
    uint64_t hash = hash_bytes(name.p, name.n, 0);
    for (struct hash_probe at = hash_find(&f->index, hash); hash_hit(&f->index, &at);
         hash_next(&f->index, &at))
        if (str_eq(f->items[at.item].name, name))
            return &f->items[at.item];
    return NULL;
}

static int load_numbers(const struct look *l, const struct watched *w, struct arena *arena,
                        struct numbers *f, struct err *e)
{
    int code;
    *f = (struct numbers){.arena = arena};
    hash_init(&f->index, arena, 512);
    sqlite3_stmt *s = db_prepare(
        l->db, "SELECT id, used, name FROM function WHERE series = ? ORDER BY id", &code, e);
    if (!s)
        return code;
    sqlite3_bind_int64(s, 1, w->id);
    while ((code = state_step(l->db, s, e)) > 0)
        add_number(f, (struct numbered){sqlite3_column_int64(s, 0), sqlite3_column_int64(s, 1),
                                        state_text(s, 2, arena)});
    return code;
}

// The number of a function that a window has; it is used now and then at least.
static int window_number(struct look *l, const struct watched *w, struct numbers *f,
                         struct str name, int64_t time, int64_t *id, struct err *e)
{
    int code;
    struct numbered *known = find_number(f, name);
    if (known && known->used > time - CHUNK * l->window) {
        *id = known->id;
        return 0;
    }
    sqlite3_stmt *s = db_prepare(l->db,
                                 "INSERT INTO function(series, name, used) VALUES(?, ?, ?) "
                                 "ON CONFLICT(series, name) DO UPDATE SET used = excluded.used "
                                 "RETURNING id",
                                 &code, e);
    if (!s)
        return code;
    sqlite3_bind_int64(s, 1, w->id);
    db_bind_str(s, 2, name);
    sqlite3_bind_int64(s, 3, time);
    code = state_step(l->db, s, e);
    if (code > 0)
        *id = sqlite3_column_int64(s, 0);
    sqlite3_reset(s);
    if (code <= 0)
        return code ? code : err_set(e, "the database is damaged: a function has no number");
    if (known)
        known->used = time;
    else
        add_number(f, (struct numbered){*id, time, {arena_copy(f->arena, name.p, name.n), name.n}});
    return 0;
}

// --- reading ---

struct read_window {
    int64_t time;
    uint64_t profiles, kept; // in the store, and in what is kept; kept 0: not
    struct stats_cell total;
    struct packed *functions; // without their ids
    size_t n_functions;
};

static int compare_window_totals(const void *a, const void *b)
{
    const struct query_cost *x = &((const struct packed *)a)->cost;
    const struct query_cost *y = &((const struct packed *)b)->cost;
    return x->total != y->total ? (x->total < y->total ? 1 : -1) : str_cmp(x->name, y->name);
}

// What is kept of the functions, in arena.
static void take_functions(const struct query_functions *f, double weight, double seconds,
                           struct arena *arena, struct read_window *r)
{
    struct packed *items = arena_array(arena, f->n + 1, sizeof *items);
    size_t n = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        const struct query_cost *c = &f->items[i];
        if (!(c->total > 0))
            continue;
        struct stats_cell self = window_cell(c->self, c->self_variance, weight, seconds);
        struct stats_cell total = window_cell(c->total, c->total_variance, weight, seconds);
        items[n++].cost =
            (struct query_cost){c->name, self.value, self.variance, total.value, total.variance};
    }
    if (n > MAX_FUNCTIONS) {
        sort_items(arena, items, n, sizeof *items, compare_window_totals);
        n = MAX_FUNCTIONS;
    }
    for (size_t i = 0; i < n; i++) {
        struct str *name = &items[i].cost.name;
        *name = (struct str){arena_copy(arena, name->p, name->n), name->n};
    }
    r->functions = items;
    r->n_functions = n;
}

static int merge_window(struct look *l, const struct watched *w, struct arena *arena,
                        struct read_window *r, struct err *e)
{
    struct arena *scratch = arena_new_in(&l->c->budget, 0);
    struct store_stacks *stacks;
    struct query_functions *f;
    struct arena_trap trap;
    if (!scratch)
        return err_set(e, "out of memory"), STORE_BUSY;
    int code = windows_merge(l, w, NULL, r->time, r->time + l->window, scratch, &stacks, e);
    if (!code)
        code = query_functions(stacks, scratch, &f, e);
    if (!code && ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        arena_free(scratch);
        return STORE_BUSY;
    }
    if (!code) {
        double weight = gauge_weight(w, stacks->symbols), seconds = (double)l->window / 1e9;
        r->total = window_cell(f->value, f->variance, weight, seconds);
        take_functions(f, weight, seconds, arena, r);
        arena_try_end(arena);
    }
    arena_free(scratch);
    return code;
}

static int load_kept(const struct look *l, const struct watched *w, struct read_window *windows,
                     size_t n, struct err *e)
{
    int code;
    sqlite3_stmt *s = db_prepare(
        l->db, "SELECT time, profiles FROM window WHERE series = ? AND time >= ? AND time < ?",
        &code, e);
    if (!s)
        return code;
    sqlite3_bind_int64(s, 1, w->id);
    sqlite3_bind_int64(s, 2, windows[0].time);
    sqlite3_bind_int64(s, 3, windows[n - 1].time + l->window);
    while ((code = state_step(l->db, s, e)) > 0) {
        int64_t i = (sqlite3_column_int64(s, 0) - windows[0].time) / l->window;
        windows[i].kept = (uint64_t)sqlite3_column_int64(s, 1);
    }
    return code;
}

static int write_window(struct look *l, const struct watched *w, struct numbers *f,
                        struct read_window *r, struct arena *arena, struct err *e)
{
    int code = 0;
    if (!r->profiles) {
        sqlite3_stmt *s =
            db_prepare(l->db, "DELETE FROM window WHERE series = ? AND time = ?", &code, e);
        if (!s)
            return code;
        sqlite3_bind_int64(s, 1, w->id);
        sqlite3_bind_int64(s, 2, r->time);
        return db_run(l->db, s, e);
    }
    for (size_t i = 0; i < r->n_functions && !code; i++)
        code = window_number(l, w, f, r->functions[i].cost.name, r->time, &r->functions[i].id, e);
    if (code)
        return code;
    struct str packed = pack_functions(r->functions, r->n_functions, arena);
    sqlite3_stmt *s = db_prepare(
        l->db,
        "INSERT OR REPLACE INTO window(series, time, profiles, value, variance, functions) "
        "VALUES(?, ?, ?, ?, ?, ?)",
        &code, e);
    if (!s)
        return code;
    sqlite3_bind_int64(s, 1, w->id);
    sqlite3_bind_int64(s, 2, r->time);
    sqlite3_bind_int64(s, 3, (int64_t)r->profiles);
    sqlite3_bind_double(s, 4, r->total.value);
    sqlite3_bind_double(s, 5, r->total.variance);
    db_bind_blob(s, 6, packed);
    return db_run(l->db, s, e);
}

static int write_progress(struct look *l, struct watched *w, int64_t until, struct err *e)
{
    int code;
    if (until <= w->read_until)
        return 0;
    sqlite3_stmt *s = db_prepare(l->db, "UPDATE series SET read_until = ? WHERE id = ?", &code, e);
    if (!s)
        return code;
    sqlite3_bind_int64(s, 1, until);
    sqlite3_bind_int64(s, 2, w->id);
    return db_run(l->db, s, e);
}

static int64_t version_step(const struct look *l)
{
    return l->window < VERSION_STEP ? l->window : VERSION_STEP;
}

// Windows of which the number of profiles differs are read, all others left as they are. So
// profiles that came late and those that were deleted are noticed.
static int read_chunk(struct look *l, struct watched *w, struct numbers *f, int64_t from, size_t n,
                      struct arena *arena, struct err *e)
{
    struct read_window *windows = arena_array(arena, n, sizeof *windows);
    bool *is_changed = arena_array(arena, n, sizeof *is_changed);
    struct store_matcher matchers[WINDOW_MATCHERS];
    struct store_answer answer;
    struct store_line *lines;
    size_t n_lines, changed = 0;
    int64_t step = version_step(l);
    for (size_t i = 0; i < n; i++)
        windows[i].time = from + (int64_t)i * l->window;
    // A point is of the step that ends with it: one that begins a nanosecond early has what is
    // from its beginning on.
    struct store_select select =
        window_select(l, w, NULL, from - 1, from + (int64_t)n * l->window, matchers);
    int code = store_lines(l->c->options.store, &select, step, arena, &lines, &n_lines, &answer, e);
    for (size_t i = 0; i < n_lines && !code; i++)
        for (size_t k = 0; k < lines[i].n_points; k++) {
            int64_t at = (lines[i].points[k].index - 1) * step / l->window;
            if (lines[i].points[k].index > 0 && at < (int64_t)n)
                windows[at].profiles += lines[i].points[k].n;
        }
    if (!code)
        code = load_kept(l, w, windows, n, e);
    for (size_t i = 0; i < n && !code; i++) {
        is_changed[i] = windows[i].profiles != windows[i].kept;
        if (!is_changed[i])
            continue;
        changed++;
        if (windows[i].profiles)
            code = merge_window(l, w, arena, &windows[i], e);
        job_rest(l->c, arena);
    }
    if (code || (!changed && from + (int64_t)n * l->window <= w->read_until))
        return code;
    code = look_begin(l, w, e);
    for (size_t i = 0; i < n && !code; i++)
        if (is_changed[i])
            code = write_window(l, w, f, &windows[i], arena, e);
    if (!code)
        code = runs_note(l, w, lines, n_lines, from, step, is_changed, n, arena, e);
    if (!code)
        code = deploys_note(l, w->service, lines, n_lines, from, step, arena, e);
    if (!code)
        code = write_progress(l, w, from + (int64_t)n * l->window, e);
    code = state_end(l->db, code, e);
    if (!code && from + (int64_t)n * l->window > w->read_until)
        w->read_until = from + (int64_t)n * l->window;
    return code;
}

// In memory of its own: a long history is read piece by piece.
static int try_chunk(struct look *l, struct watched *w, struct numbers *f, int64_t from, size_t n,
                     struct err *e)
{
    struct arena_trap trap;
    l->chunk = arena_new_in(&l->c->budget, 0);
    if (!l->chunk)
        return err_set(e, "out of memory"), STORE_BUSY;
    int code = STORE_BUSY;
    if (ARENA_TRY(l->chunk, trap)) {
        arena_caught(l->chunk, e);
        db_rollback(l->db);
    } else {
        code = read_chunk(l, w, f, from, n, l->chunk, e);
        if (!code)
            job_rest(l->c, l->chunk);
        arena_try_end(l->chunk);
    }
    arena_free(l->chunk);
    l->chunk = NULL;
    return code;
}

int windows_read(struct look *l, struct watched *w, struct arena *arena, struct err *e)
{
    struct numbers f;
    if (w->read_until > l->end)
        w->read_until = 0; // the clock was ahead
    int64_t from = w->read_until - RECENT * l->window;
    // Once in CHUNK looks the whole history is compared, at another look for each series.
    bool all = (l->end / l->window + w->id) % CHUNK == 0;
    if (all || from < l->begin)
        from = l->begin;
    int code = load_numbers(l, w, arena, &f, e);
    while (from < l->end && !code) {
        int64_t left = (l->end - from) / l->window;
        size_t n = left < CHUNK ? (size_t)left : CHUNK;
        code = try_chunk(l, w, &f, from, n, e);
        from += (int64_t)n * l->window;
    }
    return code;
}

// --- history ---

// A function of the service may have the same name.
static const struct str others_name = STR("(other functions)");

static void add_point(struct history *h, struct arena *arena, uint32_t function,
                      struct stats_point point)
{
    struct stats_timeline *t = &h->functions[function];
    struct stats_point *points = arena_push(arena, (void *)(uintptr_t)t->points, t->n,
                                            &h->cap_points[function], sizeof *points);
    points[t->n++] = point;
    t->points = points;
}

static int add_window(const struct look *l, const struct numbers *f, struct history *h,
                      sqlite3_stmt *s, struct arena *arena, struct err *e)
{
    int64_t time = sqlite3_column_int64(s, 0);
    struct str packed = db_blob(s, 4);
    struct unpacking u = {(const uint8_t *)packed.p, packed.n, 0, 0};
    struct stats_cell self, total;
    size_t at = 0;
    h->windows = arena_push(arena, h->windows, h->n, &h->cap, sizeof *h->windows);
    h->windows[h->n] =
        (struct stats_window){.start = time,
                              .end = time + l->window,
                              .total = {sqlite3_column_double(s, 2), sqlite3_column_double(s, 3)},
                              .profiles = (double)sqlite3_column_int64(s, 1)};
    while (u.n) {
        if (!unpack_function(&u, &self, &total)) {
            err_set(e, "%s is damaged: restore it from a backup or move it away", l->db->path);
            return STORE_CORRUPT;
        }
        // Both are in the order of their numbers.
        while (at < f->n && f->items[at].id < u.id)
            at++;
        if (at < f->n && f->items[at].id == u.id)
            add_point(h, arena, (uint32_t)at, (struct stats_point){(uint32_t)h->n, self, total});
    }
    h->n++;
    return 0;
}

// Names that are generated, or addresses of programs that restart, make a history of any number of
// functions. One that is in fewer windows than a step must last shows none.
static void drop_rare(const struct look *l, struct history *h)
{
    size_t with[CHANGES_WINDOWS + 1] = {0}, n = 0, from = CHANGES_WINDOWS + 1;
    size_t least = (size_t)(l->c->options.lasting / 3 * 2 / l->window);
    for (size_t i = 0; i < h->n_functions; i++)
        with[h->functions[i].n < CHANGES_WINDOWS ? h->functions[i].n : CHANGES_WINDOWS]++;
    while (from > least && from > 2 && n + with[from - 1] <= MAX_SCANNED)
        n += with[--from];
    for (size_t i = 0; i < h->n_functions; i++)
        if (h->functions[i].n < from)
            h->functions[i].n = 0;
}

int windows_load(const struct look *l, const struct watched *w, struct arena *arena,
                 struct history *h, struct err *e)
{
    struct numbers f;
    *h = (struct history){0};
    int code = load_numbers(l, w, arena, &f, e);
    if (code)
        return code;
    const struct numbered *others = find_number(&f, others_name);
    h->index = f.index;
    h->others = others ? (uint32_t)(others - f.items) : (uint32_t)f.n;
    h->n_functions = f.n + !others;
    h->functions = arena_array(arena, f.n + 1, sizeof *h->functions);
    h->cap_points = arena_array(arena, f.n + 1, sizeof *h->cap_points);
    for (size_t i = 0; i < f.n; i++)
        h->functions[i].name = f.items[i].name;
    h->functions[h->others].name = others_name;
    sqlite3_stmt *s = db_prepare(l->db,
                                 "SELECT time, profiles, value, variance, functions FROM window "
                                 "WHERE series = ? AND time >= ? AND time < ? ORDER BY time",
                                 &code, e);
    if (!s)
        return code;
    sqlite3_bind_int64(s, 1, w->id);
    sqlite3_bind_int64(s, 2, l->begin);
    sqlite3_bind_int64(s, 3, l->end);
    while ((code = state_step(l->db, s, e)) > 0)
        if ((code = add_window(l, &f, h, s, arena, e)))
            break;
    sqlite3_reset(s);
    drop_rare(l, h);
    return code;
}

uint32_t history_function(const struct history *h, struct str name)
{
    uint64_t hash = hash_bytes(name.p, name.n, 0);
    for (struct hash_probe at = hash_find(&h->index, hash); hash_hit(&h->index, &at);
         hash_next(&h->index, &at))
        if (str_eq(h->functions[at.item].name, name))
            return at.item;
    return h->others;
}
