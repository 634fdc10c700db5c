// Lists of labels, types and series.
#include "codec/json.h"
#include "server/ingest_name.h"
#include "server/limits.h"
#include "server/query_api.h"

static const int64_t NANOS = 1000000; // of a millisecond

int api_time(struct call *c, const char *name, int64_t usual, int64_t *time)
{
    struct str text = call_parameter(c, name);
    *time = usual;
    if (!text.n || ingest_time(text, server_now(), time))
        return 0;
    call_fail(c, CALL_INVALID_ARGUMENT, 0,
              "%s: time \"%.*s\" is out of range; examples: now-1h, 1700000000, 20240131", name,
              text.n < 40 ? (int)text.n : 40, text.p);
    return -1;
}

int api_check_range(struct call *c, int64_t start, int64_t end)
{
    if (!start || !end) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "missing time range in the query");
        return -1;
    }
    if (start > end) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "query start time is after end time");
        return -1;
    }
    if (start < 0 || end >= INT64_MAX / NANOS) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0,
                  "time range %lld to %lld is out of range; expected milliseconds since 1970",
                  (long long)start, (long long)end);
        return -1;
    }
    return 0;
}

// All the matchers together: a series must satisfy every one.
static int prepare_label_select(struct call *c, const struct message_list *list, int64_t start,
                                int64_t end, struct store_select *select)
{
    const struct str *texts = list->items;
    struct store_matcher *all = NULL;
    size_t n = 0, cap = 0;
    struct err e = {""};
    for (size_t i = 0; i < list->n; i++) {
        struct query_selector one;
        if (query_selector(texts[i], c->arena, &one, &e)) {
            call_fail(c, CALL_INVALID_ARGUMENT, 0, "matcher %zu: %s", i + 1, e.message);
            return -1;
        }
        if (n + one.n > QUERY_MAX_MATCHERS) {
            call_fail(c, CALL_INVALID_ARGUMENT, 0, "more than %d matchers", QUERY_MAX_MATCHERS);
            return -1;
        }
        for (size_t k = 0; k < one.n; k++) {
            all = arena_push(c->arena, all, n, &cap, sizeof *all);
            all[n++] = one.matchers[k];
        }
    }
    *select = (struct store_select){
        .tenant = c->tenant,
        .matchers = all,
        .n_matchers = n,
        .start = start * NANOS,
        .end = end * NANOS + NANOS - 1,
    };
    return 0;
}

struct profile_type api_type_parts(struct str id)
{
    struct profile_type type = {.id = id};
    struct str *parts[] = {&type.name, &type.sample_type, &type.sample_unit, &type.period_type,
                           &type.period_unit};
    size_t from = 0;
    for (size_t i = 0; i < 5 && from <= id.n; i++) {
        size_t to = from;
        while (to < id.n && id.p[to] != ':')
            to++;
        *parts[i] = str_from_to(id, from, to);
        from = to + 1;
    }
    return type;
}

void api_profile_types(struct call *c)
{
    struct range_request *r = call_connect(c, &range_request_message);
    if (!r)
        return;
    struct store_select select = {.tenant = c->tenant, .end = INT64_MAX};
    if (r->start || r->end) {
        struct message_list none = {0};
        if (api_check_range(c, r->start, r->end) ||
            prepare_label_select(c, &none, r->start, r->end, &select))
            return;
    }
    struct str *ids;
    size_t n;
    struct store_answer answer = {0};
    struct err e = {""};
    int result = query_types(c->server->store, &select, c->arena, &ids, &n, &answer, &e);
    if (result) {
        call_fail_store(c, result, &e);
        return;
    }
    struct profile_type *types = arena_array(c->arena, n + 1, sizeof *types);
    for (size_t i = 0; i < n; i++)
        types[i] = api_type_parts(ids[i]);
    call_warn(c, &answer);
    call_connect_answer(c, &types_answer_message, &(struct types_answer){{types, n, n, false}});
}

// Clients say in Accept that they can show names beyond [a-zA-Z0-9_].
static bool takes_any_name(const struct call *c)
{
    struct str accept = web_header(c->x, "Accept");
    return accept.p && str_find(accept, STR("allow-utf8-labelnames=true"), 0) != SIZE_MAX;
}

static size_t keep_plain(const struct call *c, struct str *names, size_t n)
{
    size_t kept = 0;
    if (takes_any_name(c))
        return n;
    for (size_t i = 0; i < n; i++)
        if (limits_is_plain_name(names[i]))
            names[kept++] = names[i];
    return kept;
}

void api_label_names(struct call *c)
{
    struct labels_request *r = call_connect(c, &label_names_request_message);
    struct store_select select;
    if (!r || api_check_range(c, r->start, r->end) ||
        prepare_label_select(c, &r->matchers, r->start, r->end, &select))
        return;
    struct str *names;
    size_t n;
    struct store_answer answer = {0};
    struct err e = {""};
    int result = query_label_names(c->server->store, &select, c->arena, &names, &n, &answer, &e);
    if (result) {
        call_fail_store(c, result, &e);
        return;
    }
    n = keep_plain(c, names, n);
    call_warn(c, &answer);
    call_connect_answer(c, &names_answer_message, &(struct names_answer){{names, n, n, false}});
}

void api_label_values(struct call *c)
{
    struct labels_request *r = call_connect(c, &label_values_request_message);
    struct store_select select;
    if (!r || api_check_range(c, r->start, r->end))
        return;
    if (!r->name.n) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "name is required");
        return;
    }
    if (prepare_label_select(c, &r->matchers, r->start, r->end, &select))
        return;
    struct str *values;
    size_t n;
    struct store_answer answer = {0};
    struct err e = {""};
    int result =
        query_label_values(c->server->store, &select, r->name, c->arena, &values, &n, &answer, &e);
    if (result) {
        call_fail_store(c, result, &e);
        return;
    }
    call_warn(c, &answer);
    call_connect_answer(c, &names_answer_message, &(struct names_answer){{values, n, n, false}});
}

void api_series(struct call *c)
{
    struct labels_request *r = call_connect(c, &sets_request_message);
    struct store_select select;
    if (!r || api_check_range(c, r->start, r->end) ||
        prepare_label_select(c, &r->matchers, r->start, r->end, &select))
        return;
    struct str *names = r->label_names.items;
    size_t n_names = r->label_names.n, n;
    struct store_answer answer = {0};
    struct err e = {""};
    int result = 0;
    if (!n_names && !takes_any_name(c))
        result =
            query_label_names(c->server->store, &select, c->arena, &names, &n_names, &answer, &e);
    n_names = keep_plain(c, names, n_names);
    struct store_series *sets;
    if (!result)
        result = query_label_sets(c->server->store, &select, names, n_names, c->arena, &sets, &n,
                                  &answer, &e);
    if (result) {
        call_fail_store(c, result, &e);
        return;
    }
    struct labels *list = arena_array(c->arena, n + 1, sizeof *list);
    for (size_t i = 0; i < n; i++)
        list[i].labels = (struct message_list){(void *)sets[i].labels, sets[i].n_labels,
                                               sets[i].n_labels, false};
    call_warn(c, &answer);
    call_connect_answer(c, &sets_answer_message, &(struct sets_answer){{list, n, n, false}});
}

void api_stats(struct call *c)
{
    static const struct message_field no_fields[1];
    static const struct message empty = {1, no_fields, 0};
    if (!call_connect(c, &empty))
        return;
    struct store_stats stats = {0};
    struct err e = {""};
    int result = store_stats(c->server->store, c->tenant, &c->x->budget, &stats, &e);
    if (result) {
        call_fail_store(c, result, &e);
        return;
    }
    struct stats_answer answer = {.ingested = stats.any};
    if (stats.any) {
        answer.oldest = stats.oldest / NANOS;
        answer.newest = stats.newest / NANOS;
    }
    call_connect_answer(c, &stats_answer_message, &answer);
}

// --- the older endpoints ---

static void answer_list(struct call *c, const struct str *items, size_t n)
{
    struct out *out = &c->x->body_out;
    c->x->type = "application/json";
    out_char(out, '[');
    for (size_t i = 0; i < n; i++) {
        if (i)
            out_char(out, ',');
        json_write_string(out, items[i]);
    }
    out_text(out, "]\n");
    call_finish(c);
}

// Without from and until everything is asked about.
static int legacy_select(struct call *c, struct store_select *select)
{
    *select = (struct store_select){.tenant = c->tenant};
    return api_time(c, "from", 0, &select->start) || api_time(c, "until", INT64_MAX, &select->end)
               ? -1
               : 0;
}

void api_legacy_label_values(struct call *c)
{
    struct str label = call_parameter(c, "label"), *values;
    struct store_select select;
    struct store_answer answer = {0};
    struct err e = {""};
    size_t n;
    if (!label.n) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "label parameter is required");
        return;
    }
    if (legacy_select(c, &select))
        return;
    int result = str_eq(label, STR("__name__"))
                     ? query_types(c->server->store, &select, c->arena, &values, &n, &answer, &e)
                     : query_label_values(c->server->store, &select, label, c->arena, &values, &n,
                                          &answer, &e);
    call_warn(c, &answer);
    if (result)
        call_fail_store(c, result, &e);
    else
        answer_list(c, values, n);
}

void api_legacy_labels(struct call *c)
{
    struct str *names;
    struct store_select select;
    struct store_answer answer = {0};
    struct err e = {""};
    size_t n;
    if (legacy_select(c, &select))
        return;
    int result = query_label_names(c->server->store, &select, c->arena, &names, &n, &answer, &e);
    call_warn(c, &answer);
    if (result)
        call_fail_store(c, result, &e);
    else
        answer_list(c, names, keep_plain(c, names, n));
}
