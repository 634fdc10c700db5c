#include "stats/shifts.h"

#include <math.h>

#include "base/sort.h"

enum { NONE = UINT32_MAX };

// A row that changed, for whatever reason.
struct mover {
    uint32_t row;
    bool by_self; // what changed is its self value
    bool grew, is_culprit;
    bool is_fresh; // new, or gone
    bool is_paired;
    double change; // beyond the scale; positive
    uint32_t caller;
    double caller_value; // of the caller that has most of it
    uint32_t set;        // the mover that stands for all movers of a shift
};

// How much of a mover comes from one of its callers.
struct call {
    uint32_t mover, caller;
    double value;
};

struct finder {
    struct stats_functions *f;
    struct mover *movers;
    uint32_t n;
    uint32_t *paired; // the movers that pairs are looked for
    uint32_t n_paired;
    uint32_t *mover_of_row; // + 1; 0: none
    struct call *calls;
    size_t n_calls, cap_calls;
    struct hash_table index;
    struct stats_cell *cells; // per mover that stands for a shift, a cell per profile
    size_t *seen, n_seen;     // per mover: the last sample that was counted
};

// --- names ---

static bool is_digits(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
    return s.n > 0;
}

static bool is_clone_word(struct str s)
{
    static const char *const words[] = {"cold", "part",       "isra",     "constprop",
                                        "llvm", "localalias", "lto_priv", "clone"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (str_eq(s, str_from(words[i])))
            return true;
    return false;
}

// Without " [clone .isra.0]" and without .isra.0, .llvm.123, .cold, ...
static struct str without_clone(struct str name)
{
    size_t clone = str_find(name, STR(" [clone "), 0);
    name.n = clone == SIZE_MAX ? name.n : clone;
    for (size_t end = name.n; end > 1; end--) {
        if (name.p[end - 1] != '.')
            continue;
        struct str word = str_from_to(name, end, name.n);
        size_t dot = str_find(word, STR("."), 0);
        struct str first = dot == SIZE_MAX ? word : str_from_to(word, 0, dot);
        if (is_clone_word(first))
            name.n = end - 1;
        else if (!is_digits(word))
            break;
    }
    return name;
}

// The length without the digits at the start of s, if they count closures and the like.
static size_t skip_count(struct str name, size_t at)
{
    if (at == 0 || (name.p[at - 1] != '#' && !(at > 1 && name.p[at - 2] == '$')))
        return at;
    while (at < name.n && name.p[at] >= '0' && name.p[at] <= '9')
        at++;
    return at;
}

bool stats_same_origin(struct str a, struct str b)
{
    a = without_clone(a);
    b = without_clone(b);
    size_t i = 0, k = 0;
    for (;;) {
        i = skip_count(a, i);
        k = skip_count(b, k);
        if (i == a.n || k == b.n)
            return i == a.n && k == b.n;
        if (a.p[i++] != b.p[k++])
            return false;
    }
}

// --- movers and their callers ---

static void add_mover(struct finder *d, uint32_t row)
{
    const struct stats_function *r = &d->f->rows[row];
    struct mover m = {.row = row, .caller = NONE, .set = d->n};
    if (r->self.mark == STATS_NOISE && r->total.mark == STATS_NOISE)
        return;
    m.by_self = r->total.mark == STATS_NOISE ||
                (r->total.mark != STATS_CHANGED && r->self.mark == STATS_CHANGED);
    const struct stats_measure *measure = m.by_self ? &r->self : &r->total;
    double before = stats_scale(&d->f->fit) * measure->change.before, after = measure->change.after;
    m.grew = after > before;
    m.change = fabs(after - before);
    m.is_culprit = measure->mark == STATS_CHANGED;
    m.is_fresh = fmin(before, after) <= 0.05 * fmax(before, after);
    d->movers[d->n] = m;
    d->mover_of_row[row] = ++d->n;
}

static void count_call(struct finder *d, uint32_t mover, uint32_t caller, double value)
{
    uint64_t hash = hash_mix(mover, caller);
    for (struct hash_probe at = hash_find(&d->index, hash); hash_hit(&d->index, &at);
         hash_next(&d->index, &at)) {
        struct call *call = &d->calls[at.item];
        if (call->mover == mover && call->caller == caller) {
            call->value += value;
            return;
        }
    }
    d->calls = arena_push(d->f->arena, d->calls, d->n_calls, &d->cap_calls, sizeof *d->calls);
    d->calls[d->n_calls] = (struct call){mover, caller, value};
    hash_add(&d->index, d->f->arena, hash, (uint32_t)d->n_calls++);
}

// Whether the mover at that frame of a sample accounts for the sample: the outermost of a recursion
// does. Frames are visited from the root.
static bool shift_accounts_for(struct finder *d, uint32_t mover, bool is_leaf)
{
    if (d->movers[mover].by_self)
        return is_leaf;
    bool first = d->seen[mover] != d->n_seen;
    d->seen[mover] = d->n_seen;
    return first;
}

// Where movers are: those that shrank before, those that grew after.
static void take_callers(struct stats_functions *f, size_t profile, const uint32_t *rows, size_t n,
                         struct stats_cell cell)
{
    struct finder *d = f->shifts;
    bool after = profile >= f->n_profiles[0];
    d->n_seen++;
    for (size_t i = n; i-- > 0;) {
        uint32_t mover = d->mover_of_row[rows[i]];
        if (!mover || d->movers[mover - 1].grew != after ||
            !shift_accounts_for(d, mover - 1, i == 0))
            continue;
        size_t above = i + 1; // a function that calls itself is not its own caller
        while (above < n && rows[above] == rows[i])
            above++;
        count_call(d, mover - 1, above < n ? rows[above] : NONE, cell.value);
    }
}

static void find_callers(struct finder *d)
{
    d->f->take = take_callers;
    d->f->each(d->f->context, d->f);
    for (size_t i = 0; i < d->n_calls; i++) {
        const struct call *call = &d->calls[i];
        struct mover *m = &d->movers[call->mover];
        if (call->value > m->caller_value) {
            m->caller_value = call->value;
            m->caller = call->caller;
        }
    }
}

// --- pairs ---

static uint32_t set_of(struct finder *d, uint32_t mover)
{
    while (d->movers[mover].set != mover)
        mover = d->movers[mover].set;
    return mover;
}

static bool same_row(struct finder *d, uint32_t a, uint32_t b)
{
    if (a == b)
        return true;
    if (a == NONE || b == NONE || !d->mover_of_row[a] || !d->mover_of_row[b])
        return false;
    return set_of(d, d->mover_of_row[a] - 1) == set_of(d, d->mover_of_row[b] - 1);
}

// Under the same caller, or between a caller's own code and its callee.
static bool are_related(struct finder *d, const struct mover *a, const struct mover *b)
{
    return same_row(d, a->caller, b->caller) || (b->by_self && a->caller == b->row) ||
           (a->by_self && b->caller == a->row);
}

// How well they fit, the best is 2; 0: not at all.
static double shift_fitness(struct finder *d, const struct mover *fresh, const struct mover *other)
{
    const struct stats_function *rows = d->f->rows;
    double ratio = other->change / fmax(fresh->change, 1e-300);
    if (fresh->grew == other->grew || !are_related(d, fresh, other))
        return 0;
    if (stats_same_origin(rows[fresh->row].name, rows[other->row].name))
        return 2;
    return fresh->is_fresh && ratio >= 0.5 ? fmin(ratio, 1 / ratio) : 0;
}

static int by_shift_change(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

// The movers that changed most: the time to compare pairs is quadratic, and with this many the
// small ones do not matter.
static void choose_movers(struct finder *d)
{
    enum { MOST = 4096 };
    struct arena *arena = d->f->arena;
    double *changes = arena_array(arena, d->n, sizeof *changes), least = 0;
    d->paired = arena_array(arena, d->n < MOST ? d->n : MOST, sizeof *d->paired);
    for (uint32_t i = 0; i < d->n; i++)
        changes[i] = d->movers[i].change;
    if (d->n > MOST) {
        sort_items(arena, changes, d->n, sizeof *changes, by_shift_change);
        least = changes[MOST - 1];
    }
    for (uint32_t i = 0; i < d->n && d->n_paired < MOST; i++)
        if (d->movers[i].change >= least)
            d->paired[d->n_paired++] = i;
}

static bool pair_with_best(struct finder *d, uint32_t i)
{
    struct mover *m = &d->movers[i];
    double best = 0;
    uint32_t other = NONE;
    arena_spend(d->f->arena, d->n_paired);
    for (uint32_t k = 0; k < d->n_paired; k++) {
        double fit = shift_fitness(d, m, &d->movers[d->paired[k]]);
        if (fit > best) {
            best = fit;
            other = d->paired[k];
        }
    }
    if (other == NONE)
        return false;
    m->is_paired = true;
    d->movers[set_of(d, i)].set = set_of(d, other);
    return true;
}

// Callers that were renamed as well become the same caller once they are paired.
static void pair_movers(struct finder *d)
{
    enum { MOST_ROUNDS = 16 };
    bool more = true;
    for (int round = 0; more && round < MOST_ROUNDS; round++) {
        more = false;
        for (uint32_t i = 0; i < d->n_paired; i++)
            if (!d->movers[d->paired[i]].is_paired)
                more |= pair_with_best(d, d->paired[i]);
    }
}

// Stacks in which a culprit of another shift, or of none, is called by one of these are not
// counted: it is judged by itself. Frames are visited from the leaf.
static void take_pairs(struct stats_functions *f, size_t profile, const uint32_t *rows, size_t n,
                       struct stats_cell cell)
{
    struct finder *d = f->shifts;
    size_t k = f->n_profiles[0] + f->n_profiles[1];
    uint32_t inner = NONE; // the set of the culprits that were visited
    bool mixed = false;
    d->n_seen++;
    for (size_t i = 0; i < n; i++) {
        uint32_t mover = d->mover_of_row[rows[i]];
        if (!mover || (d->movers[mover - 1].by_self && i > 0))
            continue;
        uint32_t set = set_of(d, mover - 1);
        bool other = mixed || (inner != NONE && inner != set);
        if (d->movers[mover - 1].is_culprit) {
            mixed |= other;
            inner = set;
        }
        if (other || d->seen[set] == d->n_seen)
            continue;
        d->seen[set] = d->n_seen;
        d->cells[set * k + profile].value += cell.value;
        d->cells[set * k + profile].variance += cell.variance;
    }
}

static void measure_pairs(struct finder *d, struct stats_shifts *shifts)
{
    struct stats_functions *f = d->f;
    size_t k = f->n_profiles[0] + f->n_profiles[1];
    uint32_t *shift_of_set = arena_array(f->arena, (size_t)d->n + 1, sizeof *shift_of_set);
    uint32_t *size_of_set = arena_array(f->arena, (size_t)d->n + 1, sizeof *size_of_set);
    d->cells = arena_array(f->arena, d->n * k + 1, sizeof *d->cells);
    f->take = take_pairs;
    f->each(f->context, f);
    for (uint32_t i = 0; i < d->n; i++)
        size_of_set[set_of(d, i)]++;
    for (uint32_t i = 0; i < d->n; i++) {
        const struct mover *m = &d->movers[i];
        uint32_t set = set_of(d, i);
        if (size_of_set[set] < 2)
            continue;
        if (!shift_of_set[set]) {
            struct stats_shift *s = &shifts->items[shifts->n];
            *s = (struct stats_shift){
                NONE, NONE, {.change = stats_test(&f->fit, d->cells + set * k)}};
            s->measure.mark = s->measure.change.p <= f->cutoff ? STATS_CHANGED : STATS_NOISE;
            shift_of_set[set] = (uint32_t)++shifts->n;
        }
        struct stats_shift *s = &shifts->items[shift_of_set[set] - 1];
        uint32_t *best = m->grew ? &s->to : &s->from;
        if (*best == NONE || m->change > d->movers[d->mover_of_row[*best] - 1].change)
            *best = m->row;
        shifts->of_row[m->row] = shift_of_set[set];
    }
}

// --- new functions between a caller and its callees ---

// The closest caller that is not new itself; NONE: there is none.
static uint32_t old_caller(const struct finder *d, const struct mover *m)
{
    uint32_t row = m->caller;
    for (uint32_t i = 0; i < d->n && row != NONE && d->mover_of_row[row]; i++) {
        const struct mover *caller = &d->movers[d->mover_of_row[row] - 1];
        if (!caller->grew || !caller->is_fresh)
            break;
        row = caller->caller;
    }
    return row;
}

static void add_inserted(struct finder *d, struct mover *m, struct stats_shifts *shifts)
{
    struct stats_functions *f = d->f;
    uint32_t caller = old_caller(d, m);
    if (caller == NONE || caller == m->row)
        return;
    struct stats_measure whole = f->rows[caller].total;
    double grown = whole.change.after - stats_scale(&f->fit) * whole.change.before;
    if (grown + whole.change.half_width >= m->change / 2)
        return;
    // If it grew because of another culprit, that one is judged.
    bool own =
        whole.mark == STATS_CHANGED || (whole.mark == STATS_CALLEE && whole.because == m->row);
    whole.mark = own ? STATS_CHANGED : STATS_NOISE;
    shifts->items[shifts->n] = (struct stats_shift){m->row, caller, whole};
    shifts->of_row[m->row] = (uint32_t)++shifts->n;
}

void stats_shifts_find(struct stats_functions *f, struct stats_shifts *shifts)
{
    struct finder d = {.f = f};
    d.movers = arena_array(f->arena, f->n + 1, sizeof *d.movers);
    d.mover_of_row = arena_array(f->arena, f->n + 1, sizeof *d.mover_of_row);
    d.seen = arena_array(f->arena, f->n + 1, sizeof *d.seen);
    hash_init(&d.index, f->arena, 256);
    *shifts = (struct stats_shifts){
        .items = arena_array(f->arena, f->n + 1, sizeof *shifts->items),
        .of_row = arena_array(f->arena, f->n + 1, sizeof *shifts->of_row),
    };
    for (uint32_t i = 0; i < f->n; i++)
        add_mover(&d, i);
    if (!d.n)
        return;
    f->shifts = &d;
    find_callers(&d);
    choose_movers(&d);
    pair_movers(&d);
    measure_pairs(&d, shifts);
    for (uint32_t i = 0; i < d.n; i++) {
        struct mover *m = &d.movers[i];
        if (m->grew && m->is_fresh && m->is_culprit && !shifts->of_row[m->row])
            add_inserted(&d, m, shifts);
    }
    f->shifts = NULL;
}
