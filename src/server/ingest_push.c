#include "server/ingest.h"

struct label_pair {
    struct str name, value;
};

struct raw_sample {
    struct str profile, id;
};

struct raw_series {
    struct message_list labels, samples;
};

struct push_request {
    struct message_list series;
};

static const struct message_field label_fields[] = {
    {1, "name", NULL, MESSAGE_STRING, .offset = offsetof(struct label_pair, name)},
    {2, "value", NULL, MESSAGE_STRING, .offset = offsetof(struct label_pair, value)},
};
static const struct message label_message = MESSAGE(struct label_pair, label_fields);

static const struct message_field sample_fields[] = {
    {1, "rawProfile", "raw_profile", MESSAGE_BYTES, .offset = offsetof(struct raw_sample, profile)},
    {2, "ID", NULL, MESSAGE_STRING, .offset = offsetof(struct raw_sample, id)},
};
static const struct message sample_message = MESSAGE(struct raw_sample, sample_fields);

static const struct message_field series_fields[] = {
    {1, "labels", NULL, MESSAGE_MESSAGE, true, .offset = offsetof(struct raw_series, labels),
     .message = &label_message},
    {2, "samples", NULL, MESSAGE_MESSAGE, true, .offset = offsetof(struct raw_series, samples),
     .message = &sample_message},
};
static const struct message series_message = MESSAGE(struct raw_series, series_fields);

static const struct message_field push_fields[] = {
    {1, "series", NULL, MESSAGE_MESSAGE, true, .offset = offsetof(struct push_request, series),
     .message = &series_message},
};
static const struct message push_message = MESSAGE(struct push_request, push_fields);

void ingest_push(struct call *c)
{
    struct push_request *request = ingest_may_begin(c) ? call_connect(c, &push_message) : NULL;
    if (!request)
        return;
    struct raw_series *series = request->series.items;
    struct ingest_item *items = NULL;
    size_t n = 0, cap = 0;
    struct err e = {""};
    for (size_t i = 0; i < request->series.n; i++) {
        struct raw_sample *samples = series[i].samples.items;
        struct label_pair *pairs = series[i].labels.items;
        for (size_t k = 0; k < series[i].samples.n; k++) {
            items = arena_push(c->arena, items, n, &cap, sizeof *items);
            struct ingest_item *item = &items[n++];
            *item = (struct ingest_item){.id = samples[k].id, .n_labels = series[i].labels.n};
            item->labels = arena_array(c->arena, item->n_labels + 1, sizeof *item->labels);
            for (size_t l = 0; l < item->n_labels; l++)
                item->labels[l] = (struct store_label){pairs[l].name, pairs[l].value};
            item->profile =
                ingest_pprof(&c->server->config->limits, c->arena, samples[k].profile, &e);
            if (!item->profile) {
                err_prefix(&e, "series %zu, sample %zu: ", i, k);
                call_fail_input(c, CALL_INVALID_ARGUMENT, 0, &e);
                return;
            }
        }
    }
    if (!n) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "no profiles received");
        return;
    }
    c->x->type = c->json ? "application/json" : "application/proto";
    if (c->json)
        out_text(&c->x->body_out, "{}");
    ingest_items(c, items, n, 400);
}
