// Watches the fleet of bench/fleet.h for changes, window by window, as the server does.
//
// usage: changes SERVICES DAYS REGRESSIONS EVERY SEED FOLDED...
// EVERY: hours between two looks. SEED: another fleet for each number.
// FOLDED: profiles as folded stacks; each service resamples one of them.
// Prints `kind fields...` lines; bench/changes makes tables and verdicts of them.
#include <time.h>

#include "fleet.h"
#include "stats/distribution.h"

enum { FIRST_LOOK = 96 }; // hours

static const char *const kind_names[KINDS] = {"regression", "shift", "spike", "outage"};

// The smallest regression that the best possible test finds nine times out of ten: it knows which
// function changes and when, nothing but sampling varies, and it keeps the same promise about false
// alarms for as many series.
static double smallest(const struct service *s, const struct event *e, double tests)
{
    double samples[2] = {0}, critical = stats_normal_quantile_two_sided(0.05 / tests) + 1.2816;
    for (size_t w = 0; w < n_windows; w++)
        samples[w >= e->from] += s->windows[w].total.value / PERIOD;
    double size = 1e-3;
    for (int i = 0; i < 100; i++)
        size = critical * sqrt(e->share / samples[0] + (e->share + size) / samples[1]);
    return size;
}

// --- the job ---

static void give_stacks(void *context, struct stats_range range, int side, struct stats_stacks *to)
{
    (void)side;
    const struct service *s = context;
    size_t from = (size_t)((range.start - T0) / HOUR), until = (size_t)((range.end - T0) / HOUR);
    for (size_t i = 0; i < s->n_stacks; i++) {
        double count = 0;
        for (size_t w = from; w < until; w++)
            count += s->counts[w * s->n_stacks + i];
        if (count > 0)
            stats_stacks_add(to, s->stacks[i].rows, s->stacks[i].depth,
                             (struct stats_cell){count * PERIOD, count * PERIOD * PERIOD});
    }
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// Which event a report is about: the right function at the right time; else something else that
// went on; -1: nothing.
static int cause_of(const struct service *s, const struct stats_entry *e, bool *exact)
{
    int64_t slack = 3 * HOUR;
    int near = -1;
    *exact = false;
    for (size_t i = 0; i < s->n_events; i++) {
        const struct event *v = &s->events[i];
        int64_t time = T0 + (int64_t)v->from * HOUR, end = T0 + (int64_t)v->until * HOUR;
        bool during = v->kind != REGRESSION && v->kind != SHIFT && e->time >= time - slack &&
                      e->time <= end + slack;
        if (!during && (e->low - slack > time || e->high + slack < time))
            continue;
        if (v->kind == REGRESSION && str_eq(e->function, str_from(s->names[v->row]))) {
            *exact = true;
            return (int)i;
        }
        if (near < 0 || v->kind != REGRESSION)
            near = (int)i;
    }
    return near;
}

static size_t n_reports, n_true, n_false[KINDS + 1], n_marker[2];

static void judge_report(struct service *s, const struct stats_entry *e, size_t look)
{
    bool exact;
    int i = cause_of(s, e, &exact);
    struct event *v = i >= 0 ? &s->events[i] : NULL;
    n_reports++;
    if (exact && !v->found && e->after > e->before) {
        v->found = look;
        n_true++;
        // Whether a regression that came with a deploy was attributed to it.
        for (size_t k = 0; k < s->n_markers; k++)
            if ((size_t)((s->markers[k].time - T0) / HOUR) == v->from) {
                n_marker[0]++;
                n_marker[1] += e->marker == &s->markers[k];
                break;
            }
        return;
    }
    n_false[v ? (int)v->kind : KINDS]++;
    printf(
        "false service %zu look %zu: %.*s %s %g -> %g at window %zu [%zu, %zu], q %.2g, near %s\n",
        (size_t)(s - fleet), look, (int)e->function.n, e->function.p ? e->function.p : "",
        e->measured == STATS_SELF    ? "self"
        : e->measured == STATS_TOTAL ? "total"
                                     : "service",
        e->before, e->after, (size_t)((e->time - T0) / HOUR), (size_t)((e->low - T0) / HOUR),
        (size_t)((e->high - T0) / HOUR), e->q, v ? kind_names[v->kind] : "nothing");
}

static void keep(struct service *s, const struct stats_entry *e)
{
    for (size_t i = 0; i < s->n_known; i++)
        if (s->known[i].verdict == STATS_UNSURE && stats_entry_same(&s->known[i], e)) {
            s->known[i] = *e;
            return;
        }
    s->known = realloc(s->known, (s->n_known + 1) * sizeof *s->known);
    s->known[s->n_known++] = *e;
}

static size_t n_tested, n_compared, n_gone;

static struct stats_service view(struct service *s, size_t look)
{
    size_t markers = 0;
    while (markers < s->n_markers && s->markers[markers].time < T0 + (int64_t)look * HOUR)
        markers++;
    return (struct stats_service){.history = {.n = look,
                                              .windows = s->windows,
                                              .n_markers = markers,
                                              .markers = s->markers,
                                              .lasting = 6 * HOUR},
                                  .functions = s->timelines,
                                  .n_functions = s->n_names,
                                  .stacks = give_stacks,
                                  .context = s};
}

static void look_at_fleet(size_t look)
{
    struct arena *arena = arena_new(0);
    struct stats_candidates *found = new_array(n_services, sizeof *found);
    for (size_t i = 0; i < n_services; i++) {
        struct arena *scratch = arena_new(0);
        struct stats_service v = view(&fleet[i], look);
        stats_changes_scan(&v, scratch, &found[i]);
        struct stats_candidate *items = arena_array(arena, found[i].n + 1, sizeof *items);
        if (found[i].n)
            memcpy(items, found[i].items, found[i].n * sizeof *items);
        found[i].items = items;
        arena_free(scratch);
    }
    stats_changes_adjust(found, n_services, arena);
    n_tested = 0;
    for (size_t i = 0; i < n_services; i++) {
        struct service *s = &fleet[i];
        struct stats_service v = view(s, look);
        struct stats_report report;
        stats_changes_settle(&v, &found[i], s->known, s->n_known, STATS_CHANGES_LEVEL, arena,
                             &report);
        n_tested += found[i].n_tested;
        n_compared += report.n > 0;
        for (size_t k = 0; k < report.n_gone; k++)
            s->known[report.gone[k]].verdict = STATS_EXPLAINED, n_gone++;
        for (size_t k = 0; k < report.n; k++) {
            const struct stats_entry *e = &report.entries[k];
            printf("entry %zu %zu %d %d %.*s because %.*s %g %g at %zu q %.2g\n", i, look,
                   e->verdict, e->measured, (int)e->function.n, e->function.p, (int)e->because.n,
                   e->because.n ? e->because.p : "", e->before, e->after,
                   (size_t)((e->time - T0) / HOUR), e->q);
            if (e->verdict == STATS_LASTING)
                judge_report(s, &report.entries[k], look);
            keep(s, &report.entries[k]);
        }
    }
    free(found);
    arena_free(arena);
}

// --- baselines ---

static double day_share(const struct service *s, size_t row, size_t day, double *events)
{
    double value = 0, all = 0;
    for (size_t i = 0; i < s->timelines[row].n; i++)
        if (s->timelines[row].points[i].window / 24 == day)
            value += s->timelines[row].points[i].self.value;
    for (size_t w = 24 * day; w < 24 * (day + 1) && w < n_windows; w++)
        all += s->windows[w].total.value;
    *events = value / PERIOD;
    return all > 0 ? value / all : 0;
}

// A function's share of one day is more than a tenth above that of the day before. Functions with
// fewer than 100 samples are left out, which is more than a fixed threshold knows.
static void threshold(void)
{
    size_t reports = 0, right = 0;
    for (size_t i = 0; i < n_services; i++) {
        struct service *s = &fleet[i];
        bool *found = new_array(s->n_events, sizeof *found);
        for (size_t row = 0; row < s->n_names; row++)
            for (size_t day = 1; day < n_windows / 24; day++) {
                double events[2], before = day_share(s, row, day - 1, &events[0]);
                double after = day_share(s, row, day, &events[1]);
                if (events[0] + events[1] < 200 || after <= 1.1 * before)
                    continue;
                reports++;
                for (size_t k = 0; k < s->n_events; k++) {
                    const struct event *e = &s->events[k];
                    if (e->kind != REGRESSION || e->row != row || found[k] ||
                        (e->from / 24 != day && e->from / 24 + 1 != day))
                        continue;
                    found[k] = true;
                    right++;
                    printf("baseline threshold %g %g\n", e->size,
                           (double)(24 * (day + 1) - e->from));
                    break;
                }
            }
        free(found);
    }
    printf("summary threshold %zu %zu\n", reports, right);
}

// Page's test on the logarithm of the total, less that of the same hours of the first three days.
static void cusum(void)
{
    size_t reports = 0, right = 0;
    for (size_t i = 0; i < n_services; i++) {
        const struct service *s = &fleet[i];
        bool *found = new_array(s->n_events, sizeof *found);
        double mean[24] = {0}, variance = 0, sum = 0;
        for (size_t w = 0; w < 72; w++)
            mean[w % 24] += log(s->windows[w].total.value + 1) / 3;
        for (size_t w = 0; w < 72; w++)
            variance += pow(log(s->windows[w].total.value + 1) - mean[w % 24], 2) / 48;
        for (size_t w = 72; w < n_windows; w++) {
            double z = (log(s->windows[w].total.value + 1) - mean[w % 24]) / sqrt(variance);
            sum = fmax(0, sum + z - 0.5);
            if (sum < 5)
                continue;
            sum = 0;
            reports++;
            for (size_t k = 0; k < s->n_events; k++) {
                const struct event *e = &s->events[k];
                if (e->kind != REGRESSION || found[k] || e->from > w || w - e->from > 24)
                    continue;
                found[k] = true;
                right++;
                printf("baseline cusum %g %g\n", e->size, (double)(w - e->from + 1));
                break;
            }
        }
        free(found);
    }
    printf("summary cusum %zu %zu\n", reports, right);
}

int main(int argc, char **argv)
{
    if (argc < 7) {
        fprintf(stderr, "usage: changes SERVICES DAYS REGRESSIONS EVERY SEED FOLDED...\n");
        return 2;
    }
    random_seed(strtoul(argv[5], NULL, 10));
    make_fleet(strtoul(argv[1], NULL, 10), strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10),
               argv + 6, (size_t)argc - 6);
    size_t functions = 0, stacks = 0;
    for (size_t i = 0; i < n_services; i++) {
        functions += fleet[i].n_names;
        stacks += fleet[i].n_stacks;
    }
    double last_day = 0, all = 0, slowest = 0;
    size_t every = strtoul(argv[4], NULL, 10);
    for (size_t look = FIRST_LOOK; look <= n_windows; look += every > 0 ? every : 1) {
        double start = cpu_seconds();
        look_at_fleet(look);
        double took = cpu_seconds() - start;
        all += took;
        slowest = fmax(slowest, took);
        if (look > n_windows - 24)
            last_day += took;
    }
    for (size_t i = 0; i < n_services; i++)
        for (size_t k = 0; k < fleet[i].n_events; k++) {
            const struct event *e = &fleet[i].events[k];
            printf("event %zu %s %s %zu %zu %g\n", i, kind_names[e->kind],
                   e->row == UINT32_MAX ? "-" : fleet[i].names[e->row], e->from, e->until,
                   e->factor);
            if (e->kind != REGRESSION)
                continue;
            double least = smallest(&fleet[i], e, (double)n_tested);
            printf("regression %g %g %g %zu %zu\n", e->size, e->share, least,
                   e->found ? e->found - e->from : 0, i);
        }
    printf("summary kiln %zu %zu\n", n_reports, n_true);
    printf("false_near");
    for (int i = 0; i <= KINDS; i++)
        printf(" %zu", n_false[i]);
    printf("\nmarkers %zu %zu\n", n_marker[1], n_marker[0]);
    printf("size %zu %zu %zu %zu %zu\n", functions, stacks, n_tested, n_compared, n_gone);
    printf("cost %g %g %g\n", last_day, all, slowest);
    threshold();
    cusum();
    return 0;
}
