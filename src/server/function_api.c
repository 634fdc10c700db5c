// A function over time: what it, and what it calls, amounts to in each step of a range.
#include "server/query_api.h"
#include "store/driver.h"

#define SECOND_NANOS INT64_C(1000000000)

enum { MAX_POINTS = 11000, USUAL_POINTS = 300 };

// Whole windows of five minutes and hours are what the store has sums of.
static int64_t usual_step(int64_t nanos)
{
    static const int64_t steps[] = {10, 30, 60, 300, 600, 1800, 3600, 7200, 21600};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (nanos / USUAL_POINTS <= steps[i] * SECOND_NANOS)
            return steps[i] * SECOND_NANOS;
    return (nanos / USUAL_POINTS / DAY_NANOS + 1) * DAY_NANOS;
}

static int read_step(struct call *c, int64_t nanos, int64_t *step)
{
    struct str text = call_parameter(c, "step");
    double seconds;
    *step = usual_step(nanos);
    if (!text.n)
        return 0;
    if (!str_to_double(text, &seconds) || !(seconds >= 0.001) || seconds > 1e9) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "step: \"%.*s\"; expected seconds, at least 0.001",
                  text.n < 40 ? (int)text.n : 40, text.p);
        return -1;
    }
    *step = (int64_t)(seconds * 1000) * (SECOND_NANOS / 1000);
    return 0;
}

static int read_filter(struct call *c, struct store_filter *filter)
{
    struct str *frames;
    size_t n = call_parameters(c, "callSite", &frames);
    *filter = (struct store_filter){
        .function = call_parameter(c, "function"), .call_site = frames, .n_call_site = n};
    if (!filter->function.n == !n) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0,
                  n ? "function and callSite cannot be combined"
                    : "\"function\" is required, or callSite: frames from the root");
        return -1;
    }
    return 0;
}

// Steps begin at multiples of their length, and the range is made of whole ones.
static int read_function_range(struct call *c, int64_t *start, int64_t *end, int64_t *step)
{
    int64_t now = server_now(), from, until;
    if (api_time(c, "from", now - HOUR_NANOS, &from) || api_time(c, "until", now, &until) ||
        api_check_range(c, from / 1000000, until / 1000000) || read_step(c, until - from, step))
        return -1;
    if ((until - from) / *step >= MAX_POINTS) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0,
                  "%lld steps of %g s; at most %d are allowed: choose a larger step",
                  (long long)((until - from) / *step + 1), (double)*step / SECOND_NANOS,
                  MAX_POINTS);
        return -1;
    }
    *start = from - from % *step;
    int64_t last = until - until % *step;
    *end = last > INT64_MAX - *step ? INT64_MAX : last + *step - 1;
    return 0;
}

static struct function_series series_message(const struct query_series *s, int64_t start,
                                             int64_t origin, int64_t step, struct arena *arena)
{
    size_t n = 0;
    double *columns[4];
    for (int i = 0; i < 4; i++)
        columns[i] = arena_array(arena, s->n_points + 1, sizeof **columns);
    for (size_t i = 0; i < s->n_points; i++) {
        const struct query_point *p = &s->points[i];
        if (p->time == origin) // before the first step
            continue;
        columns[0][n] = (double)((start + (p->time - origin) - step) / 1000000);
        columns[1][n] = p->self;
        columns[2][n] = p->total;
        columns[3][n++] = p->value;
    }
    return (struct function_series){.labels = {s->labels, s->n_labels, s->n_labels, false},
                                    .times = {columns[0], n, n, false},
                                    .self = {columns[1], n, n, false},
                                    .total = {columns[2], n, n, false},
                                    .all = {columns[3], n, n, false}};
}

void api_function_series(struct call *c)
{
    struct merge_request r = {0};
    struct store_filter filter;
    struct store_select select;
    struct store_answer answer = {0};
    struct query_series *series;
    struct err e = {""};
    struct str *groups;
    int64_t start, end, step, limit = 0;
    size_t n, n_groups = call_parameters(c, "groupBy", &groups);
    // read_range has checked the range, and widened it.
    if (api_query(c, "query", &r) || read_filter(c, &filter) ||
        read_function_range(c, &start, &end, &step) ||
        api_select(c, r.type, r.selector, 1, 1, &select) || api_check_groups(c, n_groups))
        return;
    struct str text = call_parameter(c, "limit");
    if (text.n && (!str_to_i64(text, &limit) || limit < 0)) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "limit: \"%.*s\"; expected a number of series",
                  text.n < 40 ? (int)text.n : 40, text.p);
        return;
    }
    // A profile counts for the first point of the store's grid that is not before it: with a grid
    // that begins a nanosecond earlier, a step has what is from its beginning on.
    select.start = start - 1;
    select.end = end;
    select.filter = &filter;
    struct query_series_options options = {.group_by = groups,
                                           .n_group_by = n_groups,
                                           .step = step,
                                           .aggregation = QUERY_SUM,
                                           .limit = (size_t)limit};
    int result =
        query_series(c->server->store, &select, &options, c->arena, &series, &n, &answer, &e);
    if (result) {
        call_fail_store(c, result, &e);
        return;
    }
    struct function_series *list = arena_array(c->arena, n + 1, sizeof *list);
    for (size_t i = 0; i < n; i++)
        list[i] = series_message(&series[i], start, select.start, step, c->arena);
    call_warn(c, &answer);
    c->x->type = "application/json";
    message_write_json(&function_answer_message,
                       &(struct function_answer){.type = select.type,
                                                 .function = filter.function,
                                                 .start = (double)(start / 1000000),
                                                 .step = (double)step / SECOND_NANOS,
                                                 .series = {list, n, n, false}},
                       &c->x->body_out);
    call_finish(c);
}
