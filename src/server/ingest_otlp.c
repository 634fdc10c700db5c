#include "codec/otlp.h"
#include "server/ingest.h"

static bool contains_type(struct str s, const char *part)
{
    return str_find(s, str_from(part), 0) != SIZE_MAX;
}

// `__name__`: OTLP has none, the types tell.
static struct str metric_name(const struct model_profile *p)
{
    struct str type = model_str(p, p->types[0].type), period = model_str(p, p->period_type.type);
    if (str_eq(type, STR("cpu")) && str_eq(period, STR("cpu")))
        return STR("process_cpu");
    if (str_eq(type, STR("off_cpu")))
        return STR("off_cpu");
    if (period.n)
        return period;
    if (contains_type(type, "alloc_") || contains_type(type, "inuse_"))
        return STR("memory");
    return contains_type(type, "cpu") || str_eq(type, STR("samples")) ? STR("process_cpu") : type;
}

static struct str otlp_attribute(const struct otlp_profile *p, struct str key)
{
    for (size_t i = 0; i < p->n_attributes; i++)
        if (str_eq(p->attributes[i].key, key))
            return p->attributes[i].value;
    return STR("");
}

static struct str service_name(struct arena *arena, const struct otlp_profile *p)
{
    struct str program = otlp_attribute(p, STR("process.executable.name"));
    struct str service = p->service.n ? p->service : otlp_attribute(p, STR("service.name"));
    if (service.n)
        return service;
    if (program.n)
        return str_from(arena_printf(arena, "unknown_service:%.*s", (int)program.n, program.p));
    return STR("unknown_service");
}

static void make_item(struct arena *arena, const struct otlp_profile *p, struct ingest_item *item)
{
    *item = (struct ingest_item){.profile = p->profile};
    item->labels = arena_array(arena, p->n_attributes + 4, sizeof *item->labels);
    item->labels[item->n_labels++] = (struct store_label){STR("__name__"), metric_name(p->profile)};
    item->labels[item->n_labels++] =
        (struct store_label){STR("service_name"), service_name(arena, p)};
    for (size_t i = 0; i < p->n_attributes; i++) {
        struct str key = p->attributes[i].key;
        if (str_eq(key, STR("service.name")) || str_eq(key, STR("service_name")) ||
            str_eq(key, STR("__name__")))
            continue;
        item->labels[item->n_labels++] = (struct store_label){key, p->attributes[i].value};
    }
}

void ingest_otlp(struct call *c)
{
    struct str type = web_header(c->x, "Content-Type"), body;
    struct otlp_profile *profiles;
    size_t n;
    struct err e = {""};
    if (!str_eq(c->x->method, STR("POST"))) {
        web_answer_header(c->x, "Allow", "POST");
        call_empty(c, 405);
        return;
    }
    bool json = call_is_type(type, "application/json");
    if (!json && !call_is_type(type, "application/x-protobuf") &&
        !call_is_type(type, "application/protobuf")) {
        call_empty(c, 415);
        return;
    }
    if (!ingest_may_begin(c) || call_body(c, &body))
        return;
    if (otlp_read(c->arena, (const uint8_t *)body.p, body.n, json, &profiles, &n, &e)) {
        call_fail_input(c, CALL_INVALID_ARGUMENT, 0, &e);
        return;
    }
    struct ingest_item *items = arena_array(c->arena, n + 1, sizeof *items);
    for (size_t i = 0; i < n; i++)
        make_item(c->arena, &profiles[i], &items[i]);
    c->x->type = json ? "application/json" : "application/x-protobuf";
    if (json)
        out_text(&c->x->body_out, "{}");
    ingest_items(c, items, n, 400);
}
