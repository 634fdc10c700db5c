#include "server/kube_watch.h"

#include <stdio.h>
#include <stdlib.h>

#include "process/clock.h"
#include "server/kube_targets.h"
#include "server/outgoing.h"

enum {
    PAGE_OBJECTS = 500,
    WATCH_SECONDS = 300,       // how long the API server keeps a watch open, plus up to as much
    GRACE_SECONDS = 30,        // for a watch that the server does not end
    EVENTS_MAX = 16 << 20,     // bytes of events that were not read yet
    FIRST_TEXT = 16 << 10,     // bytes
    SCRATCH_MAX = 64 << 20,    // of the labels of some objects, before relabeling
    SCRATCH_OBJECTS = 64,      // between two scratch arenas
    RETRY_INTERVAL_MS = 30000, // longest pause after failures
    GATHER_MS = 200,           // events that come together are read together
};

static const int64_t MILLISECOND = 1000000;
// A watch that ends sooner counts as a failure.
static const int64_t SHORT_WATCH = 1000000000;

static const char *const resource_names[] = {"pods", "endpointslices", "services"};

// --- what there is to watch ---

static void drop_kube_text(struct kube_watch *w)
{
    budget_release(&w->scraper->finding.account, w->cap);
    free(w->text);
    w->text = NULL;
    w->n = w->cap = 0;
}

void kube_watch_free(struct kube_watch *w)
{
    drop_kube_text(w);
    kube_objects_free(&w->objects);
    scrape_settings_unref(w->settings);
    free(w->more);
    free(w->key);
    free(w);
}

static const char *kube_key(const struct scrape_config *c, const struct kube_discovery *d,
                            enum kube_resource resource, struct str space, struct arena *arena)
{
    struct out out;
    out_init_arena(&out, arena);
    out_printf(&out, "%s\n%s\n%s\n%.*s\n", c->job.p, d->api_server.p, resource_names[resource],
               (int)space.n, space.p);
    for (size_t i = 0; i < d->n_selectors; i++)
        out_printf(&out, "%s\n%s\n%s\n", d->selectors[i].role.p,
                   d->selectors[i].label.p ? d->selectors[i].label.p : "",
                   d->selectors[i].field.p ? d->selectors[i].field.p : "");
    return arena_copy(arena, out.p, out.n);
}

static struct kube_watch *find_kube_watch(struct scraper *s, const char *key)
{
    for (struct kube_watch *w = s->watches; w; w = w->next)
        if (strcmp(w->key, key) == 0)
            return w;
    return NULL;
}

static struct kube_watch *new_kube_watch(struct scraper *s, const char *key)
{
    struct kube_watch *w = calloc(1, sizeof *w);
    if (!w || !(w->key = strdup(key))) {
        free(w);
        return NULL;
    }
    w->scraper = s;
    w->lists = true;
    w->page = PAGE_OBJECTS;
    w->objects.budget = &s->finding;
    w->objects.list = 1;
    retry_init(&w->retry, RETRY_INTERVAL_MS, retry_seed());
    w->next = s->watches;
    return s->watches = w;
}

static void use_kube_watch(struct scraper *s, struct scrape_settings *settings,
                           const struct scrape_config *c, const struct kube_discovery *d,
                           enum kube_resource resource, struct str space, struct arena *arena)
{
    const char *key = kube_key(c, d, resource, space, arena);
    struct kube_watch *w = find_kube_watch(s, key);
    if (!w && !(w = new_kube_watch(s, key)))
        return;
    settings->refs++;
    scrape_settings_unref(w->settings);
    w->settings = settings;
    w->config = c;
    w->discovery = d;
    w->resource = resource;
    w->space = space;
    w->used = true;
}

// Pods and services are watched for the labels of endpoints.
static bool is_watched(const struct kube_discovery *d, enum kube_resource resource)
{
    return d->role != KUBE_ROLE_POD || resource == KUBE_PODS;
}

static struct str namespace_at(const struct kube_discovery *d, size_t i)
{
    return i < d->n_namespaces ? d->namespaces[i] : STR("");
}

static void use_kube_discovery(struct scraper *s, struct scrape_settings *settings,
                               const struct scrape_config *c, const struct kube_discovery *d,
                               struct arena *arena)
{
    for (size_t i = 0; i == 0 || i < d->n_namespaces; i++)
        for (enum kube_resource r = KUBE_PODS; r <= KUBE_SERVICES; r++)
            if (is_watched(d, r))
                use_kube_watch(s, settings, c, d, r, namespace_at(d, i), arena);
}

void kube_watches_update(struct scraper *s, struct scrape_settings *settings, struct arena *arena)
{
    for (struct kube_watch *w = s->watches; w; w = w->next)
        w->used = false;
    for (size_t i = 0; i < settings->config->n_scrapes; i++) {
        const struct scrape_config *c = &settings->config->scrapes[i];
        for (size_t k = 0; k < c->n_clusters; k++)
            use_kube_discovery(s, settings, c, &c->clusters[k], arena);
    }
    for (struct kube_watch **link = &s->watches; *link;) {
        struct kube_watch *w = *link;
        if (w->used || w->state == KUBE_ASKED) {
            link = &w->next;
            continue;
        }
        *link = w->next;
        kube_watch_free(w);
    }
}

// --- requests ---

static bool is_selector_for(const struct kube_selector *s, enum kube_resource resource)
{
    if (resource == KUBE_PODS)
        return str_eq(s->role, STR("pod"));
    if (resource == KUBE_SERVICES)
        return str_eq(s->role, STR("service"));
    return str_eq(s->role, STR("endpoints")) || str_eq(s->role, STR("endpointslice"));
}

static void put_kube_parameter(struct out *out, const char *name, struct str value)
{
    bool first = false;
    if (value.n)
        scrape_put_parameter(out, str_from(name), value, &first);
}

static void write_kube_url(struct out *out, const struct kube_watch *w, unsigned seconds)
{
    const struct kube_discovery *d = w->discovery;
    out_str(out, d->api_server);
    out_text(out, w->resource == KUBE_SLICES ? "/apis/discovery.k8s.io/v1" : "/api/v1");
    if (w->space.n)
        out_printf(out, "/namespaces/%.*s", (int)w->space.n, w->space.p);
    out_printf(out, "/%s", resource_names[w->resource]);
    if (w->lists) {
        out_printf(out, "?limit=%u", w->page);
        put_kube_parameter(out, "continue", w->more ? str_from(w->more) : STR(""));
    } else {
        out_printf(out, "?watch=true&allowWatchBookmarks=true&timeoutSeconds=%u", seconds);
        put_kube_parameter(out, "resourceVersion", str_from(w->version));
    }
    for (size_t i = 0; i < d->n_selectors; i++)
        if (is_selector_for(&d->selectors[i], w->resource)) {
            put_kube_parameter(out, "labelSelector", d->selectors[i].label);
            put_kube_parameter(out, "fieldSelector", d->selectors[i].field);
        }
}

// With the lock held: what was received is to be read, soon.
static void want_reading(struct scraper *s, int64_t pause)
{
    int64_t due = scrape_now() + pause;
    if (s->read_due && s->read_due <= due)
        return;
    s->read_due = due;
    pthread_cond_broadcast(&s->wanted);
}

static bool grow_kube_text(struct kube_watch *w, size_t n)
{
    size_t cap = w->cap ? w->cap : FIRST_TEXT;
    while (cap < w->n + n)
        cap *= 2;
    if (cap == w->cap)
        return true;
    if (w->n + n > (w->lists ? SCRAPE_DISCOVERY_MAX : EVENTS_MAX) ||
        budget_take(&w->scraper->finding, cap - w->cap))
        return false;
    char *text = realloc(w->text, cap);
    if (!text) {
        budget_release(&w->scraper->finding.account, cap - w->cap);
        return false;
    }
    w->text = text;
    w->cap = cap;
    return true;
}

static bool took_kube_part(void *context, const char *data, size_t n)
{
    struct kube_watch *w = context;
    struct scraper *s = w->scraper;
    pthread_mutex_lock(&s->lock);
    bool wanted = w->used && !w->spoiled && !w->too_much, good = wanted && grow_kube_text(w, n);
    w->too_much |= wanted && !good;
    if (good) {
        memcpy(w->text + w->n, data, n);
        w->n += n;
        if (!w->lists)
            want_reading(s, GATHER_MS * MILLISECOND);
    }
    pthread_mutex_unlock(&s->lock);
    return good;
}

static void took_kube_answer(void *context, struct net_answer *answer)
{
    struct kube_watch *w = context;
    struct scraper *s = w->scraper;
    pthread_mutex_lock(&s->lock);
    w->state = KUBE_ANSWERED;
    w->status = answer->status;
    w->error.message[0] = 0;
    if (answer->status != 200)
        outgoing_explain(answer, "the API server", w->error.message, sizeof w->error.message);
    want_reading(s, 0);
    pthread_mutex_unlock(&s->lock);
}

static int begin_kube_request(struct kube_watch *w, struct err *e)
{
    unsigned seconds = WATCH_SECONDS + (unsigned)retry_random(&w->retry, WATCH_SECONDS);
    struct out url;
    out_init_memory(&url, 64 << 10);
    write_kube_url(&url, w, seconds);
    out_char(&url, '\0');
    struct outgoing r = {
        .net = {.url = url.p,
                .timeout_ms = w->lists ? w->config->timeout / MILLISECOND
                                       : (int64_t)(seconds + GRACE_SECONDS) * 1000,
                .connect_timeout_ms = w->config->timeout / MILLISECOND,
                .limit = 64 << 10,
                .part = took_kube_part},
    };
    int result =
        url.error ? err_set(e, "out of memory") : outgoing_authorize(&r, &w->discovery->auth, e);
    if (!result)
        result = net_client_begin(w->scraper->client, &r.net, took_kube_answer, w, e);
    out_fini(&url);
    return result;
}

static void log_kube_failure(const struct kube_watch *w, const struct err *e)
{
    char url[300];
    snprintf(url, sizeof url, "%.200s", w->discovery->api_server.p);
    server_log("error", "the API server gives no targets; the last ones stay", "job",
               w->config->job.p, "url", url, "resource", resource_names[w->resource], "error",
               e->message, NULL);
}

// A watch may send nothing for minutes: it would end late by itself.
static void cancel_kube_request(struct scraper *s, struct kube_watch *w)
{
    net_client_cancel(s->client, w);
    w->state = KUBE_ANSWERED;
    w->status = 0;
    err_set(&w->error, "the request was canceled");
    want_reading(s, 0);
}

int64_t kube_watches_ask(struct scraper *s, int64_t time)
{
    int64_t first = INT64_MAX;
    for (struct kube_watch *w = s->watches; w; w = w->next) {
        struct err e = {""};
        if (w->state == KUBE_ASKED && (w->spoiled || w->too_much || !w->used))
            cancel_kube_request(s, w);
        if (!w->used || w->state != KUBE_READY)
            continue;
        if (w->due > time) {
            first = w->due < first ? w->due : first;
            continue;
        }
        w->state = KUBE_ASKED;
        w->too_much = false;
        w->asked = time;
        if (begin_kube_request(w, &e)) {
            w->state = KUBE_READY;
            s->kube.failures++;
            w->due = time + (int64_t)retry_no_answer(&w->retry) * MILLISECOND;
            first = w->due < first ? w->due : first;
            log_kube_failure(w, &e);
        }
    }
    return first;
}

// --- reading ---

// Bytes that were taken from a watch.
struct reading {
    char *text;
    size_t n, cap;
    bool ended, too_much;
    size_t used; // bytes of whole events
    uint64_t events;
};

// Takes the whole answer of a list, or the events so far.
static bool take_kube_text(struct scraper *s, struct kube_watch *w, struct reading *r)
{
    pthread_mutex_lock(&s->lock);
    bool ready = w->state == KUBE_ANSWERED ||
                 (w->state == KUBE_ASKED && !w->lists && w->n && !w->spoiled && !w->too_much);
    if (ready) {
        *r = (struct reading){.text = w->text,
                              .n = w->n,
                              .cap = w->cap,
                              .ended = w->state == KUBE_ANSWERED,
                              .too_much = w->too_much};
        w->text = NULL;
        w->n = w->cap = 0;
    }
    pthread_mutex_unlock(&s->lock);
    return ready;
}

// Returns the bytes of an incomplete event; more may have arrived behind them.
static void return_kube_text(struct scraper *s, struct kube_watch *w, const struct reading *r)
{
    size_t left = r->n - r->used;
    pthread_mutex_lock(&s->lock);
    if (left && !r->ended && !w->spoiled) {
        if (grow_kube_text(w, left)) {
            memmove(w->text + left, w->text, w->n);
            memcpy(w->text, r->text + r->used, left);
            w->n += left;
        } else {
            w->too_much = true; // an event lost its beginning
            s->look = true;
        }
    }
    w->shown = w->objects.n;
    s->kube.events += r->events;
    s->kube.dropped += w->objects.dropped - w->counted;
    w->counted = w->objects.dropped;
    pthread_mutex_unlock(&s->lock);
    budget_release(&s->finding.account, r->cap);
    free(r->text);
}

// What comes after an answer.
enum next_step { NEXT_NONE, NEXT_WATCH, NEXT_PAGE, NEXT_LIST };

static enum next_step read_kube_list(struct kube_watch *w, const struct reading *r, struct err *e)
{
    struct kube_page page;
    if (r->too_much) {
        err_set(e, "a page of %u objects is larger than %d MiB, or does not fit into memory",
                w->page, SCRAPE_DISCOVERY_MAX >> 20);
        w->page = w->page > 10 ? w->page / 10 : 1;
        return NEXT_LIST;
    }
    if (w->status != 200) {
        *e = w->error;
        return NEXT_LIST;
    }
    struct str text = {r->n ? r->text : "", r->n};
    if (kube_page_read(&w->objects, w->resource, text, &page, e)) {
        free(page.more);
        return NEXT_LIST;
    }
    free(w->more);
    w->more = page.more;
    if (w->more)
        return NEXT_PAGE;
    w->page = PAGE_OBJECTS; // objects that were too large may be gone by the next list
    memcpy(w->version, page.version, sizeof w->version);
    kube_objects_sweep(&w->objects);
    return NEXT_WATCH;
}

// Reads whole lines. NEXT_NONE: all of them are good.
static enum next_step read_kube_events(struct kube_watch *w, struct reading *r, struct err *e)
{
    while (r->n > r->used) {
        char *begin = r->text + r->used, *end = memchr(begin, '\n', r->n - r->used);
        if (!end)
            break;
        struct str line = {begin, (size_t)(end - begin)};
        r->used += line.n + 1;
        enum kube_event event = kube_event_read(&w->objects, w->resource, line, w->version, e);
        if (event == KUBE_EVENT_EXPIRED)
            err_set(e, "the version of the watch is too old: the objects are listed again");
        if (event != KUBE_EVENT_CHANGE && event != KUBE_EVENT_BOOKMARK)
            return NEXT_LIST;
        r->events++;
    }
    return NEXT_NONE;
}

// The version is that of the last whole event, so a new watch loses nothing.
static enum next_step read_kube_watch(struct kube_watch *w, struct reading *r, struct err *e)
{
    if (r->too_much) {
        err_set(e, "events of more than %d MiB arrived at once, or do not fit into memory",
                EVENTS_MAX >> 20);
        return NEXT_LIST;
    }
    enum next_step next = read_kube_events(w, r, e);
    if (next != NEXT_NONE || !r->ended)
        return next;
    if (w->status != 200)
        *e = w->error;
    return w->status == 410 ? NEXT_LIST : NEXT_WATCH;
}

// The next request comes at once after success, and later after a failure.
static void plan_kube_request(struct scraper *s, struct kube_watch *w, enum next_step next,
                              const struct err *e)
{
    int64_t now = scrape_now();
    bool failed = e->message[0] != 0;
    bool hasty = !w->lists && now - w->asked < SHORT_WATCH;
    pthread_mutex_lock(&s->lock);
    if (!w->lists && !hasty)
        w->retry.failures = 0;
    w->due = now;
    if (failed || hasty)
        w->due += (int64_t)retry_no_answer(&w->retry) * MILLISECOND;
    if (next == NEXT_LIST) {
        free(w->more);
        w->more = NULL;
        w->objects.list++;
    }
    s->kube.lists += w->lists && next == NEXT_WATCH;
    s->kube.failures += failed;
    w->lists = next != NEXT_WATCH;
    w->spoiled = false;
    w->state = KUBE_READY;
    s->look = true;
    pthread_mutex_unlock(&s->lock);
    net_client_wake(s->client);
    if (failed)
        log_kube_failure(w, e);
}

// From now on nothing of the watch is used. The thread of the requests cancels it.
static void spoil_watch(struct scraper *s, struct kube_watch *w, const struct err *e)
{
    pthread_mutex_lock(&s->lock);
    w->spoiled = true;
    w->why = *e;
    s->look = true;
    pthread_mutex_unlock(&s->lock);
    net_client_wake(s->client);
}

// Returns whether there may be other targets now.
static bool read_kube(struct scraper *s, struct kube_watch *w)
{
    struct reading r;
    struct err e = {""};
    enum next_step next = NEXT_LIST;
    if (!take_kube_text(s, w, &r))
        return false;
    if (w->spoiled)
        e = w->why;
    else
        next = w->lists ? read_kube_list(w, &r, &e) : read_kube_watch(w, &r, &e);
    bool changed = r.events || (w->lists && next == NEXT_WATCH);
    if (next == NEXT_LIST && !r.ended)
        spoil_watch(s, w, &e);
    return_kube_text(s, w, &r);
    if (r.ended)
        plan_kube_request(s, w, next, &e);
    return changed;
}

bool kube_watches_read(struct scraper *s)
{
    bool changed = false;
    for (struct kube_watch *w = s->watches; w; w = w->next)
        changed |= read_kube(s, w);
    return changed;
}

// --- targets ---

static void add_object_targets(struct scrape_job *job, const struct kube_discovery *d,
                               const struct kube_view *view, const struct kube_object *o,
                               struct scrape_targets *targets)
{
    size_t n;
    struct target_group *groups = kube_targets(d, view, kube_object_json(o), job->scratch, &n);
    scrape_add_groups(job, groups, n, true, targets);
}

// scratch and job->arena may run out; then the objects so far are used. -1 with e filled.
static int add_some_objects(struct scrape_job *job, const struct kube_discovery *d,
                            const struct kube_view *view, const struct kube_object **objects,
                            size_t n, struct scrape_targets *targets, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(job->scratch, trap))
        return arena_caught(job->scratch, e);
    for (size_t i = 0; i < n; i++)
        add_object_targets(job, d, view, objects[i], targets);
    arena_try_end(job->scratch);
    return 0;
}

static void add_objects(struct scraper *s, struct scrape_job *job, const struct kube_discovery *d,
                        const struct kube_view *view, const struct kube_object **objects, size_t n,
                        struct scrape_targets *targets)
{
    struct err e = {"out of memory"};
    // Kept in s: job's arena may jump.
    arena_free(s->scratch);
    job->scratch = s->scratch = arena_new_in(&s->finding, SCRATCH_MAX);
    if (!job->scratch || add_some_objects(job, d, view, objects, n, targets, &e)) {
        targets->unusable++;
        targets->why = e;
    }
    arena_free(s->scratch);
    job->scratch = s->scratch = NULL;
}

static void add_watch_targets(struct scraper *s, struct scrape_job *job,
                              const struct kube_discovery *d, const struct kube_view *view,
                              struct scrape_targets *targets)
{
    const struct kube_objects *all = d->role == KUBE_ROLE_POD ? view->pods : view->slices;
    const struct kube_object *some[SCRATCH_OBJECTS];
    size_t n = 0;
    for (size_t i = 0; i < all->n_buckets; i++)
        for (const struct kube_object *o = all->buckets[i]; o; o = o->chain) {
            some[n++] = o;
            if (job->addresses > job->config->target_limit)
                return;
            if (n == SCRATCH_OBJECTS) {
                add_objects(s, job, d, view, some, n, targets);
                n = 0;
            }
        }
    if (n)
        add_objects(s, job, d, view, some, n, targets);
}

void kube_add_targets(struct scraper *s, struct scrape_job *job, const struct kube_discovery *d,
                      struct scrape_targets *targets)
{
    for (size_t i = 0; i == 0 || i < d->n_namespaces; i++) {
        const struct kube_objects *found[] = {NULL, NULL, NULL};
        for (enum kube_resource r = KUBE_PODS; r <= KUBE_SERVICES; r++) {
            struct kube_watch *w =
                find_kube_watch(s, kube_key(job->config, d, r, namespace_at(d, i), job->arena));
            if (is_watched(d, r) && w)
                found[r] = &w->objects;
        }
        const struct kube_view view = {found[KUBE_PODS], found[KUBE_SLICES], found[KUBE_SERVICES]};
        if (d->role == KUBE_ROLE_POD ? view.pods != NULL : view.slices != NULL)
            add_watch_targets(s, job, d, &view, targets);
    }
}
