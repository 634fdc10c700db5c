#include "stats/candidates.h"

#include <math.h>
#include <string.h>

#include "base/sort.h"

#define DAY (INT64_C(86400) * 1000000000)
// Days of the week differ: the total of a service must outlast a weekend.
#define LASTING_TOTAL (3 * DAY)
#define WEEK (7 * DAY)

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

// Whether the same days of the week before a step show at least half of it, too. A step of whole
// days may be a weekend otherwise, or the end of one.
static bool is_beyond_week(const struct stats_history *h, const struct stats_cell *cells,
                           const struct stats_step *step)
{
    const struct stats_window *w = h->windows;
    double before = 0, after = 0;
    int64_t compared = 0;
    for (size_t i = step->window, j = 0; i < h->n; i++) {
        while (j < step->window && w[j].start < w[i].start - WEEK)
            j++;
        if (j == step->window || w[j].start != w[i].start - WEEK)
            continue;
        before += cells[j].value;
        after += cells[i].value;
        compared += w[i].end - w[i].start;
    }
    if (compared < DAY || !(before > 0) || !(after > 0))
        return false;
    double shown = log(after / before), whole = log(step->after / step->before);
    return shown * whole > 0 && fabs(shown) >= fabs(whole) / 2;
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
    for (size_t i = 0; i < n; i++)
        if (service->absolute || list[i].gone || is_beyond_week(h, cells, &list[i]))
            push_candidates(found, arena, (struct stats_candidate){.measured = STATS_SERVICE},
                            &list[i], 1);
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

int candidates_by_p(const void *a, const void *b)
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

size_t candidates_take_cluster(struct stats_candidate **order, size_t *n,
                               struct stats_candidate **to)
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

static int compare_candidate_numbers(const void *a, const void *b)
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
        sort_items(arena, order, k, sizeof *order, candidates_by_p);
        while (k) {
            candidates_take_cluster(order, &k, cluster);
            leaders[n_leaders++] = cluster[0]->step.p;
        }
    }
    sort_items(arena, leaders, n_leaders, sizeof *leaders, compare_candidate_numbers);
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
