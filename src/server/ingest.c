#include "server/ingest.h"

#include "codec/codec.h"
#include "codec/compress.h"
#include "server/auth.h"
#include "server/ingest_go.h"
#include "server/limits.h"

enum { PUTS_MAX = 100000 }; // series of one request

struct model_profile *ingest_pprof(const struct server_limits *limits, struct arena *arena,
                                   struct str data, struct err *e)
{
    const uint8_t *p = (const uint8_t *)data.p;
    if (!compress_is_gzip(p, data.n)) {
        if (data.n > limits->profile) {
            err_set(e, "the profile has %zu bytes; limit %zu", data.n, limits->profile);
            return NULL;
        }
        return codec_read_pprof(arena, p, data.n, e);
    }
    // Into memory that the last request used, not into new pages.
    struct str small;
    if (limits->profile >= COMPRESS_SMALL && compress_inflate_small(p, data.n, arena, &small) == 0)
        return codec_read_pprof(arena, (const uint8_t *)small.p, small.n, e);
    struct compress_bytes bytes = {.budget = arena_budget(arena)};
    if (compress_inflate(p, data.n, limits->profile, &bytes, e))
        return NULL;
    // codec_read_pprof catches the arena's running out itself.
    struct model_profile *profile = codec_read_pprof(arena, bytes.p, bytes.n, e);
    compress_bytes_fini(&bytes);
    return profile;
}

bool ingest_may_begin(struct call *c)
{
    struct err e;
    int result = store_expect(c->server->store, c->tenant, c->x->body.n, &e);
    if (result)
        call_fail_store(c, result, &e);
    return !result;
}

struct batch {
    struct store_put *puts;
    size_t n, cap;
    uint64_t samples;
    size_t corrected; // profiles whose time was not plausible
    bool backfill;    // limits.past does not hold
};

// A time that no clock shows is the sender's fault, not the profile's: 1970, or years ahead.
static int64_t plausible_time(struct batch *batch, const struct ingest_item *item, int64_t now,
                              bool *is_untimed)
{
    const int64_t year = (int64_t)365 * 86400 * 1000000000;
    int64_t time = item->profile->time_nanos, other = item->fallback_time;
    bool is_good = time >= year && time <= now + year;
    bool is_other_good = other >= year && other <= now + year;
    batch->corrected += !is_good && (time || (other && !is_other_good));
    *is_untimed = !is_good && !is_other_good;
    return is_good ? time : is_other_good ? other : now;
}

// Without the types that have no value other than zero: they would be series of nothing.
static const struct model_profile *used_types(const struct model_profile *p, struct arena *arena)
{
    uint32_t *to = arena_array(arena, p->n_types, sizeof *to), n = 0;
    for (uint32_t k = 0; k < p->n_types; k++) {
        bool used = false;
        for (size_t i = 0; !used && i < p->n_samples; i++)
            used = model_values(p, i)[k] != 0;
        if (used)
            to[n++] = k;
    }
    if (n == p->n_types)
        return p;
    struct model_profile *q = model_profile_derive(p, arena);
    q->n_types = n;
    q->types = arena_array(arena, n + 1, sizeof *q->types);
    q->values = arena_array(arena, p->n_samples * n + 1, sizeof *q->values);
    for (uint32_t k = 0; k < n; k++) {
        q->types[k] = p->types[to[k]];
        for (size_t i = 0; i < p->n_samples; i++)
            q->values[i * n + k] = model_values(p, i)[to[k]];
    }
    return q;
}

enum { ADD_BAD_LABELS = -100, ADD_BAD_PROFILE = -101, ADD_BAD_TIME = -102 };

static int add_ingest_item(struct server *s, struct str tenant, struct ingest_item *item,
                           struct arena *arena, struct batch *batch, struct err *e)
{
    const struct server_limits *limits = &s->config->limits;
    if (limits_labels(limits, item->labels, &item->n_labels, e))
        return ADD_BAD_LABELS;
    const struct model_profile *p = limits_profile(limits, item->profile, arena, e);
    if (!p)
        return ADD_BAD_PROFILE;
    if (ingest_is_go(p, item->labels, item->n_labels))
        ingest_fix_go((struct model_profile *)p, arena);
    bool is_untimed;
    int64_t now = server_now(), time = plausible_time(batch, item, now, &is_untimed);
    if (limits_time(limits, time, store_time(s->store), now, batch->backfill, item->labels,
                    item->n_labels, e))
        return ADD_BAD_TIME;
    if (!p->n_samples)
        return 0;
    struct store_part *parts;
    size_t n_parts;
    if (store_split(p, item->labels, item->n_labels, arena, &parts, &n_parts, e))
        return ADD_BAD_PROFILE;
    for (size_t i = 0; i < n_parts; i++) {
        if (!parts[i].profile->n_samples)
            continue;
        if (parts[i].n_labels > limits->labels + limits->sample_labels) {
            err_set(e, "a series has %zu labels with those of its samples; limit %u",
                    parts[i].n_labels, limits->labels + limits->sample_labels);
            return ADD_BAD_LABELS;
        }
        if (batch->n == PUTS_MAX) {
            err_set(e,
                    "the request has more than %d series, because its samples have too many labels",
                    PUTS_MAX);
            return ADD_BAD_PROFILE;
        }
        batch->puts = arena_push(arena, batch->puts, batch->n, &batch->cap, sizeof *batch->puts);
        batch->puts[batch->n++] = (struct store_put){
            .tenant = tenant,
            .labels = parts[i].labels,
            .n_labels = parts[i].n_labels,
            .time = time,
            .is_untimed = is_untimed,
            .duration = p->duration_nanos > 0 ? p->duration_nanos : 0,
            .profile = used_types(parts[i].profile, arena),
            .id = item->id,
        };
        batch->samples += parts[i].profile->n_samples;
    }
    return 0;
}

struct pending {
    struct call *call;
    size_t n;
    uint64_t samples;
};

static void answer_when_durable(void *context, int code, const struct err *e)
{
    struct pending *p = context;
    struct call *c = p->call;
    if (code) {
        call_fail_store(c, code, e);
        return;
    }
    c->server->counters.profiles += p->n;
    c->server->counters.samples += p->samples;
    call_finish(c);
}

void ingest_items(struct call *c, struct ingest_item *items, size_t n, int bad_profile)
{
    struct batch batch = {0};
    struct err e = {""};
    struct str backfill = call_parameter(c, "backfill");
    batch.backfill = backfill.p && str_eq(backfill, STR("1"));
    if (batch.backfill && auth_require(c, SCOPE_ADMIN))
        return;
    c->server->counters.bytes += c->x->body.n;
    for (size_t i = 0; i < n; i++) {
        int result = add_ingest_item(c->server, c->tenant, &items[i], c->arena, &batch, &e);
        if (!result)
            continue;
        if (n > 1)
            err_prefix(&e, "profile %zu of %zu: ", i + 1, n);
        call_fail(c,
                  bad_profile == 422 && result == ADD_BAD_PROFILE ? CALL_UNKNOWN
                                                                  : CALL_INVALID_ARGUMENT,
                  result == ADD_BAD_PROFILE ? bad_profile : 400, "%s", e.message);
        return;
    }
    if (batch.corrected) {
        c->server->counters.corrected += batch.corrected;
        web_answer_header(c->x, "Kiln-Times-Corrected",
                          arena_printf(c->arena, "%zu", batch.corrected));
    }
    if (!batch.n) {
        call_finish(c);
        return;
    }
    struct pending *pending = arena_alloc(c->arena, sizeof *pending);
    *pending = (struct pending){c, n, batch.samples};
    int result =
        store_submit(c->server->store, batch.puts, batch.n, answer_when_durable, pending, &e);
    if (result)
        call_fail_store(c, result, &e);
}

struct later {
    struct server *server;
    struct arena *arena;
    uint64_t samples;
    void (*done)(void *context);
    void *context;
};

static void later_free(struct later *later)
{
    struct later copy = *later; // which is in its arena
    arena_free(copy.arena);
    copy.done(copy.context);
}

static void later_durable(void *context, int code, const struct err *e)
{
    struct later *later = context;
    if (code) {
        server_log("error", "cannot store a scraped profile", "error", e->message, NULL);
    } else {
        later->server->counters.profiles++;
        later->server->counters.samples += later->samples;
    }
    later_free(later);
}

int ingest_later(struct server *s, struct str tenant, struct ingest_item *item, struct arena *arena,
                 void (*done)(void *context), void *context, struct err *e)
{
    struct batch batch = {0};
    int result = add_ingest_item(s, tenant, item, arena, &batch, e);
    if (result)
        return result;
    s->counters.corrected += batch.corrected;
    struct later *later = arena_alloc(arena, sizeof *later);
    *later = (struct later){s, arena, batch.samples, done, context};
    if (!batch.n) {
        later_free(later);
        return 0;
    }
    if (arena_budget(arena))
        arena_budget(arena)->deadline = 0; // the store finishes what it has taken
    return store_submit(s->store, batch.puts, batch.n, later_durable, later, e);
}
