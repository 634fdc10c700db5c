#include "stats/culprits.h"

#include <math.h>

#include "base/sort.h"

#define DAY (INT64_C(86400) * 1000000000)

#define TOGETHER \
    0.9 // of a function's value that is in the stacks of another: it culprit_belongs to it
#define PART 0.02       // of a function's value that a caller has if it is one of its callers
#define NET 0.5         // of a change that may remain in a caller if it is called a shift
#define COUNTERPART 0.3 // of the largest change
#define SAME_LOAD 0.2   // in the logarithm

// Where in the stack the culprit is, the leaf's side first; n: it is not.
static size_t find_row(const struct culprit *c, const uint32_t *rows, size_t n)
{
    size_t at = 0;
    while (at < n && rows[at] != c->row)
        at++;
    return c->self && at ? n : at;
}

static void count_callers(struct stats_stacks *s, struct culprit *c, const uint32_t *rows, size_t n,
                          double value)
{
    size_t at = find_row(c, rows, n);
    if (at == n)
        return;
    for (size_t i = 0; i < LEVELS && at + i < n; i++)
        c->above[i][rows[at + i]] += value;
    size_t caller = at + 1;
    while (caller < n && rows[caller] == c->row)
        caller++;
    if (caller < n)
        c->called[s->at >= s->n[0]][rows[caller]] += value;
    s->n_seen++;
    for (size_t i = 0; i < n; i++) {
        if (s->seen[rows[i]] == s->n_seen)
            continue;
        s->seen[rows[i]] = s->n_seen;
        c->with[rows[i]] += value;
    }
}

static void sum_callers(struct stats_stacks *s, struct culprit *c, const uint32_t *rows, size_t n,
                        struct stats_cell cell)
{
    for (size_t level = 0; level < LEVELS; level++) {
        bool in = false;
        for (size_t i = 0; i < n && !in; i++)
            in = c->above[level][rows[i]] > PART * c->with[c->row];
        if (!in)
            continue;
        c->around[level][s->at].value += cell.value;
        c->around[level][s->at].variance += cell.variance;
    }
}

void stats_stacks_add(struct stats_stacks *s, const uint32_t *functions, size_t n,
                      struct stats_cell cell)
{
    if (s->pass == COMPARE) {
        stats_functions_add(&s->functions, s->at, functions, n, cell);
        return;
    }
    for (size_t i = 0; i < s->n_culprits; i++) {
        arena_spend(s->arena, n);
        if (s->pass == FIND_CALLERS)
            count_callers(s, &s->culprits[i], functions, n, cell.value);
        else
            sum_callers(s, &s->culprits[i], functions, n, cell);
    }
}

static void replay_culprits(void *context, struct stats_functions *f)
{
    (void)f;
    struct stats_stacks *s = context;
    for (s->at = 0; s->at < s->n[0] + s->n[1]; s->at++)
        s->service->stacks(s->service->context, s->ranges[s->at], s->sides[s->at], s);
}

static double scaled_change_of(const struct stats_stacks *s, const struct stats_change *c)
{
    return c->after - s->scale * c->before;
}

static double deviation_of(const struct stats_stacks *s, const struct stats_change *c)
{
    return hypot(c->deviation[1], s->scale * c->deviation[0]);
}

static void push_culprit(struct stats_stacks *s, uint32_t row, bool self)
{
    const struct stats_function *f = &s->functions.rows[row];
    const struct stats_change *c = self ? &f->self.change : &f->total.change;
    struct culprit *to = &s->culprits[s->n_culprits++];
    *to = (struct culprit){.row = row,
                           .self = self,
                           .change = scaled_change_of(s, c),
                           .deviation = deviation_of(s, c),
                           .with = arena_array(s->arena, s->functions.n, sizeof *to->with),
                           .verdict = STATS_LASTING};
    for (int side = 0; side < 2; side++)
        to->called[side] = arena_array(s->arena, s->functions.n, sizeof **to->called);
    for (int i = 0; i < LEVELS; i++) {
        to->above[i] = arena_array(s->arena, s->functions.n, sizeof **to->above);
        to->around[i] = arena_array(s->arena, s->n[0] + s->n[1], sizeof **to->around);
    }
}

struct marked {
    uint32_t row;
    bool self;
    double change;
};

static int by_culprit_change(const void *a, const void *b)
{
    const struct marked *x = a, *y = b;
    double left = fabs(x->change), right = fabs(y->change);
    return left != right ? (left < right ? 1 : -1) : (x->row > y->row) - (x->row < y->row);
}

// The largest changes.
static void find_all_culprits(struct stats_stacks *s)
{
    const struct stats_functions *f = &s->functions;
    struct marked *marked = arena_array(s->arena, f->n + 1, sizeof *marked);
    size_t n = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        // A function whose own code changed explains its total.
        bool self = f->rows[i].self.mark == STATS_CHANGED;
        const struct stats_change *c = self ? &f->rows[i].self.change : &f->rows[i].total.change;
        if (self || f->rows[i].total.mark == STATS_CHANGED)
            marked[n++] = (struct marked){i, self, scaled_change_of(s, c)};
    }
    sort_items(s->arena, marked, n, sizeof *marked, by_culprit_change);
    for (size_t i = 0; i < n && i < MAX_CULPRITS; i++)
        push_culprit(s, marked[i].row, marked[i].self);
}

bool culprit_belongs(const struct culprit *c, uint32_t row)
{
    return c->with[c->row] > 0 && c->with[row] >= TOGETHER * c->with[c->row];
}

// The nearest callers in whose stacks the change does not remain.
static void find_shift(struct stats_stacks *s, struct culprit *c)
{
    for (int level = c->self ? 0 : 1; level < LEVELS; level++) {
        const double *above = c->above[level];
        double sum = 0;
        uint32_t largest = c->row;
        for (uint32_t i = 0; i < s->functions.n; i++) {
            sum += above[i] > PART * c->with[c->row] ? above[i] : 0;
            largest = above[i] > above[largest] ? i : largest;
        }
        struct stats_change around = stats_test(&s->functions.fit, c->around[level]);
        double net = fabs(scaled_change_of(s, &around)) + deviation_of(s, &around) / 2;
        if (sum < TOGETHER * c->with[c->row] || net > NET * fabs(c->change))
            continue;
        c->verdict = STATS_SHIFT;
        c->because = largest;
        return;
    }
}

const struct stats_change *culprit_change(const struct stats_stacks *s, const struct culprit *c)
{
    const struct stats_function *f = &s->functions.rows[c->row];
    return c->self ? &f->self.change : &f->total.change;
}

// How much of the work of one function can have moved to or from another: one calls the other
// (inlining), or the same functions call both. Functions that nobody calls are roots of threads.
static double culprit_relation(const struct stats_stacks *s, const struct culprit *a,
                               const struct culprit *b)
{
    double both = 0, callers[2] = {0};
    for (uint32_t i = 0; i < s->functions.n; i++) {
        double x = a->above[1][i] / a->with[a->row], y = b->above[1][i] / b->with[b->row];
        both += fmin(x, y);
        callers[0] += x;
        callers[1] += y;
    }
    if (callers[0] < PART && callers[1] < PART)
        return 1;
    double calls =
        fmax(a->above[1][b->row] / a->with[a->row], b->above[1][a->row] / b->with[b->row]);
    return fmin(fmax(both, calls), 1);
}

// How much of the change of a function is in what another one calls of it, as a part of it.
static double change_under(const struct stats_stacks *s, const struct culprit *callee,
                           const struct culprit *caller)
{
    double before = callee->called[0][caller->row] / (double)s->n[0];
    double after = callee->called[1][caller->row] / (double)s->n[1];
    return fmin(fmax((after - s->scale * before) / callee->change, 0), 1);
}

// Functions that lost as much as this one gained, or the other way round.
static void find_partners(struct stats_stacks *s, struct culprit *c)
{
    double moved = 0, most = 0;
    if (!(c->with[c->row] > 0))
        return;
    for (size_t i = 0; i < s->n_culprits; i++) {
        const struct culprit *other = &s->culprits[i];
        if ((other->change > 0) == (c->change > 0) || !(other->with[other->row] > 0))
            continue;
        double inlined = fmax(change_under(s, c, other) * fabs(c->change),
                              change_under(s, other, c) * fabs(other->change));
        double part = fmax(culprit_relation(s, c, other) * fabs(other->change), inlined);
        part = fmin(part, fmin(fabs(other->change), fabs(c->change)));
        moved += part;
        if (part > most) {
            most = part;
            c->because = other->row;
        }
    }
    if (moved > 0 && moved >= (1 - NET / 2) * fabs(c->change) - 2 * c->deviation)
        c->verdict = STATS_SHIFT;
}

static double culprit_growth(const struct stats_stacks *s, const struct stats_change *c)
{
    return c->before > 0 && c->after > 0 ? log(c->after / (s->scale * c->before)) : NAN;
}

// Several culprits that grew by the same factor as a caller of theirs, and what grew of the caller
// are these or its own part: it is called more often.
static void merge_callees(struct stats_stacks *s)
{
    const struct stats_functions *f = &s->functions;
    uint32_t best = UINT32_MAX;
    size_t most = 1;
    for (uint32_t i = 0; i < f->n; i++) {
        const struct stats_function *caller = &f->rows[i];
        double factor = culprit_growth(s, &caller->total.change);
        double change = scaled_change_of(s, &caller->total.change),
               sum = caller->total.own * change;
        size_t n = 0;
        if (caller->total.mark == STATS_NOISE || !isfinite(factor))
            continue;
        for (size_t j = 0; j < s->n_culprits; j++) {
            const struct culprit *c = &s->culprits[j];
            const struct stats_change *own = culprit_change(s, c);
            double noise = c->deviation / fmax(own->after, 1e-300);
            if (c->verdict != STATS_LASTING || !culprit_belongs(c, i) ||
                fabs(culprit_growth(s, own) - factor) > fmax(0.25 * fabs(factor), 2 * noise))
                continue;
            n++;
            sum += c->row == i ? 0 : c->change;
        }
        if (sum / change < NET)
            continue;
        const struct stats_change *total = &caller->total.change;
        if (n > most ||
            (n == most && best != UINT32_MAX && total->after < f->rows[best].total.change.after)) {
            most = n;
            best = i;
        }
    }
    if (best == UINT32_MAX)
        return;
    double factor = culprit_growth(s, &f->rows[best].total.change);
    bool self = false;
    for (size_t j = 0; j < s->n_culprits; j++) {
        struct culprit *c = &s->culprits[j];
        double noise = c->deviation / fmax(culprit_change(s, c)->after, 1e-300);
        if (c->verdict != STATS_LASTING || !culprit_belongs(c, best) ||
            fabs(culprit_growth(s, culprit_change(s, c)) - factor) >
                fmax(0.25 * fabs(factor), 2 * noise))
            continue;
        if (c->row == best) {
            self = true;
            continue;
        }
        c->verdict = STATS_EXPLAINED;
        c->because = best;
    }
    if (!self)
        push_culprit(s, best, false);
}

// Most of what a caller costs more may be the cost of what it calls.
static void blame_callees(struct stats_stacks *s)
{
    for (size_t i = 0; i < s->n_culprits; i++) {
        struct culprit *c = &s->culprits[i];
        const struct stats_measure *total = &s->functions.rows[c->row].total;
        if (c->self || c->verdict != STATS_LASTING || total->own >= NET)
            continue;
        c->verdict = STATS_EXPLAINED;
        c->because = total->because;
    }
}

// Small changes against the largest one: where much changes, the scale is not known well enough,
// and what is left of the shares that made room looks like a change. Work that moved makes no room.
static void drop_counterparts(struct stats_stacks *s)
{
    const struct culprit *largest = NULL;
    for (size_t i = 0; i < s->n_culprits; i++) {
        struct culprit *c = &s->culprits[i];
        if (c->verdict != STATS_LASTING)
            continue;
        largest = largest ? largest : c;
        if ((c->change > 0) == (largest->change > 0) ||
            fabs(c->change) > COUNTERPART * fabs(largest->change))
            continue;
        c->verdict = STATS_EXPLAINED;
        c->because = largest->row;
    }
}

bool culprits_compare(struct stats_stacks *s, double level)
{
    const struct stats_service *service = s->service;
    struct stats_functions *f = &s->functions;
    stats_functions_init(f, s->n, s->arena);
    for (size_t i = 0; i < service->n_functions; i++)
        stats_functions_row(f, service->functions[i].name);
    f->absolute = service->absolute;
    f->each = replay_culprits;
    f->context = s;
    stats_functions_compare(f, level);
    s->scale = stats_scale(&f->fit);
    for (int side = 0; side < 2; side++)
        s->totals[side] = f->fit.totals[side] / (double)s->n[side];
    if (!(s->totals[0] > 0) || !(s->totals[1] > 0) || !(s->scale > 0))
        return false;
    find_all_culprits(s);
    s->seen = arena_array(s->arena, f->n + 1, sizeof *s->seen);
    s->pass = FIND_CALLERS;
    replay_culprits(s, f);
    s->pass = SUM_CALLERS;
    replay_culprits(s, f);
    for (size_t i = 0; i < s->n_culprits; i++) {
        find_shift(s, &s->culprits[i]);
        if (s->culprits[i].verdict == STATS_LASTING)
            find_partners(s, &s->culprits[i]);
    }
    blame_callees(s);
    drop_counterparts(s);
    merge_callees(s);
    return true;
}

// --- which stacks ---

static bool has_value(const struct stats_history *h, struct stats_range r)
{
    for (size_t i = 0; i < h->n; i++)
        if (h->windows[i].start >= r.start && h->windows[i].end <= r.end &&
            h->windows[i].total.value > 0)
            return true;
    return false;
}

static void push_range(struct stats_stacks *s, int side, int64_t start, int64_t end)
{
    struct stats_range r = {start, end};
    if (end <= start || !has_value(&s->service->history, r))
        return;
    s->ranges[s->n[0] + s->n[1]] = r;
    s->n[side]++;
}

void culprits_push_blocks(struct stats_stacks *s, int side, size_t from, size_t to)
{
    const struct stats_window *w = s->service->history.windows;
    size_t n = to - from, blocks = n < MAX_BLOCKS ? n : MAX_BLOCKS;
    for (size_t i = 0; i < blocks; i++)
        push_range(s, side, w[from + i * n / blocks].start, w[from + (i + 1) * n / blocks - 1].end);
}

double stats_total_rate(const struct stats_history *h, struct stats_range r)
{
    double value = 0, seconds = 0;
    for (size_t i = 0; i < h->n; i++) {
        if (h->windows[i].start < r.start || h->windows[i].end > r.end)
            continue;
        value += h->windows[i].total.value;
        seconds += (double)(h->windows[i].end - h->windows[i].start) / 1e9;
    }
    return seconds > 0 ? value / seconds : 0;
}

double stats_profiles(const struct stats_history *h, struct stats_range r)
{
    double n = 0;
    for (size_t i = 0; i < h->n; i++)
        if (h->windows[i].start >= r.start && h->windows[i].end <= r.end)
            n += h->windows[i].profiles;
    return n;
}

// The logarithm of how much more the service does in a range.
static double load_between(const struct stats_history *h, struct stats_range a,
                           struct stats_range b)
{
    return log(stats_total_rate(h, b) / stats_total_rate(h, a));
}

static size_t keep_same_load(const struct stats_history *h, struct stats_range reference,
                             double growth, const struct stats_range *from, size_t n,
                             struct stats_range *to)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (fabs(load_between(h, reference, from[i]) + growth) <= SAME_LOAD)
            to[kept++] = from[i];
    return kept;
}

// Of the days before and after those with about the same load: on another one, such as a weekend,
// the service does other work. growth: what the step itself adds to the load, as a logarithm.
// False: there are none.
static bool push_days(struct stats_stacks *s, const struct stats_range *days[2], const size_t n[2],
                      double growth)
{
    const struct stats_history *h = &s->service->history;
    struct stats_range same[2][MAX_DAYS];
    size_t best = 0, all = 0, reference = 0, kept[2];
    for (size_t i = 0; i < n[1]; i++) {
        kept[0] = keep_same_load(h, days[1][i], growth, days[0], n[0], same[0]);
        kept[1] = keep_same_load(h, days[1][i], 0, days[1], n[1], same[1]);
        size_t least = kept[0] < kept[1] ? kept[0] : kept[1];
        if (least < best || (least == best && kept[0] + kept[1] <= all))
            continue;
        best = least;
        all = kept[0] + kept[1];
        reference = i;
    }
    if (!best)
        return false;
    kept[0] = keep_same_load(h, days[1][reference], growth, days[0], n[0], same[0]);
    kept[1] = keep_same_load(h, days[1][reference], 0, days[1], n[1], same[1]);
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < kept[side]; i++)
            push_range(s, side, same[side][i].start, same[side][i].end);
    return true;
}

static void push_culprit_day(const struct reach *reach, int64_t start, int64_t length,
                             struct stats_range *days, size_t *n)
{
    for (size_t i = 0; i < reach->n_others; i++)
        if (reach->others[i] > start && reach->others[i] < start + length)
            return;
    days[(*n)++] = (struct stats_range){start, start + length};
}

// Whole days on both sides, or the same hours of several days.
void culprits_choose_ranges(struct stats_stacks *s, const struct reach *reach)
{
    const struct stats_history *h = &s->service->history;
    size_t from = reach->from, at = reach->at, to = reach->to;
    const struct stats_window *w = h->windows;
    int64_t time = w[at].start, before = time - w[from].start, after = w[to - 1].end - time;
    s->n[0] = s->n[1] = 0;
    if (w[h->n - 1].end - w[0].start < 2 * DAY) {
        culprits_push_blocks(s, 0, from, at);
        culprits_push_blocks(s, 1, at, to);
        return;
    }
    // At least one side has a day, or the hours differ.
    int64_t length = after < DAY ? after : before < DAY ? before : DAY;
    int64_t first = before < DAY && after >= DAY ? DAY - length : 0;
    struct stats_range days[2][MAX_DAYS];
    size_t n[2] = {0};
    for (int64_t i = 1; n[0] < MAX_DAYS && i * DAY - first <= before; i++)
        push_culprit_day(reach, time + first - i * DAY, length, days[0], &n[0]);
    for (int64_t i = 0; n[1] < MAX_DAYS && first + i * DAY + length <= after; i++)
        push_culprit_day(reach, time + first + i * DAY, length, days[1], &n[1]);
    if (s->service->absolute) {
        for (int side = 0; side < 2; side++)
            for (size_t i = 0; i < n[side]; i++)
                push_range(s, side, days[side][i].start, days[side][i].end);
        return;
    }
    // Work that only moved adds nothing.
    const struct stats_range *both[] = {days[0], days[1]};
    if (!push_days(s, both, n, 0))
        push_days(s, both, n, reach->growth);
}
