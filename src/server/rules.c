#include "server/rules.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "process/clock.h"
#include "server/metrics.h"
#include "server/query_api.h"
#include "server/worker.h"

enum {
    NICE = 10,
    REST = 19,       // times as long as it has worked: 5 % of a core
    MEMORY_PART = 8, // of the memory of requests, for one rule
    MEMORY_LEAST = 32 << 20,
    RESULT_MAX = 8 << 20, // bytes that a rule keeps
    SHOWN_MAX = 256 << 20,
    WINDOWS_SHOWN = 4, // older results are not shown
};
static const int64_t SECOND = 1000000000;
// From the end of a window until agents have sent what is of it; between two looks at the clock.
static const int64_t LATE = INT64_C(60000000000), CLOCK_CHECK = INT64_C(30000000000);
static const int64_t QUIET = INT64_C(900000000000); // between warnings

enum { OF_TOTAL, OF_SELF, OF_ALL, N_OF };

struct rule_series {
    const char *metric; // how its name ends
    const char *labels; // as they are shown
    double values[N_OF];
};

struct rule_result {
    int64_t end; // of the window that was asked for last; 0: none yet
    int64_t of;  // of the window that the series are of
    struct arena *arena;
    struct rule_series *series;
    size_t n;
};

struct rules {
    struct server *server;
    struct worker worker;
    // Under the worker's lock.
    struct server_config *config; // replaced by the thread
    struct rule_result *results;  // of its rules; replaced by the thread
    uint64_t evaluated, failed, cpu_nanos;
    // The thread's.
    int64_t last_warning;
    struct budget budget; // of the rule that is evaluated
};

// --- types and names ---

const char *rules_metric(struct str type)
{
    struct profile_type parts = api_type_parts(type);
    bool gauge = store_type_is_gauge(type);
    if (str_eq(parts.sample_unit, STR("bytes")))
        return gauge ? "bytes" : "bytes_per_second";
    return query_type_is_cpu(type) ? "cpu_cores" : NULL;
}

// What values of a window are divided by.
static double rule_divisor(const struct function_rule *rule)
{
    double seconds = (double)rule->window / 1e9;
    const char *metric = rules_metric(rule->type);
    return strcmp(metric, "cpu_cores") == 0 ? seconds * 1e9
           : strcmp(metric, "bytes") == 0   ? 1
                                            : seconds;
}

struct str rules_label_name(struct str name, struct arena *arena)
{
    char *text = arena_copy(arena, name.p, name.n);
    for (size_t i = 0; i < name.n; i++) {
        char c = text[i];
        if (!((c | 32) >= 'a' && (c | 32) <= 'z') && !(c >= '0' && c <= '9' && i) && c != '_')
            text[i] = '_';
    }
    return (struct str){text, name.n};
}

// --- one rule ---

static bool wait_nanos(struct rules *r, int64_t nanos)
{
    int64_t end = budget_now() + nanos;
    pthread_mutex_lock(&r->worker.lock);
    for (int64_t now; !r->worker.stop && !r->worker.pending && (now = budget_now()) < end;)
        process_condition_wait(&r->worker.changed, &r->worker.lock, (uint64_t)(end - now));
    bool stop = r->worker.stop;
    pthread_mutex_unlock(&r->worker.lock);
    return !stop;
}

// After each question: most of the time is for others.
static void pause_rules(struct rules *r, struct arena *arena, int64_t *worked)
{
    int64_t now = (int64_t)process_clock_ns(CLOCK_THREAD_CPUTIME_ID), used = now - *worked;
    *worked = now;
    pthread_mutex_lock(&r->worker.lock);
    r->cpu_nanos += (uint64_t)used;
    pthread_mutex_unlock(&r->worker.lock);
    r->budget.deadline += REST * used;
    wait_nanos(r, REST * used);
    arena_check(arena);
}

static int compare_rule_totals(const void *a, const void *b)
{
    const struct query_cost *x = a, *y = b;
    return x->total > y->total ? -1 : x->total < y->total ? 1 : str_cmp(x->name, y->name);
}

struct names {
    struct str *items;
    size_t n, cap;
};

static void add_name(struct names *names, struct str name, struct arena *arena)
{
    for (size_t i = 0; i < names->n; i++)
        if (str_eq(names->items[i], name))
            return;
    names->items = arena_push(arena, names->items, names->n, &names->cap, sizeof *names->items);
    names->items[names->n++] = name;
}

// The rule's functions, and the largest of those that its pattern matches.
static int list_functions(struct rules *r, const struct function_rule *rule,
                          const struct store_select *select, struct arena *arena,
                          struct names *names, struct err *e)
{
    struct query_functions *f;
    struct store_stacks *stacks;
    struct store_answer answer = {0};
    for (size_t i = 0; i < rule->n_functions && names->n < rule->limit; i++)
        add_name(names, rule->functions[i], arena);
    if (!rule->pattern.n)
        return 0;
    struct store_select merge = *select;
    merge.start = select->start + 1;
    struct model_regex *regex = model_regex_new(arena, "function_regex", rule->pattern, e);
    if (!regex)
        return STORE_BAD_INPUT;
    int code = store_merge(r->server->store, &merge, arena, &stacks, &answer, e);
    if (!code)
        code = query_functions(stacks, arena, &f, e);
    if (code)
        return code;
    size_t n = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        arena_spend(arena, 1);
        if (f->items[i].total > 0 && model_regex_match(regex, f->items[i].name))
            f->items[n++] = f->items[i];
    }
    if (n)
        qsort(f->items, n, sizeof *f->items, compare_rule_totals);
    for (size_t i = 0; i < n && names->n < rule->limit; i++)
        add_name(names, f->items[i].name, arena);
    return 0;
}

static void put_name(struct out *out, const char *name, struct str value)
{
    out_char(out, ',');
    metrics_put_label(out, name, value);
}

static const char *write_rule_labels(const struct function_rule *rule, struct str function,
                                     const struct query_series *s, struct arena *arena)
{
    struct out out;
    out_init_arena(&out, arena);
    metrics_put_label(&out, "tenant", rule->tenant);
    put_name(&out, "function", function);
    put_name(&out, "profile_type", rule->type);
    for (size_t i = 0; i < s->n_labels; i++)
        put_name(&out, rules_label_name(s->labels[i].name, arena).p, s->labels[i].value);
    for (size_t i = 0; i < rule->n_labels; i++)
        put_name(&out, rule->labels[i].name.p, rule->labels[i].value);
    out_char(&out, '\0');
    return out.p;
}

// keep: of the result.
static void add_series(const struct function_rule *rule, struct str function,
                       const struct query_series *series, size_t n, int64_t origin,
                       struct arena *keep, struct rule_result *result, size_t *cap)
{
    for (size_t i = 0; i < n && result->n < rule->limit; i++) {
        const struct query_series *s = &series[i];
        // A point at origin is of what came before the window.
        const struct query_point *p = s->n_points ? &s->points[s->n_points - 1] : NULL;
        if (!p || p->time == origin)
            continue;
        double per = rule_divisor(rule);
        result->series = arena_push(keep, result->series, result->n, cap, sizeof *result->series);
        result->series[result->n++] = (struct rule_series){
            .metric = rules_metric(rule->type),
            .labels = write_rule_labels(rule, function, s, keep),
            .values = {
                [OF_TOTAL] = p->total / per, [OF_SELF] = p->self / per, [OF_ALL] = p->value / per}};
    }
}

// As /api/v1/functions/series answers, with a step of a window.
static int ask_rule(struct rules *r, const struct function_rule *rule, int64_t end,
                    struct arena *arena, struct arena *keep, struct rule_result *result,
                    struct err *e)
{
    struct query_selector selector;
    struct names names = {0};
    size_t cap = 0, kept = 0;
    int64_t worked = (int64_t)process_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    int code = query_selector(rule->query, arena, &selector, e);
    if (code)
        return code;
    for (size_t i = 0; i < selector.n; i++)
        if (!str_eq(selector.matchers[i].name, STR("__name__")))
            selector.matchers[kept++] = selector.matchers[i];
    struct store_select select = {.tenant = rule->tenant,
                                  .type = rule->type,
                                  .matchers = selector.matchers,
                                  .n_matchers = kept,
                                  .start = end - rule->window - 1,
                                  .end = end - 1};
    struct str *groups = arena_array(arena, rule->n_by + 1, sizeof *groups);
    groups[0] = STR("service_name");
    if (rule->n_by)
        memcpy(groups + 1, rule->by, rule->n_by * sizeof *groups);
    struct query_series_options options = {.group_by = groups,
                                           .n_group_by = rule->n_by + 1,
                                           .step = rule->window,
                                           .aggregation = QUERY_SUM,
                                           .limit = rule->limit};
    code = list_functions(r, rule, &select, arena, &names, e);
    pause_rules(r, arena, &worked);
    for (size_t i = 0; i < names.n && result->n < rule->limit && !code; i++) {
        struct store_filter filter = {.function = names.items[i]};
        struct store_answer answer = {0};
        struct query_series *series;
        size_t n;
        select.filter = &filter;
        code = query_series(r->server->store, &select, &options, arena, &series, &n, &answer, e);
        if (!code)
            add_series(rule, names.items[i], series, n, select.start, keep, result, &cap);
        pause_rules(r, arena, &worked);
    }
    return code;
}

static int evaluate_window(struct rules *r, const struct function_rule *rule, int64_t end,
                           struct rule_result *result, struct err *e)
{
    struct budget_account *all = &r->server->memory;
    size_t part = all->limit / MEMORY_PART;
    struct arena_trap trap, keep_trap;
    r->budget.account =
        (struct budget_account){.owner = "a rule",
                                .parent = all,
                                .limit = all->limit && part > MEMORY_LEAST ? part : MEMORY_LEAST};
    r->budget.deadline = budget_now() + r->config->query_time;
    struct arena *arena = arena_new_in(&r->budget, 0);
    struct arena *keep = arena_new(RESULT_MAX);
    int code = arena && keep ? 0 : err_set(e, "out of memory");
    if (!code && ARENA_TRY(keep, keep_trap)) {
        code = arena_caught(keep, e);
    } else if (!code && ARENA_TRY(arena, trap)) {
        code = arena_caught(arena, e);
        arena_try_end(keep);
    } else if (!code) {
        code = ask_rule(r, rule, end, arena, keep, result, e);
        arena_try_end(arena);
        arena_try_end(keep);
    }
    arena_free(arena);
    result->arena = keep;
    if (code) {
        arena_free(keep);
        *result = (struct rule_result){0};
    }
    return code;
}

// --- the thread ---

static void evaluate_rule(struct rules *r, size_t i, int64_t end)
{
    struct rule_result result = {0};
    struct err e = {""};
    const struct function_rule *rule = &r->config->rules[i];
    int code = evaluate_window(r, rule, end, &result, &e);
    result.end = end;
    result.of = end;
    pthread_mutex_lock(&r->worker.lock);
    r->evaluated += !code;
    r->failed += code != 0 && !r->worker.stop && !r->worker.pending;
    bool warn = code && !r->worker.stop && !r->worker.pending &&
                (!r->last_warning || budget_now() - r->last_warning > QUIET);
    struct arena *old = code ? NULL : r->results[i].arena;
    if (code)
        r->results[i].end = end; // the next window comes
    else
        r->results[i] = result;
    pthread_mutex_unlock(&r->worker.lock);
    arena_free(old);
    if (!warn)
        return;
    r->last_warning = budget_now();
    server_log("warn", "cannot evaluate a rule for its last window", "component", "rules", "query",
               rule->query.p, "tenant", rule->tenant.p, "error", e.message, NULL);
}

// With the lock held.
static void free_results(struct rules *r)
{
    for (size_t i = 0; r->results && i < r->config->n_rules; i++)
        arena_free(r->results[i].arena);
    free(r->results);
    r->results = NULL;
    server_config_free(r->config);
    r->config = NULL;
}

// With the lock held.
static void take_config(struct rules *r)
{
    free_results(r);
    r->results = calloc(r->worker.pending->n_rules + 1, sizeof *r->results);
    r->config = r->worker.pending;
    r->worker.pending = NULL;
}

// The end of the last complete window.
static int64_t window_end(const struct function_rule *rule, int64_t now)
{
    int64_t until = now - LATE;
    return until - until % rule->window;
}

static void *run_rules(void *context)
{
    struct rules *r = context;
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
    for (;;) {
        pthread_mutex_lock(&r->worker.lock);
        bool stop = r->worker.stop;
        if (r->worker.pending)
            take_config(r);
        bool interrupted = false;
        pthread_mutex_unlock(&r->worker.lock);
        if (stop)
            return NULL;
        int64_t pause = CLOCK_CHECK;
        for (size_t i = 0; r->results && i < r->config->n_rules && !interrupted; i++) {
            const struct function_rule *rule = &r->config->rules[i];
            int64_t now = server_now(), end = window_end(rule, now);
            if (end > rule->window && end != r->results[i].end)
                evaluate_rule(r, i, end);
            int64_t next = window_end(rule, now) + rule->window + LATE - now;
            pause = next < pause ? next : pause;
            pthread_mutex_lock(&r->worker.lock);
            interrupted = r->worker.stop || r->worker.pending;
            pthread_mutex_unlock(&r->worker.lock);
        }
        wait_nanos(r, pause > SECOND / 10 ? pause : SECOND / 10);
    }
}

// With the worker's lock held.
static void cancel_rule(void *context)
{
    struct rules *r = context;
    if (r->worker.stop)
        r->budget.cancelled = true;
}

struct rules *rules_new(struct server *s)
{
    struct rules *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->server = s;
    r->worker = (struct worker){.run = run_rules,
                                .interrupt = cancel_rule,
                                .context = r,
                                .component = "rules",
                                .failure = "rules are off"};
    worker_init(&r->worker);
    return r;
}

void rules_reload(struct rules *r, struct server_config *config)
{
    worker_reload(&r->worker, config, config->n_rules > 0);
}

void rules_stop(struct rules *r)
{
    worker_stop(&r->worker);
}

void rules_free(struct rules *r)
{
    if (!r)
        return;
    if (r->config)
        free_results(r);
    worker_fini(&r->worker);
    free(r);
}

// --- what is shown ---

static int by_labels(const void *a, const void *b)
{
    const struct rule_series *x = *(const struct rule_series *const *)a;
    const struct rule_series *y = *(const struct rule_series *const *)b;
    int order = strcmp(x->metric, y->metric);
    return order ? order : strcmp(x->labels, y->labels);
}

static const char *const help[N_OF] = {
    [OF_TOTAL] = "Cost of a function including its callees in the last window of its rule.",
    [OF_SELF] = "Cost of a function without its callees in the last window of its rule.",
    [OF_ALL] = "Total of the query of a rule, to compute shares.",
};
static const char *const kinds[N_OF] = {"", "self_", "service_"};

// Series of several rules that are the same would make all of it unreadable: the first one counts.
static void put_metric(struct out *out, const struct rule_series *const *series, size_t n, int of)
{
    out_printf(out, "# HELP kiln_function_%s%s %s\n# TYPE kiln_function_%s%s gauge\n", kinds[of],
               series[0]->metric, help[of], kinds[of], series[0]->metric);
    for (size_t i = 0; i < n; i++)
        if (!i || by_labels(&series[i - 1], &series[i]) != 0)
            out_printf(out, "kiln_function_%s%s{%s} %.9g\n", kinds[of], series[i]->metric,
                       series[i]->labels, series[i]->values[of]);
}

static void put_series(struct out *out, const struct rule_series **series, size_t n)
{
    if (n)
        qsort(series, n, sizeof *series, by_labels);
    for (size_t first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && strcmp(series[end]->metric, series[first]->metric) == 0;)
            end++;
        for (int of = 0; of < N_OF; of++)
            put_metric(out, series + first, end - first, of);
    }
}

static bool is_shown(const struct call *c, const struct rules *r, size_t i)
{
    const struct function_rule *rule = &r->config->rules[i];
    int64_t age = server_now() - r->results[i].of;
    return r->results[i].n && age < WINDOWS_SHOWN * rule->window + 5 * LATE &&
           metrics_may_see(c, rule->tenant);
}

// Without the call's arena, which jumps when it is full: the lock is held.
static bool write_series(const struct call *c, struct rules *r, struct out *out)
{
    size_t n = 0, n_rules = r->results ? r->config->n_rules : 0;
    for (size_t i = 0; i < n_rules; i++)
        n += r->results[i].n;
    const struct rule_series **series = calloc(n + 1, sizeof *series);
    if (!series)
        return false;
    n = 0;
    for (size_t i = 0; i < n_rules; i++)
        for (size_t k = 0; is_shown(c, r, i) && k < r->results[i].n; k++)
            series[n++] = &r->results[i].series[k];
    put_series(out, series, n);
    free(series);
    return !out->error;
}

void rules_answer(struct call *c)
{
    struct rules *r = c->server->rules;
    struct out out;
    out_init_budget(&out, SHOWN_MAX, &c->x->budget);
    pthread_mutex_lock(&r->worker.lock);
    bool written = write_series(c, r, &out);
    pthread_mutex_unlock(&r->worker.lock);
    if (!written) {
        out_fini(&out);
        call_fail(c, CALL_RESOURCE_EXHAUSTED, 0, "out of memory for metrics");
        return;
    }
    c->x->type = "text/plain; version=0.0.4; charset=utf-8";
    metrics_take(c, &out);
    call_finish(c);
}

void rules_metrics(struct call *c)
{
    struct rules *r = c->server->rules;
    pthread_mutex_lock(&r->worker.lock);
    uint64_t evaluated = r->evaluated, failed = r->failed, nanos = r->cpu_nanos;
    pthread_mutex_unlock(&r->worker.lock);
    struct out *out = &c->x->body_out;
    metrics_put(out, "counter", "kiln_rules_evaluated_total",
                "Windows of rules that were evaluated.", evaluated);
    metrics_put(out, "counter", "kiln_rules_failed_total",
                "Windows of rules whose evaluation failed.", failed);
    metrics_put_seconds(out, "counter", "kiln_rules_cpu_seconds_total", "CPU time of rules.",
                        nanos);
}
