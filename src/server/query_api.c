#include "server/query_api.h"

#include <math.h>
#include <stdlib.h>

#include "codec/codec.h"
#include "model/transform.h"
#include "report/report.h"
#include "server/debuginfo.h"

static const int64_t NANOS = 1000000; // of a millisecond

int api_check_nodes(struct call *c, int64_t max_nodes)
{
    if (max_nodes > API_MAX_NODES) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0,
                  "max flamegraph nodes limit %lld is greater than allowed %d",
                  (long long)max_nodes, API_MAX_NODES);
        return -1;
    }
    if (max_nodes < 0) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "max flamegraph nodes must not be negative: %lld",
                  (long long)max_nodes);
        return -1;
    }
    return 0;
}

int api_select(struct call *c, struct str type, struct str selector, int64_t start, int64_t end,
               struct store_select *select)
{
    struct err e = {""};
    struct query_selector matchers;
    if (api_check_range(c, start, end))
        return -1;
    if (query_type(&type, &e)) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "%s", e.message);
        return -1;
    }
    if (query_selector(selector, c->arena, &matchers, &e)) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "the label selector: %s", e.message);
        return -1;
    }
    *select = (struct store_select){
        .tenant = c->tenant,
        .type = type,
        .matchers = matchers.matchers,
        .n_matchers = matchers.n,
        .start = start * NANOS,
        .end = end * NANOS + NANOS - 1,
    };
    return 0;
}

static int read_hex(struct str text, uint64_t *value)
{
    return text.n >= 1 && text.n <= 16 && str_to_u64(text, 16, value) ? 0 : -1;
}

static int read_spans(struct call *c, const struct merge_request *r, struct store_select *select)
{
    const struct str *texts = r->spans.items;
    uint64_t *spans = arena_array(c->arena, r->spans.n + 1, sizeof *spans);
    for (size_t i = 0; i < r->spans.n; i++)
        if (texts[i].n != 16 || read_hex(texts[i], &spans[i])) {
            call_fail(c, CALL_INVALID_ARGUMENT, 0, "span id '%.*s': expected 16 hexadecimal digits",
                      texts[i].n < 40 ? (int)texts[i].n : 40, texts[i].p);
            return -1;
        }
    select->spans = spans;
    select->n_spans = r->spans.n;
    return 0;
}

static int read_traces(struct call *c, const struct merge_request *r, struct store_select *select)
{
    const struct str *texts = r->trace_ids.items;
    struct store_trace *traces = arena_array(c->arena, r->trace_ids.n + 1, sizeof *traces);
    for (size_t i = 0; i < r->trace_ids.n; i++)
        if (texts[i].n != 32 || !store_trace_parse(texts[i], &traces[i])) {
            call_fail(c, CALL_INVALID_ARGUMENT, 0,
                      "trace id '%.*s': expected 32 hexadecimal digits",
                      texts[i].n < 40 ? (int)texts[i].n : 40, texts[i].p);
            return -1;
        }
    select->traces = traces;
    select->n_traces = r->trace_ids.n;
    return 0;
}

int api_merge_select(struct call *c, const struct merge_request *r, struct store_select *select)
{
    struct store_answer answer = {0};
    struct err e = {""};
    if (r->spans.n && r->trace_ids.n) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0,
                  "span_selector and trace_id_selector cannot be combined");
        return -1;
    }
    if (api_select(c, r->type, r->selector, r->start, r->end, select) || read_spans(c, r, select) ||
        read_traces(c, r, select))
        return -1;
    if (r->profile_ids.n > 1) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "profile_id_selector: %zu ids; limit 1",
                  r->profile_ids.n);
        return -1;
    }
    bool found = true;
    int result = 0;
    if (r->profile_ids.n)
        result = query_select_profile(c->server->store, select, *(struct str *)r->profile_ids.items,
                                      c->arena, &found, &answer, &e);
    if (!found) {
        select->start = 1;
        select->end = 0;
    }
    if (result) {
        call_fail_store(c, result, &e);
        return -1;
    }
    call_warn(c, &answer);
    return 0;
}

int api_stacks(struct call *c, const struct store_select *select, struct store_stacks **stacks)
{
    struct store_answer answer = {0};
    struct err e = {""};
    int result = store_merge(c->server->store, select, c->arena, stacks, &answer, &e);
    if (!result)
        result = debuginfo_name(c->server->debuginfo, c->tenant, *stacks, c->arena, &e);
    if (result) {
        call_fail_store(c, result, &e);
        return -1;
    }
    call_warn(c, &answer);
    return 0;
}

static const struct str *call_sites(struct call *c, const struct stack_selector *stacks, size_t *n)
{
    *n = stacks ? stacks->call_site.n : 0;
    const struct call_site *sites = *n ? stacks->call_site.items : NULL;
    struct str *names = arena_array(c->arena, *n + 1, sizeof *names);
    for (size_t i = 0; i < *n; i++)
        names[i] = sites[i].name;
    return names;
}

int api_tree(struct call *c, const struct merge_request *r, struct query_tree **tree)
{
    struct store_select select;
    struct store_stacks *stacks;
    struct err e = {""};
    size_t n;
    if (api_merge_select(c, r, &select) || api_stacks(c, &select, &stacks))
        return -1;
    const struct str *keep = call_sites(c, r->stacks, &n);
    int result = query_tree(stacks, keep, n, c->arena, tree, &e);
    if (result) {
        call_fail_store(c, result, &e);
        return -1;
    }
    return 0;
}

static struct flame_graph *flame_message(struct arena *arena, const struct query_flame *flame)
{
    struct flame_graph *g = arena_alloc(arena, sizeof *g);
    struct flame_level *levels = arena_array(arena, flame->n_levels + 1, sizeof *levels);
    for (size_t i = 0; i < flame->n_levels; i++)
        levels[i].values = (struct message_list){flame->levels[i].values, flame->levels[i].n,
                                                 flame->levels[i].n, false};
    *g = (struct flame_graph){
        .names = {flame->names, flame->n_names, flame->n_names, false},
        .levels = {levels, flame->n_levels, flame->n_levels, false},
        .total = flame->total,
        .max_self = flame->max_self,
        .left_ticks = flame->left_ticks,
        .right_ticks = flame->right_ticks,
    };
    return g;
}

// --- pprof ---

// The stacks of a merge without those that do not begin at the call site.
static int keep_stacks(struct call *c, const struct merge_request *r, struct model_profile **p)
{
    size_t n;
    const struct str *keep = call_sites(c, r->stacks, &n);
    if (!n)
        return 0;
    const struct model_profile *q = *p;
    bool *kept = arena_array(c->arena, q->n_samples + 1, sizeof *kept);
    for (size_t i = 0; i < q->n_samples; i++) {
        size_t at = 0;
        bool same = true;
        // From the root: the last location, and of its lines the last.
        for (uint32_t k = q->stack_len[i]; same && at < n && k-- > 0;) {
            const struct model_location *l = &q->locations[q->stacks[i][k]];
            for (uint32_t j = l->n_lines; same && at < n && j-- > 0; at++) {
                const struct model_line *line = &q->lines[l->first_line + j];
                same = str_eq(keep[at], model_str(q, q->functions[line->function].name));
            }
        }
        kept[i] = same && at == n;
    }
    *p = model_select_samples(q, kept, c->arena);
    return 0;
}

// What Pyroscope's clients expect there; the profiles' own period is not theirs to know.
static int64_t period_of(struct str type)
{
    struct str name = api_type_parts(type).name;
    return str_eq(name, STR("process_cpu")) ? 1000000000
           : str_eq(name, STR("memory"))    ? 512 << 10
                                            : 1;
}

// A frame that has no name in a file whose functions are known has an address that tells nothing.
static void clear_addresses(struct model_profile *p, struct arena *arena)
{
    struct model_location *locations =
        arena_array(arena, (size_t)p->n_locations + 1, sizeof *locations);
    for (uint32_t i = 0; i < p->n_locations; i++) {
        locations[i] = p->locations[i];
        if (!locations[i].n_lines && locations[i].mapping != MODEL_NONE &&
            p->mappings[locations[i].mapping].has_functions)
            locations[i].address = 0;
    }
    p->locations = locations;
}

int api_profile(struct call *c, const struct merge_request *r, int64_t max_nodes,
                struct model_profile **p)
{
    struct store_select select;
    struct store_stacks *stacks;
    return api_merge_select(c, r, &select) || api_stacks(c, &select, &stacks)
               ? -1
               : api_profile_of(c, r, stacks, max_nodes, p);
}

int api_profile_of(struct call *c, const struct merge_request *r, const struct store_stacks *stacks,
                   int64_t max_nodes, struct model_profile **p)
{
    struct err e = {""};
    int result = query_profile(stacks, max_nodes, r->end * NANOS, 0, c->arena, p, &e);
    if (result) {
        call_fail_store(c, result, &e);
        return -1;
    }
    if (!(*p)->is_weighed)
        (*p)->period = period_of(r->type);
    clear_addresses(*p, c->arena);
    return keep_stacks(c, r, p);
}

// The profile as a message; NULL when the call has ended.
static struct pprof_profile *profile_message(struct call *c, const struct model_profile *p)
{
    struct out out;
    struct err e = {""};
    out_init_arena(&out, c->arena);
    struct pprof_profile *message = NULL;
    if (!codec_write_pprof(p, &out, &e))
        message = message_read_proto(&pprof_message, c->arena, (const uint8_t *)out.p, out.n, &e);
    if (!message)
        call_fail(c, CALL_UNKNOWN, 0, "cannot write the profile: %s", e.message);
    return message;
}

// Whether the selector names one service, which has profiles of whatever type then.
static bool names_known_service(struct call *c, const struct merge_request *r)
{
    struct query_selector selector;
    struct store_answer answer = {0};
    struct err e = {""};
    if (query_selector(r->selector, c->arena, &selector, &e))
        return false;
    struct store_matcher *kept = arena_array(c->arena, selector.n, sizeof *kept);
    struct store_select select = {.tenant = c->tenant,
                                  .matchers = kept,
                                  .start = r->start * NANOS,
                                  .end = r->end * NANOS + NANOS - 1};
    for (size_t i = 0; i < selector.n; i++)
        if (selector.matchers[i].op == STORE_EQ &&
            str_eq(selector.matchers[i].name, STR("service_name")))
            kept[select.n_matchers++] = selector.matchers[i];
    struct store_series *series;
    size_t n_series;
    return select.n_matchers &&
           !store_series(c->server->store, &select, c->arena, &series, &n_series, &answer, &e) &&
           n_series;
}

// A profile without samples tells its types if its service is known, as Pyroscope's does.
static struct pprof_profile *merged_message(struct call *c, const struct merge_request *r)
{
    struct model_profile *p;
    if (api_profile(c, r, r->max_nodes, &p))
        return NULL;
    return p->n_samples || names_known_service(c, r)
               ? profile_message(c, p)
               : arena_alloc(c->arena, sizeof(struct pprof_profile));
}

void api_merge_profile(struct call *c)
{
    struct merge_request *r = call_connect(c, &profile_request_message);
    struct pprof_profile *message = r ? merged_message(c, r) : NULL;
    if (message)
        call_connect_answer(c, &pprof_message, message);
}

int api_dot(struct call *c, const struct merge_request *r, struct out *out)
{
    struct model_profile *p;
    struct err e = {""};
    int64_t shown = r->max_nodes > API_MAX_NODES ? API_MAX_NODES
                    : r->max_nodes > 0           ? r->max_nodes
                                                 : 100;
    if (api_profile(c, r, shown > 512 ? shown : 512, &p))
        return -1;
    if (!p->n_samples)
        return 0;
    struct model_detail lines = {
        .inlines = true, .functions = true, .filenames = true, .lines = true};
    p = model_aggregate(p, lines, c->arena);
    struct report report = {
        .p = p,
        .arena = c->arena,
        .o = {.format = REPORT_DOT,
              .ratio = 1,
              .node_count = (int)shown,
              .type_name = model_str(p, p->types[0].type),
              .unit = model_str(p, p->types[0].unit),
              .output_unit = STR(""),
              .title = p->n_mappings ? model_str(p, p->mappings[0].file) : STR("")},
    };
    const char *slash = memrchr(report.o.title.p, '/', report.o.title.n);
    if (slash)
        report.o.title =
            str_from_to(report.o.title, (size_t)(slash + 1 - report.o.title.p), report.o.title.n);
    report.o.label_units = model_label_units(p, c->arena, NULL, NULL);
    report.total = report_total(p, 0, false);
    if (report_write(&report, out, &e)) {
        call_fail(c, CALL_UNKNOWN, 0, "cannot draw the graph: %s", e.message);
        return -1;
    }
    return 0;
}

static void answer_merge(struct call *c, const struct merge_request *r)
{
    struct merge_answer answer = {0};
    struct err e = {""};
    struct out out;
    out_init_arena(&out, c->arena);
    if (r->format == FORMAT_DOT) {
        if (api_dot(c, r, &out))
            return;
        answer.dot = out_result(&out);
    } else if (r->format == FORMAT_PPROF) {
        struct pprof_profile *profile = merged_message(c, r);
        if (!profile) // the call has ended, and what it held may be gone
            return;
        answer.pprof = arena_alloc(c->arena, sizeof *answer.pprof);
        answer.pprof->profile = profile;
    } else {
        struct query_tree *tree;
        struct query_flame flame = {0};
        if (api_check_nodes(c, r->max_nodes) || api_tree(c, r, &tree))
            return;
        int result = r->format == FORMAT_TREE
                         ? query_tree_bytes(tree, r->max_nodes, c->arena, &out, &e)
                         : query_flame(tree, r->max_nodes, c->arena, &flame, &e);
        if (result) {
            call_fail_store(c, result, &e);
            return;
        }
        if (r->format == FORMAT_TREE)
            answer.tree = out_result(&out);
        else
            answer.flame = flame_message(c->arena, &flame);
    }
    call_connect_answer(c, &merge_answer_message, &answer);
}

void api_merge_stacktraces(struct call *c)
{
    struct merge_request *r = call_connect(c, &merge_request_message);
    if (r)
        answer_merge(c, r);
}

void api_merge_span_profile(struct call *c)
{
    struct merge_request *r = call_connect(c, &span_request_message);
    if (!r)
        return;
    if (r->format != FORMAT_TREE)
        r->format = FORMAT_FLAME;
    answer_merge(c, r);
}

void api_diff(struct call *c)
{
    struct diff_request *r = call_connect(c, &diff_request_message);
    if (!r)
        return;
    struct merge_request none = {0};
    const struct merge_request *left = r->left ? r->left : &none;
    const struct merge_request *right = r->right ? r->right : &none;
    int64_t max_nodes = left->max_nodes > right->max_nodes ? left->max_nodes : right->max_nodes;
    struct query_tree *before, *after;
    struct query_flame flame = {0};
    struct err e = {""};
    if (api_check_nodes(c, max_nodes) || api_tree(c, left, &before) || api_tree(c, right, &after))
        return;
    int result = query_diff(before, after, max_nodes, c->arena, &flame, &e);
    if (result) {
        call_fail_store(c, result, &e);
        return;
    }
    call_connect_answer(c, &diff_answer_message,
                        &(struct diff_answer){flame_message(c->arena, &flame)});
}

// The cost of a query. Queries are not limited by cost here, so the answer is empty.
void api_analyze(struct call *c)
{
    struct labels_request *r = call_connect(c, &range_request_message);
    if (r)
        call_connect_answer(c, &names_answer_message, &(struct names_answer){{0}});
}

// --- time series ---

// A profile exactly one step before start has a point of its own: it is start's.
static void join_first(struct query_series *s, int64_t start)
{
    if (!s->n_points || s->points[0].time >= start)
        return;
    if (s->n_points > 1 && s->points[1].time == start) {
        const struct query_exemplar *a = s->points[0].exemplar, *b = s->points[1].exemplar;
        s->points[1].value += s->points[0].value;
        if (a && (!b || a->value > b->value))
            s->points[1].exemplar = s->points[0].exemplar;
        s->points++;
        s->n_points--;
    } else {
        s->points[0].time = start;
    }
}

int api_check_groups(struct call *c, size_t n)
{
    if (n <= API_MAX_GROUP_BY)
        return 0;
    call_fail(c, CALL_INVALID_ARGUMENT, 0, "group_by: %zu labels; at most %d are allowed", n,
              API_MAX_GROUP_BY);
    return -1;
}

int api_points(struct call *c, const struct series_request *r, struct query_series **series,
               size_t *n)
{
    struct store_select select;
    struct store_answer answer = {0};
    struct err e = {""};
    if (api_select(c, r->type, r->selector, r->start, r->end, &select))
        return -1;
    if (!(r->step >= 0.001) || r->step > 1e9) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "step must be >= 1ms, in seconds");
        return -1;
    }
    if (api_check_groups(c, r->group_by.n))
        return -1;
    // A profile counts for the first step that is not before it: those up to a step before the
    // first one count for that, and those behind the last one for none.
    int64_t step = (int64_t)(r->step * 1000);
    int64_t before = r->start > step ? step : r->start;
    select.start -= before * NANOS;
    int64_t end = select.end;
    select.end = (r->start + (r->end - r->start) / step * step) * NANOS;
    struct store_filter filter = {.function = STR("")};
    filter.call_site = call_sites(c, r->stacks, &filter.n_call_site);
    if (filter.n_call_site)
        select.filter = &filter;
    struct query_series_options options = {
        .group_by = r->group_by.items,
        .n_group_by = r->group_by.n,
        .step = step * NANOS,
        .aggregation = r->aggregation == QUERY_AVERAGE ? QUERY_AVERAGE : QUERY_SUM,
        .limit = r->limit > 0 ? (size_t)r->limit : 0,
    };
    int result =
        query_series(c->server->store, &select, &options, c->arena, series, n, &answer, &e);
    // A range of less than a step has start's point alone; with nothing there, that is of what
    // the range has.
    bool single = !result && !*n && step > r->end - r->start;
    if (single) {
        select.start = r->start * NANOS;
        select.end = end;
        options.step = end - select.start;
        result =
            query_series(c->server->store, &select, &options, c->arena, series, n, &answer, &e);
    }
    for (size_t i = 0; i < *n && !result && select.filter; i++)
        for (size_t k = 0; k < (*series)[i].n_points; k++)
            (*series)[i].points[k].value = (*series)[i].points[k].total;
    select.filter = NULL; // Exemplars are whole profiles.
    if (!result && r->exemplars == EXEMPLARS_INDIVIDUAL)
        result = query_exemplars(c->server->store, &select, &options, c->arena, *series, *n,
                                 &answer, &e);
    if (result) {
        call_fail_store(c, result, &e);
        return -1;
    }
    for (size_t i = 0; i < *n; i++) {
        struct query_series *s = &(*series)[i];
        if (single)
            s->points[0].time = r->start * NANOS;
        join_first(s, r->start * NANOS);
    }
    call_warn(c, &answer);
    return 0;
}

static struct series_point point_message(const struct query_point *p, struct arena *arena)
{
    struct series_point point = {.value = p->value, .time = p->time / NANOS};
    if (p->exemplar) {
        const struct query_exemplar *from = p->exemplar;
        struct series_exemplar *x = arena_alloc(arena, sizeof *x);
        *x = (struct series_exemplar){
            .time = from->time / NANOS,
            .id = from->id,
            .value = from->value >= 0x1p63 ? INT64_MAX : (int64_t)from->value,
            .labels = {from->labels, from->n_labels, from->n_labels, false},
        };
        point.exemplars = (struct message_list){x, 1, 1, false};
    }
    return point;
}

void api_select_series(struct call *c)
{
    struct series_request *r = call_connect(c, &series_request_message);
    struct query_series *series;
    size_t n;
    if (!r || api_points(c, r, &series, &n))
        return;
    struct point_series *list = arena_array(c->arena, n + 1, sizeof *list);
    for (size_t i = 0; i < n; i++) {
        size_t n_points = series[i].n_points;
        struct series_point *points = arena_array(c->arena, n_points + 1, sizeof *points);
        for (size_t k = 0; k < n_points; k++)
            points[k] = point_message(&series[i].points[k], c->arena);
        list[i].labels =
            (struct message_list){series[i].labels, series[i].n_labels, series[i].n_labels, false};
        list[i].points = (struct message_list){points, n_points, n_points, false};
    }
    call_connect_answer(c, &series_answer_message, &(struct series_answer){{list, n, n, false}});
}
