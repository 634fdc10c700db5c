#include "stats/changes.h"

#include <math.h>

#include "base/sort.h"
#include "stats/candidates.h"
#include "stats/culprits.h"
#include "stats/distribution.h"

#define HOUR (INT64_C(3600) * 1000000000)
#define ROLLOUT (48 * HOUR)
#define SETTLING (6 * HOUR)
#define AGAIN 1.5 // how much longer than at the last test a step must have lasted to be retested

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

static struct str changed_name(const struct settling *t, const struct stats_candidate *c)
{
    return c->measured == STATS_SERVICE ? STR("") : t->service->functions[c->function].name;
}

static bool at_same_time(const struct stats_entry *e, struct stats_range interval)
{
    return e->low <= interval.end && e->high >= interval.start;
}

static bool change_rises(const struct stats_entry *e)
{
    return e->after > e->before;
}

static bool has_verdict(const struct stats_entry *a, const struct stats_entry *b,
                        enum stats_verdict verdict)
{
    return a->verdict == verdict || b->verdict == verdict;
}

// A rollout takes time: what goes on within two days of a change is a part of it. Work that moved
// is no change, and must not hide one.
bool stats_entry_same(const struct stats_entry *a, const struct stats_entry *b)
{
    int64_t slack = has_verdict(a, b, STATS_LASTING) ? ROLLOUT
                    : has_verdict(a, b, STATS_SHIFT) ? SETTLING
                                                     : 0;
    return str_eq(a->function, b->function) && change_rises(a) == change_rises(b) &&
           at_same_time(a, (struct stats_range){b->low - slack, b->high + slack});
}

bool stats_entry_is_due_to_load(const struct stats_entry *e, double load, double load_deviation,
                                double level)
{
    double sign = change_rises(e) ? 1 : -1;
    double ratio = load > 0 && isfinite(load) ? 1 / load : 1;
    ratio = sign * (ratio - 1) > 0 ? ratio : 1;
    double expected = ratio * e->before;
    double deviation = hypot(ratio * e->deviations[0], e->deviations[1]);
    if (ratio != 1)
        deviation = hypot(deviation, expected * load_deviation);
    return sign * (e->after - expected) <= stats_normal_quantile_two_sided(level) * deviation;
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

static int64_t change_end(const struct stats_history *h)
{
    return h->windows[h->n - 1].end;
}

static struct stats_entry entry_of(const struct settling *t, const struct stats_candidate *c)
{
    const struct stats_history *h = &t->service->history;
    struct stats_range interval = interval_of(h, &c->step);
    return (struct stats_entry){
        .measured = c->measured,
        .function = changed_name(t, c),
        .time = h->windows[c->step.window].start,
        .low = interval.start,
        .high = interval.end,
        .before = c->step.before,
        .after = c->step.after,
        .deviation = c->step.deviation,
        .q = c->q,
        .marker = c->step.marker,
        .checked = change_end(h),
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
static void describe_change(const struct settling *t, const struct stats_stacks *s,
                            const struct culprit *c, struct stats_entry *e)
{
    const struct stats_change *change = culprit_change(s, c);
    bool absolute = t->service->absolute;
    e->verdict = c->verdict;
    e->measured = c->self ? STATS_SELF : STATS_TOTAL;
    e->function = s->functions.rows[c->row].name;
    if (c->verdict != STATS_LASTING)
        e->because = s->functions.rows[c->because].name;
    fill_ranges(s, e);
    double rate = stats_total_rate(&t->service->history, e->sides[1]);
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
            change_rises(e) != (c->change > 0))
            continue;
        for (uint32_t j = 0; j < s->functions.n; j++)
            if (str_eq(s->functions.rows[j].name, e->function) &&
                s->functions.rows[j].total.mark != STATS_NOISE && culprit_belongs(c, j))
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
static const struct culprit *explain_change(const struct stats_stacks *s,
                                            const struct stats_candidate *c)
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

static double scale_deviation(const struct stats_stacks *s)
{
    const struct stats_fit *fit = &s->functions.fit;
    return sqrt(1 / fit->agreed[0] + 1 / fit->agreed[1]);
}

// Days differ in their load, by less than SAME_LOAD.
static bool is_due_to_load(const struct settling *t, const struct stats_stacks *s,
                           const struct stats_entry *e)
{
    const struct stats_history *h = &t->service->history;
    double profiles[2] = {0};
    if (t->service->absolute || e->verdict != STATS_LASTING)
        return false;
    for (size_t i = 0; i < s->n[0] + s->n[1]; i++) {
        int side = i >= s->n[0];
        profiles[side] += stats_profiles(h, s->ranges[i]) / (double)s->n[side];
    }
    double pods = profiles[0] > 0 && profiles[1] > 0 ? profiles[1] / profiles[0] : 1;
    return stats_entry_is_due_to_load(e, s->scale / pods, scale_deviation(s), t->level);
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

// Whether a known change of the culprit is between the days that are compared.
static bool has_earlier_step(const struct settling *t, const struct stats_stacks *s,
                             const struct cluster *k, const struct culprit *c)
{
    struct stats_entry compared = {0};
    int64_t at = t->service->history.windows[k->at].start;
    fill_ranges(s, &compared);
    for (size_t i = 0; i < t->n_known; i++) {
        const struct stats_entry *e = &t->known[i];
        if (e->verdict == STATS_LASTING && change_rises(e) == (c->change > 0) && e->high < at &&
            e->time > compared.sides[0].start &&
            str_eq(e->function, s->functions.rows[c->row].name))
            return true;
    }
    return false;
}

// The stacks may have another reason to differ, such as a spike or an earlier change: a step must
// be in the series of the culprit itself, and of the largest of those that were merged into it.
static bool is_of_this_time(const struct settling *t, const struct stats_stacks *s,
                            const struct cluster *k, const struct culprit *c)
{
    const struct stats_measure *total = &s->functions.rows[c->row].total;
    bool is_merged = !c->self && total->mark == STATS_CALLEE;
    const struct culprit *callee = is_merged ? culprit_of(s, total->because) : NULL;
    return has_step(t, k, c) && !has_earlier_step(t, s, k, c) &&
           (!callee || has_step(t, k, callee));
}

// s: NULL if there is nothing to compare with yet.
static void settle_candidate(struct settling *t, const struct stats_stacks *s,
                             const struct cluster *k, const struct stats_candidate *c,
                             bool explained)
{
    struct stats_entry own = entry_of(t, c);
    const struct culprit *culprit = s ? explain_change(s, c) : NULL;
    if (culprit && !is_of_this_time(t, s, k, culprit))
        culprit = NULL;
    if (culprit) {
        fill_ranges(s, &own);
        struct stats_entry e = entry_of(t, k->items[0]);
        describe_change(t, s, culprit, &e);
        e.q = c->q;
        if (is_due_to_load(t, s, &e)) {
            push_entry(t, own); // not known
            return;
        }
        const struct stats_entry *old = find_known(t, e.function, change_rises(&e), k->interval);
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
    const struct stats_entry *e = find_known(t, changed_name(t, c), up, interval_of(h, &c->step));
    if (!e)
        return true;
    return e->verdict == STATS_UNSURE &&
           (double)(change_end(h) - e->time) >= AGAIN * (double)(e->checked - e->time);
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
        if (other->verdict == STATS_LASTING && change_rises(other) == change_rises(&e) &&
            at_same_time(other, k->interval) && other->function.n) {
            e.verdict = STATS_EXPLAINED;
            e.because = other->function;
        }
    }
    push_entry(t, e);
}

// What a step adds to the logarithm of the total, if the rest stays the same. Of a function that is
// most of the service, such as main, the rest is too little to know.
static double growth_by(const struct settling *t, const struct stats_candidate *c)
{
    const double most = 0.9;
    double before = c->step.before, after = c->step.after;
    bool known =
        !t->service->absolute && c->measured != STATS_SERVICE && before < most && after < most;
    return known ? log((1 - before) / (1 - after)) : 0;
}

static const int64_t *list_known_steps(const struct settling *t, size_t *n)
{
    int64_t *times = arena_array(t->arena, t->n_known + 1, sizeof *times);
    *n = 0;
    for (size_t i = 0; i < t->n_known; i++)
        if (t->known[i].verdict == STATS_LASTING)
            times[(*n)++] = t->known[i].time;
    return times;
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
        struct reach reach = {
            .from = k->from, .at = k->at, .to = k->to, .growth = growth_by(t, k->items[0])};
        reach.others = list_known_steps(t, &reach.n_others);
        culprits_choose_ranges(s, &reach);
        bool comparable = s->n[0] && s->n[1], explained = false;
        comparable = comparable && culprits_compare(s, t->level);
        for (size_t i = 0; i < k->n && comparable; i++)
            explained = explained ||
                        (k->items[i]->measured != STATS_SERVICE && explain_change(s, k->items[i]));
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
                !str_eq(changed_name(t, c), e->function) ||
                (c->step.after > c->step.before) != change_rises(e) ||
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
    sort_items(arena, order, n, sizeof *order, candidates_by_p);
    while (n) {
        k.n = candidates_take_cluster(order, &n, k.items);
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
    culprits_push_blocks(s, 0, 0, h->n);
    culprits_push_blocks(s, 1, 0, h->n);
    for (size_t i = 0; i < s->n[1]; i++)
        s->sides[s->n[0] + i] = 1;
    if (!s->n[0] || !culprits_compare(s, level))
        return;
    report->scale = s->scale;
    report->scale_deviation = scale_deviation(s);
    struct stats_range interval = {h->windows[0].start, change_end(h)};
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
        describe_change(&t, s, c, &e);
        if (!find_known(&t, e.function, change_rises(&e), interval))
            push_entry(&t, e);
    }
}
