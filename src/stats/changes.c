#include "stats/changes.h"

#include <math.h>
#include <string.h>

#include "base/sort.h"

#define DAY (INT64_C(86400) * 1000000000)
// Days of the week differ: the total of a service must outlast a weekend.
#define LASTING_TOTAL (3 * DAY)
#define ROLLOUT (2 * DAY)

enum {
    MAX_DAYS = 7,      // compared before and after
    MAX_BLOCKS = 8,    // of a history that is shorter than a day
    MAX_CULPRITS = 32, // of one time
    LEVELS = 5,        // of callers that work is looked for in
};

#define TOGETHER 0.9    // of a function's value that is in the stacks of another: it belongs to it
#define PART 0.02       // of a function's value that a caller has if it is one of its callers
#define NET 0.5         // of a change that may remain in a caller if it is called a shift
#define COUNTERPART 0.3 // of the largest change
#define SAME_LOAD 0.2   // in the logarithm
#define AGAIN 1.5 // how much longer than at the last test a step must have lasted to be retested

// --- scan ---

static void fill_dense(const struct stats_timeline *t, bool self, struct stats_cell *cells,
                       size_t n)
{
    memset(cells, 0, n * sizeof *cells);
    for (size_t i = 0; i < t->n; i++)
        if (t->points[i].window < n)
            cells[t->points[i].window] = self ? t->points[i].self : t->points[i].total;
}

static bool calls_nothing(const struct stats_timeline *t)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->points[i].self.value != t->points[i].total.value)
            return false;
    return true;
}

static void push_candidates(struct stats_candidates *to, struct arena *arena,
                            struct stats_candidate like, const struct stats_step *steps, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to->items = arena_push(arena, to->items, to->n, &to->cap, sizeof *to->items);
        like.step = steps[i];
        like.q = 1;
        to->items[to->n++] = like;
    }
}

static void scan_total(const struct stats_service *service, struct stats_steps *steps,
                       struct stats_cell *cells, struct arena *arena,
                       struct stats_candidates *found)
{
    const struct stats_history *h = &service->history;
    for (size_t i = 0; i < h->n; i++)
        cells[i] = h->windows[i].total;
    struct stats_noise noise = stats_steps_measure(steps, cells, true), none = {0};
    if (!(noise.events > 0))
        return;
    found->n_tested++;
    const struct stats_step *list;
    int64_t lasting = service->absolute ? h->lasting : LASTING_TOTAL;
    size_t n =
        stats_steps_find(steps, cells, true, lasting, stats_noise_ratio(&noise, &none), &list);
    push_candidates(found, arena, (struct stats_candidate){.measured = STATS_SERVICE}, list, n);
}

void stats_changes_scan(const struct stats_service *service, struct arena *arena,
                        struct stats_candidates *found)
{
    const struct stats_history *h = &service->history;
    size_t n = service->n_functions;
    *found = (struct stats_candidates){0};
    struct stats_steps *steps = stats_steps_new(h, arena);
    struct stats_cell *cells = arena_array(arena, h->n + 1, sizeof *cells);
    struct stats_noise *noise = arena_array(arena, 2 * n + 1, sizeof *noise);
    scan_total(service, steps, cells, arena, found);
    // Self values in the first half, totals in the second.
    for (size_t i = 0; i < 2 * n; i++) {
        const struct stats_timeline *t = &service->functions[i % n];
        if (i >= n && calls_nothing(t))
            continue;
        fill_dense(t, i < n, cells, h->n);
        noise[i] = stats_steps_measure(steps, cells, service->absolute);
        found->n_tested += noise[i].events > 0;
    }
    struct stats_noise pool = stats_noise_pool(noise, 2 * n, arena);
    for (size_t i = 0; i < 2 * n; i++) {
        double ratio = stats_noise_ratio(&noise[i], &pool);
        if (noise[i].peak / sqrt(ratio) < STATS_PEAK)
            continue;
        fill_dense(&service->functions[i % n], i < n, cells, h->n);
        const struct stats_step *list;
        size_t m = stats_steps_find(steps, cells, service->absolute, h->lasting, ratio, &list);
        push_candidates(found, arena,
                        (struct stats_candidate){.measured = i < n ? STATS_SELF : STATS_TOTAL,
                                                 .function = (uint32_t)(i % n)},
                        list, m);
    }
}

static int by_p(const void *a, const void *b)
{
    const struct stats_candidate *x = *(const struct stats_candidate *const *)a,
                                 *y = *(const struct stats_candidate *const *)b;
    if (x->step.p != y->step.p)
        return x->step.p < y->step.p ? -1 : 1;
    double left = fabs(x->step.after - x->step.before),
           right = fabs(y->step.after - y->step.before);
    if (left != right)
        return left > right ? -1 : 1;
    if (x->measured != y->measured)
        return x->measured < y->measured ? -1 : 1;
    return (x->function > y->function) - (x->function < y->function);
}

// Takes the strongest of the candidates, in the order of by_p, and those of the same time off the
// list. Returns how many.
static size_t take_cluster(struct stats_candidate **order, size_t *n, struct stats_candidate **to)
{
    size_t left = 0, taken = 0, at = order[0]->step.window;
    for (size_t i = 0; i < *n; i++) {
        const struct stats_step *step = &order[i]->step;
        if (i == 0 || (step->low <= at && step->high >= at))
            to[taken++] = order[i];
        else
            order[left++] = order[i];
    }
    *n = left;
    return taken;
}

static int by_number(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Callers, callees and all others whose shares move along are steps, too, but of one cause. Were
// each of them a discovery, so many true ones would allow for many false ones: only the strongest
// of a time counts.
void stats_changes_adjust(struct stats_candidates *services, size_t n, struct arena *arena)
{
    size_t m = 0, tested = 0, n_leaders = 0;
    for (size_t i = 0; i < n; i++) {
        m += services[i].n;
        tested += services[i].n_tested;
    }
    double *leaders = arena_array(arena, m + 1, sizeof *leaders);
    struct stats_candidate **order = arena_array(arena, m + 1, sizeof *order);
    struct stats_candidate **cluster = arena_array(arena, m + 1, sizeof *cluster);
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        for (size_t j = 0; j < services[i].n; j++)
            if (!services[i].items[j].step.gone)
                order[k++] = &services[i].items[j];
        sort_items(arena, order, k, sizeof *order, by_p);
        while (k) {
            take_cluster(order, &k, cluster);
            leaders[n_leaders++] = cluster[0]->step.p;
        }
    }
    sort_items(arena, leaders, n_leaders, sizeof *leaders, by_number);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < services[i].n; j++) {
            struct stats_candidate *c = &services[i].items[j];
            size_t low = 0, high = n_leaders;
            while (low < high) {
                size_t middle = (low + high) / 2;
                if (leaders[middle] <= c->step.p)
                    low = middle + 1;
                else
                    high = middle;
            }
            c->q = fmin(c->step.p * (double)tested / fmax((double)low, 1), 1);
        }
}

// --- stacks before and after ---

// A culprit, and in whose stacks its value is.
struct culprit {
    uint32_t row;
    bool self;
    double change, deviation; // per profile of the comparison
    double *with;             // value in the stacks of each function
    // Its callers, level by level: their value above it, and all stacks with any of them. Level 0
    // is the culprit itself.
    double *above[LEVELS];
    struct stats_cell *around[LEVELS];
    enum stats_verdict verdict;
    uint32_t because; // of SHIFT and EXPLAINED
};

struct stats_stacks {
    const struct stats_service *service;
    struct arena *arena;
    struct stats_range ranges[2 * (MAX_DAYS + MAX_BLOCKS)];
    int sides[2 * (MAX_DAYS + MAX_BLOCKS)];
    size_t n[2];
    struct stats_functions functions;
    size_t at;        // the profile that is being read
    double totals[2]; // mean of the profiles of a side
    double scale;     // see stats_scale
    struct culprit culprits[MAX_CULPRITS];
    size_t n_culprits;
    enum { COMPARE, FIND_CALLERS, SUM_CALLERS } pass;
    size_t *seen, n_seen;
};

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

static void replay(void *context, struct stats_functions *f)
{
    (void)f;
    struct stats_stacks *s = context;
    for (s->at = 0; s->at < s->n[0] + s->n[1]; s->at++)
        s->service->stacks(s->service->context, s->ranges[s->at], s->sides[s->at], s);
}

static double change_of(const struct stats_stacks *s, const struct stats_change *c)
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
    if (s->n_culprits == MAX_CULPRITS)
        return;
    struct culprit *to = &s->culprits[s->n_culprits++];
    *to = (struct culprit){.row = row,
                           .self = self,
                           .change = change_of(s, c),
                           .deviation = deviation_of(s, c),
                           .with = arena_array(s->arena, s->functions.n, sizeof *to->with),
                           .verdict = STATS_LASTING};
    for (int i = 0; i < LEVELS; i++) {
        to->above[i] = arena_array(s->arena, s->functions.n, sizeof **to->above);
        to->around[i] = arena_array(s->arena, s->n[0] + s->n[1], sizeof **to->around);
    }
}

static int by_change(const void *a, const void *b)
{
    const struct culprit *x = a, *y = b;
    double left = fabs(x->change), right = fabs(y->change);
    return left != right ? (left < right ? 1 : -1) : (x->row > y->row) - (x->row < y->row);
}

static void find_culprits(struct stats_stacks *s)
{
    const struct stats_functions *f = &s->functions;
    for (uint32_t i = 0; i < f->n; i++) {
        // A function whose own code changed explains its total.
        if (f->rows[i].self.mark == STATS_CHANGED)
            push_culprit(s, i, true);
        else if (f->rows[i].total.mark == STATS_CHANGED)
            push_culprit(s, i, false);
    }
    sort_items(s->arena, s->culprits, s->n_culprits, sizeof *s->culprits, by_change);
}

static bool belongs(const struct culprit *c, uint32_t row)
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
        double net = fabs(change_of(s, &around)) + deviation_of(s, &around) / 2;
        if (sum < TOGETHER * c->with[c->row] || net > NET * fabs(c->change))
            continue;
        c->verdict = STATS_SHIFT;
        c->because = largest;
        return;
    }
}

static const struct stats_change *measured_change(const struct stats_stacks *s,
                                                  const struct culprit *c)
{
    const struct stats_function *f = &s->functions.rows[c->row];
    return c->self ? &f->self.change : &f->total.change;
}

// How much of the work of one function can have moved to or from another: one calls the other
// (inlining), or the same functions call both. Functions that nobody calls are roots of threads.
static double relation(const struct stats_stacks *s, const struct culprit *a,
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
        double part = fmin(relation(s, c, other) * fabs(other->change), fabs(c->change));
        moved += part;
        if (part > most) {
            most = part;
            c->because = other->row;
        }
    }
    if (moved > 0 && moved >= (1 - NET / 2) * fabs(c->change) - 2 * c->deviation)
        c->verdict = STATS_SHIFT;
}

static double growth(const struct stats_stacks *s, const struct stats_change *c)
{
    return c->before > 0 && c->after > 0 ? log(c->after / (s->scale * c->before)) : NAN;
}

// Several culprits that grew by the same factor as a caller of theirs: it is called more often.
static void merge_callees(struct stats_stacks *s)
{
    const struct stats_functions *f = &s->functions;
    uint32_t best = UINT32_MAX;
    size_t most = 1;
    for (uint32_t i = 0; i < f->n; i++) {
        const struct stats_function *caller = &f->rows[i];
        double factor = growth(s, &caller->total.change);
        size_t n = 0;
        if (caller->total.mark == STATS_NOISE || !isfinite(factor))
            continue;
        for (size_t j = 0; j < s->n_culprits; j++) {
            const struct culprit *c = &s->culprits[j];
            const struct stats_change *change = measured_change(s, c);
            double noise = c->deviation / fmax(change->after, 1e-300);
            n += c->verdict == STATS_LASTING && belongs(c, i) &&
                 fabs(growth(s, change) - factor) <= fmax(0.25 * fabs(factor), 2 * noise);
        }
        const struct stats_change *total = &caller->total.change;
        if (n > most ||
            (n == most && best != UINT32_MAX && total->after < f->rows[best].total.change.after)) {
            most = n;
            best = i;
        }
    }
    if (best == UINT32_MAX)
        return;
    double factor = growth(s, &f->rows[best].total.change);
    bool self = false;
    for (size_t j = 0; j < s->n_culprits; j++) {
        struct culprit *c = &s->culprits[j];
        double noise = c->deviation / fmax(measured_change(s, c)->after, 1e-300);
        if (c->verdict != STATS_LASTING || !belongs(c, best) ||
            fabs(growth(s, measured_change(s, c)) - factor) > fmax(0.25 * fabs(factor), 2 * noise))
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

// Small changes against the largest one: where much changes, the scale is not known well enough,
// and what is left of the shares that made room looks like a change.
static void drop_counterparts(struct stats_stacks *s)
{
    for (size_t i = 1; i < s->n_culprits; i++) {
        struct culprit *c = &s->culprits[i];
        const struct culprit *largest = &s->culprits[0];
        if (c->verdict != STATS_LASTING || (c->change > 0) == (largest->change > 0) ||
            fabs(c->change) > COUNTERPART * fabs(largest->change))
            continue;
        c->verdict = STATS_EXPLAINED;
        c->because = largest->row;
    }
}

// False: there is nothing to compare with. Stacks may be deleted before the history is.
static bool compare_stacks(struct stats_stacks *s, double level)
{
    const struct stats_service *service = s->service;
    struct stats_functions *f = &s->functions;
    stats_functions_init(f, s->n, s->arena);
    for (size_t i = 0; i < service->n_functions; i++)
        stats_functions_row(f, service->functions[i].name);
    f->absolute = service->absolute;
    f->each = replay;
    f->context = s;
    stats_functions_compare(f, level);
    s->scale = stats_scale(&f->fit);
    for (int side = 0; side < 2; side++)
        s->totals[side] = f->fit.totals[side] / (double)s->n[side];
    if (!(s->totals[0] > 0) || !(s->totals[1] > 0) || !(s->scale > 0))
        return false;
    find_culprits(s);
    s->seen = arena_array(s->arena, f->n + 1, sizeof *s->seen);
    s->pass = FIND_CALLERS;
    replay(s, f);
    s->pass = SUM_CALLERS;
    replay(s, f);
    for (size_t i = 0; i < s->n_culprits; i++) {
        find_shift(s, &s->culprits[i]);
        if (s->culprits[i].verdict == STATS_LASTING)
            find_partners(s, &s->culprits[i]);
    }
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

static void push_blocks(struct stats_stacks *s, int side, size_t from, size_t to)
{
    const struct stats_window *w = s->service->history.windows;
    size_t n = to - from, blocks = n < MAX_BLOCKS ? n : MAX_BLOCKS;
    for (size_t i = 0; i < blocks; i++)
        push_range(s, side, w[from + i * n / blocks].start, w[from + (i + 1) * n / blocks - 1].end);
}

static double total_rate(const struct stats_history *h, struct stats_range r)
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

// Whole days on both sides, or the same hours of the days before as there are after. Only days with
// about the same load: on another one, such as a weekend, the service does other work. There may be
// none.
static void choose_ranges(struct stats_stacks *s, size_t from, size_t at, size_t to)
{
    const struct stats_history *h = &s->service->history;
    const struct stats_window *w = h->windows;
    int64_t time = w[at].start, before = time - w[from].start, after = w[to - 1].end - time;
    s->n[0] = s->n[1] = 0;
    if (before < 2 * DAY) {
        push_blocks(s, 0, from, at);
        push_blocks(s, 1, at, to);
        return;
    }
    int64_t length = after < DAY ? after : DAY, days = after / length;
    days = days < MAX_DAYS ? days : MAX_DAYS;
    double rate = total_rate(h, (struct stats_range){time, time + days * length});
    for (int64_t i = 1; i * DAY <= before && s->n[0] < MAX_DAYS; i++) {
        struct stats_range r = {time - i * DAY, time - i * DAY + length};
        if (s->service->absolute || fabs(log(total_rate(h, r) / rate)) <= SAME_LOAD)
            push_range(s, 0, r.start, r.end);
    }
    for (int64_t i = 0; i < days; i++)
        push_range(s, 1, time + i * length, time + (i + 1) * length);
}

// --- entries ---

struct settling {
    const struct stats_service *service;
    const struct stats_candidates *found; // NULL: of stats_changes_compare
    const struct stats_entry *known;
    size_t n_known;
    double level;
    struct arena *arena;
    struct stats_report *report;
};

static struct stats_range interval_of(const struct stats_history *h, const struct stats_step *step)
{
    return (struct stats_range){h->windows[step->low].start, h->windows[step->high].end};
}

static struct str name_of(const struct settling *t, const struct stats_candidate *c)
{
    return c->measured == STATS_SERVICE ? STR("") : t->service->functions[c->function].name;
}

static bool at_same_time(const struct stats_entry *e, struct stats_range interval)
{
    return e->low <= interval.end && e->high >= interval.start;
}

static bool rises(const struct stats_entry *e)
{
    return e->after > e->before;
}

// A rollout takes time: what goes on within two days of a change is a part of it.
bool stats_entry_same(const struct stats_entry *a, const struct stats_entry *b)
{
    bool settled = a->verdict == STATS_LASTING || a->verdict == STATS_SHIFT ||
                   b->verdict == STATS_LASTING || b->verdict == STATS_SHIFT;
    int64_t slack = settled ? ROLLOUT : 0;
    return str_eq(a->function, b->function) && rises(a) == rises(b) &&
           at_same_time(a, (struct stats_range){b->low - slack, b->high + slack});
}

static const struct stats_entry *find_known(const struct settling *t, struct str function, bool up,
                                            struct stats_range interval)
{
    struct stats_entry wanted = {.function = function,
                                 .after = up,
                                 .before = !up,
                                 .low = interval.start,
                                 .high = interval.end};
    // The newest first: an UNSURE one may have been settled since.
    for (size_t i = t->report->n; i-- > 0;)
        if (stats_entry_same(&t->report->entries[i], &wanted))
            return &t->report->entries[i];
    for (size_t i = 0; i < t->n_known; i++)
        if (stats_entry_same(&t->known[i], &wanted))
            return &t->known[i];
    return NULL;
}

static struct stats_entry *push_entry(struct settling *t, struct stats_entry entry)
{
    struct stats_report *r = t->report;
    r->entries = arena_push(t->arena, r->entries, r->n, &r->cap, sizeof *r->entries);
    r->entries[r->n] = entry;
    return &r->entries[r->n++];
}

static int64_t end_of(const struct stats_history *h)
{
    return h->windows[h->n - 1].end;
}

static struct stats_entry entry_of(const struct settling *t, const struct stats_candidate *c)
{
    const struct stats_history *h = &t->service->history;
    struct stats_range interval = interval_of(h, &c->step);
    return (struct stats_entry){
        .measured = c->measured,
        .function = name_of(t, c),
        .time = h->windows[c->step.window].start,
        .low = interval.start,
        .high = interval.end,
        .before = c->step.before,
        .after = c->step.after,
        .deviation = c->step.deviation,
        .q = c->q,
        .marker = c->step.marker,
        .checked = end_of(h),
    };
}

static void fill_ranges(const struct stats_stacks *s, struct stats_entry *e)
{
    size_t n[2] = {s->n[0], s->n[1]};
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < n[side]; i++) {
            const struct stats_range *r = &s->ranges[side * n[0] + i];
            struct stats_range *to = &e->sides[side];
            to->start = i == 0 || r->start < to->start ? r->start : to->start;
            to->end = i == 0 || r->end > to->end ? r->end : to->end;
        }
}

// What a culprit costs, per second, at the load after, or if all of the service runs the new
// version. The load is the scale, but no more than the larger of the totals: where a culprit is
// most of a service, the scale is that of the little else.
static double cost_of(const struct settling *t, const struct stats_stacks *s,
                      const struct stats_change *change, double rate)
{
    const double *totals = s->totals;
    double load = fmin(s->scale, fmax(totals[1] / totals[0], 1));
    double all = t->found ? load / totals[1] : (1 + load) / (totals[0] + totals[1]);
    return (change->after / s->scale - change->before) * all * rate;
}

// What the stacks say about a culprit, in the place of what its series say.
static void describe(const struct settling *t, const struct stats_stacks *s,
                     const struct culprit *c, struct stats_entry *e)
{
    const struct stats_change *change = measured_change(s, c);
    bool absolute = t->service->absolute;
    e->verdict = c->verdict;
    e->measured = c->self ? STATS_SELF : STATS_TOTAL;
    e->function = s->functions.rows[c->row].name;
    if (c->verdict != STATS_LASTING)
        e->because = s->functions.rows[c->because].name;
    fill_ranges(s, e);
    double rate = total_rate(&t->service->history, e->sides[1]);
    double unit = (absolute ? rate : 1) / s->totals[1];
    // As much as the service has, at most: the share that the function would have now.
    double before = s->scale * unit;
    if (!absolute && before * change->before > 1)
        before = 1 / change->before;
    e->before = before * change->before;
    e->after = change->after * unit;
    e->deviations[0] = before * change->deviation[0];
    e->deviations[1] = change->deviation[1] * unit;
    e->deviation = hypot(e->deviations[0], e->deviations[1]);
    e->cost = absolute ? e->after - e->before : cost_of(t, s, change, rate);
}

// --- clusters: candidates of one time ---

struct cluster {
    struct stats_candidate **items; // the strongest first
    size_t n;
    size_t from, at, to; // windows
    struct stats_range interval;
};

// Whether something else is known to have happened to the same functions: its culprit is the same
// cause under another name.
static bool same_cause(const struct settling *t, const struct stats_stacks *s,
                       const struct culprit *c, struct stats_range interval)
{
    for (size_t i = 0; i < t->n_known; i++) {
        const struct stats_entry *e = &t->known[i];
        if (e->verdict != STATS_LASTING || !at_same_time(e, interval) ||
            rises(e) != (c->change > 0))
            continue;
        for (uint32_t j = 0; j < s->functions.n; j++)
            if (str_eq(s->functions.rows[j].name, e->function) &&
                s->functions.rows[j].total.mark != STATS_NOISE && belongs(c, j))
                return true;
    }
    return false;
}

static const struct culprit *culprit_of(const struct stats_stacks *s, uint32_t row)
{
    for (size_t i = 0; i < s->n_culprits; i++)
        if (s->culprits[i].row == row)
            return &s->culprits[i];
    return NULL;
}

// The culprit that a candidate stands for: itself, what it calls, or what calls it more often.
static const struct culprit *explain(const struct stats_stacks *s, const struct stats_candidate *c)
{
    const struct stats_function *f = &s->functions.rows[c->function];
    const struct culprit *culprit = culprit_of(s, c->function);
    if (!culprit && c->measured == STATS_TOTAL && f->total.mark == STATS_CALLEE)
        culprit = culprit_of(s, f->total.because);
    bool up = c->step.after > c->step.before;
    if (!culprit || (culprit->change > 0) != up)
        return NULL;
    if (culprit->verdict == STATS_EXPLAINED)
        culprit = culprit_of(s, culprit->because);
    return culprit && (culprit->change > 0) == up ? culprit : NULL;
}

static bool has_step(const struct settling *t, const struct cluster *k, const struct culprit *c)
{
    for (size_t i = 0; i < t->found->n; i++) {
        const struct stats_candidate *f = &t->found->items[i];
        if (f->measured != STATS_SERVICE && f->function == c->row && !f->step.gone &&
            f->q <= t->level && f->step.low <= k->at && f->step.high >= k->at &&
            (f->step.after > f->step.before) == (c->change > 0))
            return true;
    }
    return false;
}

// s: NULL if there is nothing to compare with yet.
static void settle_candidate(struct settling *t, const struct stats_stacks *s,
                             const struct cluster *k, const struct stats_candidate *c,
                             bool explained)
{
    struct stats_entry own = entry_of(t, c);
    const struct culprit *culprit = s ? explain(s, c) : NULL;
    // The stacks may have another reason to differ, such as a spike; a step must be in the series
    // of the culprit itself.
    if (culprit && !has_step(t, k, culprit))
        culprit = NULL;
    if (culprit) {
        fill_ranges(s, &own);
        struct stats_entry e = entry_of(t, k->items[0]);
        describe(t, s, culprit, &e);
        e.q = c->q;
        const struct stats_entry *old = find_known(t, e.function, rises(&e), k->interval);
        if ((!old || old->verdict == STATS_UNSURE) && same_cause(t, s, culprit, k->interval))
            e.verdict = STATS_EXPLAINED;
        if (!old || old->verdict == STATS_UNSURE)
            push_entry(t, e);
        if (str_eq(e.function, own.function))
            return;
        own.because = e.function;
    }
    own.verdict = culprit || explained ? STATS_EXPLAINED : STATS_UNSURE;
    push_entry(t, own);
}

static bool to_be_tested(const struct settling *t, const struct stats_candidate *c)
{
    const struct stats_history *h = &t->service->history;
    bool up = c->step.after > c->step.before;
    const struct stats_entry *e = find_known(t, name_of(t, c), up, interval_of(h, &c->step));
    if (!e)
        return true;
    return e->verdict == STATS_UNSURE &&
           (double)(end_of(h) - e->time) >= AGAIN * (double)(e->checked - e->time);
}

static void settle_service(struct settling *t, const struct cluster *k,
                           const struct stats_candidate *c)
{
    struct stats_entry e = entry_of(t, c);
    e.verdict = STATS_LASTING;
    e.cost = e.after - e.before;
    const struct stats_window *w = t->service->history.windows;
    e.sides[0] = (struct stats_range){w[k->from].start, e.time};
    e.sides[1] = (struct stats_range){e.time, w[k->to - 1].end};
    for (size_t i = 0; i < t->n_known + t->report->n; i++) {
        const struct stats_entry *other =
            i < t->n_known ? &t->known[i] : &t->report->entries[i - t->n_known];
        if (other->verdict == STATS_LASTING && rises(other) == rises(&e) &&
            at_same_time(other, k->interval) && other->function.n) {
            e.verdict = STATS_EXPLAINED;
            e.because = other->function;
        }
    }
    push_entry(t, e);
}

static void settle_cluster(struct settling *t, const struct cluster *k)
{
    const struct stats_candidate *service = NULL;
    size_t n = 0;
    for (size_t i = 0; i < k->n; i++) {
        if (k->items[i]->measured == STATS_SERVICE)
            service = to_be_tested(t, k->items[i]) ? k->items[i] : NULL;
        else
            n += to_be_tested(t, k->items[i]);
    }
    if (n) {
        struct stats_stacks *s = arena_alloc(t->arena, sizeof *s);
        s->service = t->service;
        s->arena = t->arena;
        choose_ranges(s, k->from, k->at, k->to);
        bool comparable = s->n[0] && s->n[1], explained = false;
        comparable = comparable && compare_stacks(s, t->level);
        for (size_t i = 0; i < k->n && comparable; i++)
            explained =
                explained || (k->items[i]->measured != STATS_SERVICE && explain(s, k->items[i]));
        for (size_t i = 0; i < k->n; i++)
            if (k->items[i]->measured != STATS_SERVICE && to_be_tested(t, k->items[i]))
                settle_candidate(t, comparable ? s : NULL, k, k->items[i], explained);
    }
    if (service)
        settle_service(t, k, service);
}

// How far the levels on both sides of a step reach: to the series' own neighboring steps.
static void find_reach(const struct stats_candidates *found, const struct stats_candidate *c,
                       size_t n, struct cluster *k)
{
    k->from = 0;
    k->to = n;
    k->at = c->step.window;
    for (size_t i = 0; i < found->n; i++) {
        const struct stats_candidate *other = &found->items[i];
        if (other->measured != c->measured || other->function != c->function || other->step.gone)
            continue;
        if (other->step.window < k->at && other->step.window > k->from)
            k->from = other->step.window;
        if (other->step.window > k->at && other->step.window < k->to)
            k->to = other->step.window;
    }
}

static void find_gone(struct settling *t, const struct stats_candidates *found)
{
    const struct stats_history *h = &t->service->history;
    struct stats_report *r = t->report;
    for (uint32_t i = 0; i < t->n_known; i++) {
        const struct stats_entry *e = &t->known[i];
        for (size_t j = 0; j < found->n && e->verdict == STATS_LASTING; j++) {
            const struct stats_candidate *c = &found->items[j];
            if (!c->step.gone || c->measured != e->measured ||
                !str_eq(name_of(t, c), e->function) ||
                (c->step.after > c->step.before) != rises(e) ||
                !at_same_time(e, interval_of(h, &c->step)))
                continue;
            r->gone = arena_push(t->arena, r->gone, r->n_gone, &r->cap_gone, sizeof *r->gone);
            r->gone[r->n_gone++] = i;
            break;
        }
    }
}

void stats_changes_settle(const struct stats_service *service, const struct stats_candidates *found,
                          const struct stats_entry *known, size_t n_known, double level,
                          struct arena *arena, struct stats_report *report)
{
    struct settling t = {service, found, known, n_known, level, arena, report};
    *report = (struct stats_report){0};
    find_gone(&t, found);
    struct stats_candidate **order = arena_array(arena, found->n + 1, sizeof *order);
    struct cluster k = {.items = arena_array(arena, found->n + 1, sizeof *k.items)};
    size_t n = 0;
    for (size_t i = 0; i < found->n; i++)
        if (!found->items[i].step.gone && found->items[i].q <= level)
            order[n++] = &found->items[i];
    sort_items(arena, order, n, sizeof *order, by_p);
    while (n) {
        k.n = take_cluster(order, &n, k.items);
        k.interval = interval_of(&service->history, &k.items[0]->step);
        find_reach(found, k.items[0], service->history.n, &k);
        settle_cluster(&t, &k);
    }
}

void stats_changes_compare(const struct stats_service *service, const struct stats_marker *marker,
                           const struct stats_entry *known, size_t n_known, double level,
                           struct arena *arena, struct stats_report *report)
{
    struct settling t = {service, NULL, known, n_known, level, arena, report};
    const struct stats_history *h = &service->history;
    *report = (struct stats_report){0};
    struct stats_stacks *s = arena_alloc(arena, sizeof *s);
    s->service = service;
    s->arena = arena;
    if (h->n < 2)
        return;
    push_blocks(s, 0, 0, h->n);
    push_blocks(s, 1, 0, h->n);
    for (size_t i = 0; i < s->n[1]; i++)
        s->sides[s->n[0] + i] = 1;
    if (!s->n[0] || !compare_stacks(s, level))
        return;
    report->scale = s->scale;
    const struct stats_fit *fit = &s->functions.fit;
    report->scale_deviation = sqrt(1 / fit->agreed[0] + 1 / fit->agreed[1]);
    struct stats_range interval = {h->windows[0].start, end_of(h)};
    for (size_t i = 0; i < s->n_culprits; i++) {
        const struct culprit *c = &s->culprits[i];
        const struct stats_function *f = &s->functions.rows[c->row];
        struct stats_entry e = {.time = marker ? marker->time : interval.start,
                                .low = interval.start,
                                .high = interval.end,
                                .marker = marker,
                                .q = c->self ? f->self.q : f->total.q,
                                .checked = interval.end};
        e.time = e.time < e.low ? e.low : e.time;
        describe(&t, s, c, &e);
        if (!find_known(&t, e.function, rises(&e), interval))
            push_entry(&t, e);
    }
}
