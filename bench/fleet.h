// A simulated fleet for bench/changes. Resamples real stacks with daily and weekly load curves,
// varying request mixes, pod churn, deploys, cost shifts, spikes, outages and regressions.
// fleet[].events lists what happens; fleet[].counts has the samples of each hour.
#pragma once

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tests/unit/simulate.h"
#include "stats/changes.h"

#define SECOND INT64_C(1000000000)
#define HOUR (3600 * SECOND)
#define T0 (INT64_C(20000) * 24 * HOUR)
#define PERIOD 1e7 // ns of CPU time per sample

enum {
    CLASSES = 8, // request classes; the last one is background work
    MAX_STACKS = 400,
    MAX_DEPTH = 64,
};

struct stack {
    uint32_t rows[MAX_DEPTH]; // leaf first
    uint32_t depth, class;
    double weight;
    size_t from, until; // windows in which it exists
};

enum kind { REGRESSION, SHIFT, SPIKE, OUTAGE, KINDS };

struct event {
    enum kind kind;
    size_t from, until;
    uint32_t row;  // of the function, or UINT32_MAX
    double factor; // multiplies the stacks with this leaf, or the load
    double size;   // cost as a share of the service
    double share;  // of the function before
    size_t found;  // window of the first report + 1
};

struct service {
    struct stack *stacks;
    size_t n_stacks;
    char **names;
    size_t n_names;
    double samples; // per hour at mean load
    struct event *events;
    size_t n_events;
    struct stats_marker *markers;
    size_t n_markers;
    struct stats_window *windows;
    float *counts; // by window and stack
    struct stats_timeline *timelines;
    struct stats_entry *known;
    size_t n_known;
};

static size_t n_services, n_windows;
static struct service *fleet;

static void *new_array(size_t n, size_t size)
{
    void *p = calloc(n + 1, size);
    if (!p)
        exit(1);
    return p;
}

static size_t random_index(size_t n)
{
    return (size_t)(uniform() * (double)n);
}

static uint32_t row_of(struct service *s, const char *name, size_t length)
{
    for (uint32_t i = 0; i < s->n_names; i++)
        if (strlen(s->names[i]) == length && memcmp(s->names[i], name, length) == 0)
            return i;
    s->names = realloc(s->names, (s->n_names + 1) * sizeof *s->names);
    s->names[s->n_names] = strndup(name, length);
    return (uint32_t)s->n_names++;
}

static void read_stacks(struct service *s, const char *path)
{
    FILE *in = fopen(path, "r");
    char *line = NULL;
    size_t size = 0;
    ssize_t n;
    s->stacks = new_array(4 * MAX_STACKS, sizeof *s->stacks);
    while (in && (n = getline(&line, &size, in)) > 0 && s->n_stacks < MAX_STACKS) {
        char *space = strrchr(line, ' ');
        if (!space || space == line)
            continue;
        struct stack *k = &s->stacks[s->n_stacks];
        *k = (struct stack){.weight = strtod(space + 1, NULL) * exp(0.5 * normal()),
                            .until = n_windows};
        uint32_t rows[MAX_DEPTH], depth = 0;
        for (char *at = line; at < space && depth < MAX_DEPTH - 2;) {
            char *end = memchr(at, ';', (size_t)(space - at));
            end = end ? end : space;
            rows[depth++] = row_of(s, at, (size_t)(end - at));
            at = end + 1;
        }
        if (!(k->weight > 0) || !depth)
            continue;
        for (uint32_t i = 0; i < depth; i++)
            k->rows[i] = rows[depth - 1 - i];
        k->depth = depth;
        // Requests of one class share their first frames.
        k->class = (rows[depth < 4 ? depth - 1 : 3] * 2654435761u >> 8) % CLASSES;
        s->n_stacks++;
    }
    if (!s->n_stacks) {
        fprintf(stderr, "changes: %s: no stacks\n", path);
        exit(1);
    }
    free(line);
    fclose(in);
    double sum = 0;
    for (size_t i = 0; i < s->n_stacks; i++)
        sum += s->stacks[i].weight;
    for (size_t i = 0; i < s->n_stacks; i++)
        s->stacks[i].weight /= sum;
}

static double self_share(const struct service *s, uint32_t row, size_t window)
{
    double sum = 0;
    for (size_t i = 0; i < s->n_stacks; i++)
        if (s->stacks[i].rows[0] == row && s->stacks[i].from <= window &&
            s->stacks[i].until > window)
            sum += s->stacks[i].weight;
    return sum;
}

static struct event *add_event(struct service *s, struct event e)
{
    s->events[s->n_events] = e;
    return &s->events[s->n_events++];
}

static bool is_event_row(const struct service *s, uint32_t row)
{
    for (size_t i = 0; i < s->n_events; i++)
        if (s->events[i].row == row)
            return true;
    return false;
}

static struct stack *add_stack(struct service *s, struct stack like)
{
    s->stacks[s->n_stacks] = like;
    return &s->stacks[s->n_stacks++];
}

// One tenth are a new function below an existing one. The others increase the work of a function.
static void inject_regression(struct service *s, size_t from, double size, int number)
{
    if (uniform() < 0.1) {
        struct stack like = s->stacks[random_index(s->n_stacks)];
        char name[32];
        int n = snprintf(name, sizeof name, "added_%d", number);
        memmove(like.rows + 1, like.rows, like.depth * sizeof *like.rows);
        like.rows[0] = row_of(s, name, (size_t)n);
        like.depth++;
        like.weight = size;
        like.from = from;
        like.until = n_windows;
        add_stack(s, like);
        add_event(s, (struct event){.kind = REGRESSION,
                                    .from = from,
                                    .until = n_windows,
                                    .row = like.rows[0],
                                    .factor = 1,
                                    .size = size});
        return;
    }
    for (int tries = 0; tries < 1000; tries++) {
        uint32_t row = s->stacks[random_index(s->n_stacks)].rows[0];
        double share = self_share(s, row, from);
        // Choose a function that grows by 5 percent to 11 times.
        if (is_event_row(s, row) || share < size / 10 || share > 20 * size)
            continue;
        add_event(s, (struct event){.kind = REGRESSION,
                                    .from = from,
                                    .until = n_windows,
                                    .row = row,
                                    .factor = 1 + size / share,
                                    .share = share,
                                    .size = size});
        return;
    }
}

// Work that moves without extra cost: a function is renamed, inlined into its caller, or a part of
// it moves into a new function.
static void inject_shift(struct service *s, size_t from, int number)
{
    for (int tries = 0; tries < 1000; tries++) {
        const struct stack *seed = &s->stacks[random_index(s->n_stacks)];
        uint32_t row = seed->rows[0];
        if (seed->depth < 3 || is_event_row(s, row) || self_share(s, row, from) < 0.002)
            continue;
        int how = (int)random_index(3);
        char name[32];
        int length = snprintf(name, sizeof name, "moved_%d", number);
        uint32_t other = row_of(s, name, (size_t)length);
        size_t n = s->n_stacks;
        for (size_t i = 0; i < n; i++) {
            struct stack like = s->stacks[i];
            if (like.until != n_windows || like.rows[0] != row || like.depth < 3 ||
                s->n_stacks + 1 >= 4 * MAX_STACKS)
                continue;
            if (how == 0)
                memmove(like.rows, like.rows + 1, --like.depth * sizeof *like.rows);
            else
                like.rows[0] = other;
            size_t begin = like.from;
            like.from = from;
            s->stacks[i].until = from;
            if (how == 2) {
                struct stack rest = s->stacks[i];
                rest.from = from;
                rest.until = n_windows;
                rest.weight *= 0.4;
                like.weight *= 0.6;
                add_stack(s, rest);
            }
            s->stacks[i].from = begin;
            add_stack(s, like);
        }
        add_event(s, (struct event){
                         .kind = SHIFT, .from = from, .until = n_windows, .row = row, .factor = 1});
        return;
    }
}

static void inject_spike(struct service *s, size_t from)
{
    uint32_t row = s->stacks[random_index(s->n_stacks)].rows[0];
    if (is_event_row(s, row))
        return;
    add_event(s, (struct event){.kind = SPIKE,
                                .from = from,
                                .until = from + 1 + random_index(3),
                                .row = row,
                                .factor = 2 + 6 * uniform()});
}

// Almost no requests arrive, and the remaining work is different.
static void inject_outage(struct service *s, size_t from)
{
    uint32_t row = s->stacks[random_index(s->n_stacks)].rows[0];
    add_event(s, (struct event){.kind = OUTAGE,
                                .from = from,
                                .until = from + 1 + random_index(3),
                                .row = UINT32_MAX,
                                .factor = 0.02 + 0.2 * uniform()});
    if (!is_event_row(s, row))
        add_event(s, (struct event){.kind = OUTAGE,
                                    .from = s->events[s->n_events - 1].from,
                                    .until = s->events[s->n_events - 1].until,
                                    .row = row,
                                    .factor = 10});
}

static int compare_marker_times(const void *a, const void *b)
{
    const struct stats_marker *x = a, *y = b;
    return (x->time > y->time) - (x->time < y->time);
}

static void add_deploy(struct service *s, size_t window)
{
    s->markers[s->n_markers++] = (struct stats_marker){
        T0 + (int64_t)window * HOUR + (int64_t)(uniform() * 0.5 * HOUR), STR("deploy")};
}

// Schedules the events. Regressions start after four and a half days, at roughly even distances;
// some come with a deploy.
static void plan_events(struct service *s, size_t regressions, int *number)
{
    size_t days = n_windows / 24, first = 108, room = n_windows - 24 - first;
    s->events = new_array(64, sizeof *s->events);
    s->markers = new_array(64, sizeof *s->markers);
    for (size_t i = 0; i < regressions; i++) {
        size_t from = first + i * room / regressions + random_index(room / regressions / 2 + 1);
        inject_regression(s, from, 0.0005 * pow(200, uniform()), (*number)++);
        if (uniform() < 0.75)
            add_deploy(s, from);
    }
    for (int i = 0; i < 2; i++) {
        size_t from = first + random_index(room);
        inject_shift(s, from, (*number)++);
        add_deploy(s, from);
    }
    for (int i = 0; i < 3; i++)
        inject_spike(s, 30 + random_index(n_windows - 40));
    inject_outage(s, 30 + random_index(n_windows - 40));
    for (size_t i = 0; i < days / 2; i++)
        add_deploy(s, random_index(n_windows));
    qsort(s->markers, s->n_markers, sizeof *s->markers, compare_marker_times);
}

// --- windows ---

static double event_factor(const struct service *s, const struct stack *k, size_t window)
{
    double factor = 1;
    for (size_t i = 0; i < s->n_events; i++) {
        const struct event *e = &s->events[i];
        if (window >= e->from && window < e->until &&
            (e->row == UINT32_MAX || e->row == k->rows[0]))
            factor *= e->factor;
    }
    return factor;
}

static void draw_windows(struct service *s)
{
    double mix[CLASSES] = {0}, amplitude[CLASSES], phase[CLASSES], load_noise = 0;
    double peak = 6 + 12 * uniform(), swing = 0.2 + 0.5 * uniform(), pods = 2 + random_index(30);
    double *leaf = new_array(s->n_names, sizeof *leaf);
    for (int i = 0; i < CLASSES; i++) {
        amplitude[i] = 0.15 * uniform();
        phase[i] = 24 * uniform();
    }
    s->windows = new_array(n_windows, sizeof *s->windows);
    s->counts = new_array(n_windows * s->n_stacks, sizeof *s->counts);
    for (size_t w = 0; w < n_windows; w++) {
        double hour = (double)(w % 24), weekend = w / 24 % 7 >= 5 ? 0.7 : 1, samples = 0;
        load_noise = 0.8 * load_noise + 0.03 * normal();
        double load = weekend * (1 + swing * cos((hour - peak) / 12 * M_PI)) * exp(load_noise);
        for (int i = 0; i < CLASSES; i++)
            mix[i] = 0.7 * mix[i] + 0.007 * normal();
        for (size_t i = 0; i < s->n_names; i++)
            leaf[i] = spread_by(0.01);
        // Autoscaling follows the load; pods start and stop.
        double running = fmax(1, round(pods * (0.5 + 0.5 * load) + normal()));
        for (size_t i = 0; i < s->n_stacks; i++) {
            const struct stack *k = &s->stacks[i];
            if (w < k->from || w >= k->until)
                continue;
            double day = 1 + amplitude[k->class] * cos((hour - phase[k->class]) / 12 * M_PI);
            double work = k->class == CLASSES - 1 ? running / pods : load;
            double mean = s->samples * k->weight * work * day * exp(mix[k->class]) *
                          leaf[k->rows[0]] * event_factor(s, k, w);
            float count = (float)poisson(mean);
            s->counts[w * s->n_stacks + i] = count;
            samples += count;
        }
        s->windows[w] =
            (struct stats_window){.start = T0 + (int64_t)w * HOUR,
                                  .end = T0 + (int64_t)(w + 1) * HOUR,
                                  .total = {samples * PERIOD, samples * PERIOD * PERIOD},
                                  .profiles = running * 240};
    }
    free(leaf);
}

static void fill_timelines(struct service *s)
{
    double *self = new_array(s->n_names, sizeof *self),
           *total = new_array(s->n_names, sizeof *total);
    size_t *seen = new_array(s->n_names, sizeof *seen), n_seen = 0;
    struct stats_point **points = new_array(s->n_names, sizeof *points);
    s->timelines = new_array(s->n_names, sizeof *s->timelines);
    for (size_t i = 0; i < s->n_names; i++)
        points[i] = new_array(n_windows, sizeof **points);
    for (size_t w = 0; w < n_windows; w++) {
        memset(self, 0, s->n_names * sizeof *self);
        memset(total, 0, s->n_names * sizeof *total);
        for (size_t i = 0; i < s->n_stacks; i++) {
            const struct stack *k = &s->stacks[i];
            double count = s->counts[w * s->n_stacks + i];
            self[k->rows[0]] += count;
            n_seen++;
            for (uint32_t j = 0; j < k->depth; j++)
                if (seen[k->rows[j]] != n_seen) {
                    seen[k->rows[j]] = n_seen;
                    total[k->rows[j]] += count;
                }
        }
        for (size_t i = 0; i < s->n_names; i++)
            if (total[i] > 0)
                points[i][s->timelines[i].n++] =
                    (struct stats_point){(uint32_t)w,
                                         {self[i] * PERIOD, self[i] * PERIOD * PERIOD},
                                         {total[i] * PERIOD, total[i] * PERIOD * PERIOD}};
    }
    for (size_t i = 0; i < s->n_names; i++) {
        s->timelines[i].name = str_from(s->names[i]);
        s->timelines[i].points = points[i];
    }
    free(self);
    free(total);
    free(seen);
    free(points);
}

static void make_fleet(size_t services, size_t days, size_t regressions, char **paths,
                       size_t n_paths)
{
    int number = 0;
    n_services = services;
    n_windows = 24 * days;
    fleet = new_array(n_services, sizeof *fleet);
    for (size_t i = 0; i < n_services; i++) {
        struct service *s = &fleet[i];
        read_stacks(s, paths[i % n_paths]);
        s->samples = 3000 * pow(300, uniform());
        plan_events(s, regressions * (i + 1) / n_services - regressions * i / n_services, &number);
        draw_windows(s);
        fill_timelines(s);
    }
}
