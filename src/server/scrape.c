#include "server/scrape.h"

#include <errno.h>
#include <glob.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/hash.h"
#include "codec/json.h"
#include "net/client.h"
#include "server/scrape_discover.h"
#include "server/scrape_take.h"

enum { IDLE_MS = 500, FILE_MAX = 16 << 20 };

// What is known about a target from one discovery to the next.
struct state {
    struct state *next;
    struct scraper *scraper;
    char *key;
    const struct scrape_target *target; // NULL: gone, but a request is still under way
    bool busy, seen;
    int64_t due; // CLOCK_MONOTONIC, ns
    struct scrape_health health;
    struct scrape_memory memory;
};

// The answer of an http_sd URL, kept until the next one.
struct source {
    struct source *next;
    struct scraper *scraper;
    char *url;
    char *text;
    size_t n;
    bool busy, seen;
    int64_t due;
};

struct scraper {
    struct server *server;
    const struct server_config *config;
    struct server_config *owned;   // config, if it is ours to free
    struct server_config *pending; // to be taken over
    struct net_client *client;
    pthread_t thread;
    pthread_mutex_t lock; // states and targets, for the API
    struct arena *arena;  // of targets
    struct scrape_targets targets;
    struct state *states;
    struct source *sources;
    int64_t discover; // when to look for targets again
    _Atomic bool stop;
    bool started;
};

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// --- discovery ---

static int read_text(const char *name, struct arena *arena, struct str *text, struct err *e)
{
    FILE *f = fopen(name, "r");
    struct out out;
    char buffer[16384];
    size_t n;
    if (!f)
        return err_set(e, "%s: %s", name, strerror(errno));
    out_init_arena(&out, arena);
    while ((n = fread(buffer, 1, sizeof buffer, f)) > 0 && out.n < FILE_MAX)
        out_write(&out, buffer, n);
    fclose(f);
    *text = out_result(&out);
    return 0;
}

static void add_text(struct scraper *s, const struct scrape_config *c, const char *name,
                     struct str text, struct arena *arena, struct scrape_targets *targets)
{
    struct target_group *groups;
    size_t n;
    struct err e = {""};
    if (scrape_read_groups(name, text, arena, &groups, &n, &e) ||
        scrape_add_groups(c, groups, n, arena, targets, &e))
        server_log("error", "targets cannot be read", "job", c->job.p, "error", e.message, NULL);
    (void)s;
}

static void add_files(struct scraper *s, const struct scrape_config *c, struct arena *arena,
                      struct scrape_targets *targets)
{
    for (size_t i = 0; i < c->n_files; i++)
        for (size_t k = 0; k < c->files[i].n_places; k++) {
            glob_t found;
            if (glob(c->files[i].places[k].p, 0, NULL, &found))
                continue;
            for (size_t j = 0; j < found.gl_pathc; j++) {
                struct str text;
                struct err e = {""};
                if (read_text(found.gl_pathv[j], arena, &text, &e))
                    server_log("error", "targets cannot be read", "error", e.message, NULL);
                else
                    add_text(s, c, found.gl_pathv[j], text, arena, targets);
            }
            globfree(&found);
        }
}

static struct source *source_of(struct scraper *s, const char *url)
{
    for (struct source *at = s->sources; at; at = at->next)
        if (strcmp(at->url, url) == 0)
            return at;
    struct source *made = calloc(1, sizeof *made);
    if (!made || !(made->url = strdup(url))) {
        free(made);
        return NULL;
    }
    made->scraper = s;
    made->next = s->sources;
    return s->sources = made;
}

static void add_urls(struct scraper *s, const struct scrape_config *c, struct arena *arena,
                     struct scrape_targets *targets)
{
    for (size_t i = 0; i < c->n_urls; i++) {
        struct source *source = c->urls[i].n_places ? source_of(s, c->urls[i].places[0].p) : NULL;
        if (!source)
            continue;
        source->seen = true;
        if (source->n)
            add_text(s, c, source->url, (struct str){source->text, source->n}, arena, targets);
    }
}

static struct state *state_of(struct scraper *s, const char *key)
{
    for (struct state *at = s->states; at; at = at->next)
        if (strcmp(at->key, key) == 0)
            return at;
    return NULL;
}

static void state_free(struct state *at)
{
    scrape_memory_fini(&at->memory);
    free(at->key);
    free(at);
}

// Targets that stay keep their state; new ones begin somewhere in their interval, so that not all
// are asked at once.
static void match_states(struct scraper *s)
{
    for (struct state *at = s->states; at; at = at->next)
        at->target = NULL;
    for (size_t i = 0; i < s->targets.n; i++) {
        const struct scrape_target *target = &s->targets.items[i];
        struct state *at = state_of(s, target->key);
        if (!at) {
            at = calloc(1, sizeof *at);
            if (!at || !(at->key = strdup(target->key))) {
                free(at);
                continue;
            }
            at->scraper = s;
            uint64_t jitter = hash_bytes(at->key, strlen(at->key), (uint64_t)server_now());
            at->due = now() + (int64_t)(jitter % (uint64_t)target->config->interval);
            at->next = s->states;
            s->states = at;
        }
        at->target = target;
    }
    for (struct state **link = &s->states; *link;) {
        struct state *at = *link;
        if (at->target || at->busy) {
            link = &at->next;
            continue;
        }
        *link = at->next;
        state_free(at);
    }
}

static void discover(struct scraper *s)
{
    struct arena *arena = arena_new((size_t)256 << 20);
    struct scrape_targets targets = {0};
    struct arena_trap trap;
    int64_t refresh = (int64_t)3600 * 1000000000;
    if (!arena)
        return;
    if (ARENA_TRY(arena, trap)) {
        arena_free(arena);
        server_log("error", "too many scrape targets", NULL);
        return;
    }
    for (size_t i = 0; i < s->config->n_scrapes; i++) {
        const struct scrape_config *c = &s->config->scrapes[i];
        struct err e = {""};
        if (scrape_add_groups(c, c->groups, c->n_groups, arena, &targets, &e))
            server_log("error", "targets cannot be used", "job", c->job.p, "error", e.message,
                       NULL);
        add_files(s, c, arena, &targets);
        add_urls(s, c, arena, &targets);
        for (size_t k = 0; k < c->n_files; k++)
            refresh = c->files[k].refresh < refresh ? c->files[k].refresh : refresh;
    }
    arena_try_end(arena);
    pthread_mutex_lock(&s->lock);
    struct arena *old = s->arena;
    s->arena = arena;
    s->targets = targets;
    match_states(s);
    pthread_mutex_unlock(&s->lock);
    arena_free(old);
    s->discover = now() + refresh;
}

// --- asking ---

static void set_headers(const struct scrape_config *c, char *bearer, size_t size,
                        const char **headers, struct net_request *r, char *password)
{
    struct err e = {""};
    headers[0] = NULL;
    r->headers = headers;
    if (c->bearer.n || c->bearer_file.n) {
        char token[4096];
        if (c->bearer.n)
            snprintf(token, sizeof token, "%s", c->bearer.p);
        else if (scrape_read_secret(c->bearer_file.p, token, sizeof token, &e))
            return;
        snprintf(bearer, size, "Authorization: Bearer %s", token);
        headers[0] = bearer;
        headers[1] = NULL;
    }
    if (c->user.n) {
        r->user = c->user.p;
        r->password = c->password.p;
        if (c->password_file.n && !scrape_read_secret(c->password_file.p, password, 4096, &e))
            r->password = password;
    }
}

static void begin(struct scraper *s, const struct scrape_config *c, const char *url,
                  int64_t timeout, net_done_fn *done, void *context, bool *busy)
{
    char bearer[4200], password[4096];
    const char *headers[2];
    struct net_request r = {
        .url = url,
        .timeout_ms = timeout / 1000000,
        .limit = s->server->config->limits.body,
        .insecure = c->insecure,
        .ca_file = c->ca_file.p,
        .cert_file = c->cert_file.p,
        .key_file = c->key_file.p,
    };
    struct err e = {""};
    set_headers(c, bearer, sizeof bearer, headers, &r, password);
    *busy = net_client_begin(s->client, &r, done, context, &e) == 0;
}

static void took_source(void *context, const struct net_answer *answer)
{
    struct source *source = context;
    source->busy = false;
    if (answer->status != 200) {
        char status[16];
        snprintf(status, sizeof status, "%d", answer->status);
        server_log("error", "http_sd: no targets from there", "url", source->url, "status", status,
                   "error", answer->error.message, NULL);
        return;
    }
    char *text = malloc(answer->n + 1);
    if (!text)
        return;
    memcpy(text, answer->data ? (char *)answer->data : "", answer->n);
    free(source->text);
    source->text = text;
    source->n = answer->n;
    source->scraper->discover = 0;
}

static void ask_sources(struct scraper *s)
{
    for (size_t i = 0; i < s->config->n_scrapes; i++) {
        const struct scrape_config *c = &s->config->scrapes[i];
        for (size_t k = 0; k < c->n_urls; k++) {
            struct source *source =
                c->urls[k].n_places ? source_of(s, c->urls[k].places[0].p) : NULL;
            if (!source || source->busy || source->due > now())
                continue;
            source->due = now() + c->urls[k].refresh;
            begin(s, c, source->url, c->timeout, took_source, source, &source->busy);
        }
    }
}

static void took_profile(void *context, const struct net_answer *answer)
{
    struct state *at = context;
    struct scraper *s = at->scraper;
    struct scrape_health health = {.duration = answer->seconds, .last = server_now()};
    pthread_mutex_lock(&s->lock);
    const struct scrape_target *target = at->target;
    pthread_mutex_unlock(&s->lock);
    // Only this thread changes targets.
    if (target)
        scrape_take(s->server, target, answer, &at->memory, &health);
    pthread_mutex_lock(&s->lock);
    at->busy = false;
    at->health = health;
    pthread_mutex_unlock(&s->lock);
    if (!target)
        s->discover = 0; // sweeps the state away
}

static int64_t ask_targets(struct scraper *s)
{
    int64_t time = now(), first = time + (int64_t)IDLE_MS * 1000000;
    for (struct state *at = s->states; at; at = at->next) {
        if (!at->target || at->busy)
            continue;
        if (at->due <= time) {
            int64_t interval = at->target->config->interval;
            at->due += interval;
            if (at->due <= time) // it was missed by more than one: no catching up
                at->due = time + interval;
            int64_t timeout = at->target->config->timeout;
            int64_t wanted = (at->target->profile->seconds + 5) * 1000000000;
            begin(s, at->target->config, at->target->url, timeout > wanted ? timeout : wanted,
                  took_profile, at, &at->busy);
        }
        first = at->due < first ? at->due : first;
    }
    return first - time;
}

static void take_config(struct scraper *s)
{
    pthread_mutex_lock(&s->lock);
    struct server_config *next = s->pending;
    s->pending = NULL;
    pthread_mutex_unlock(&s->lock);
    if (!next)
        return;
    struct server_config *old = s->owned;
    s->config = s->owned = next;
    discover(s);
    server_config_free(old);
}

static void *run(void *context)
{
    struct scraper *s = context;
    while (!s->stop) {
        take_config(s);
        if (s->discover <= now())
            discover(s);
        ask_sources(s);
        int64_t wait = ask_targets(s) / 1000000;
        net_client_wait(s->client, wait < 1 ? 1 : wait > IDLE_MS ? IDLE_MS : (int)wait);
    }
    return NULL;
}

// libcurl is not loaded before there is something to scrape.
static void start_thread(struct scraper *s)
{
    struct err e = {""};
    sigset_t all, old;
    s->client = net_client_new(&e);
    if (!s->client) {
        server_log("error", "nothing will be scraped", "error", e.message, NULL);
        return;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    s->started = pthread_create(&s->thread, NULL, run, s) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

struct scraper *scraper_start(struct server *server, const struct server_config *config)
{
    struct scraper *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->server = server;
    s->config = config;
    pthread_mutex_init(&s->lock, NULL);
    if (config->n_scrapes)
        start_thread(s);
    return s;
}

void scraper_reload(struct scraper *s, struct server_config *config)
{
    if (!s) {
        server_config_free(config);
        return;
    }
    pthread_mutex_lock(&s->lock);
    server_config_free(s->pending);
    s->pending = config;
    pthread_mutex_unlock(&s->lock);
    if (!s->started)
        start_thread(s);
    else
        net_client_wake(s->client);
}

void scraper_stop(struct scraper *s)
{
    if (!s)
        return;
    s->stop = true;
    if (s->started) {
        net_client_wake(s->client);
        pthread_join(s->thread, NULL);
    }
    net_client_free(s->client);
    while (s->states) {
        struct state *next = s->states->next;
        state_free(s->states);
        s->states = next;
    }
    while (s->sources) {
        struct source *next = s->sources->next;
        free(s->sources->url);
        free(s->sources->text);
        free(s->sources);
        s->sources = next;
    }
    arena_free(s->arena);
    server_config_free(s->owned);
    server_config_free(s->pending);
    free(s);
}

// --- the API ---

static void write_target(struct out *out, const struct state *at, bool *first)
{
    const struct scrape_target *t = at->target;
    bool inner = true;
    out_text(out, *first ? "{" : ",{");
    *first = false;
    json_write_key(out, "scrapePool", &inner);
    json_write_string(out, t->config->job);
    json_write_key(out, "profile", &inner);
    json_write_string(out, t->profile->name);
    json_write_key(out, "scrapeUrl", &inner);
    json_write_string(out, str_from(t->url));
    json_write_key(out, "labels", &inner);
    out_char(out, '{');
    bool none = true;
    for (size_t i = 0; i < t->n_labels; i++) {
        if (!none)
            out_char(out, ',');
        none = false;
        json_write_string(out, t->labels[i].name);
        out_char(out, ':');
        json_write_string(out, t->labels[i].value);
    }
    out_char(out, '}');
    json_write_key(out, "health", &inner);
    out_text(out, !at->health.last ? "\"unknown\"" : at->health.up ? "\"up\"" : "\"down\"");
    json_write_key(out, "lastError", &inner);
    json_write_string(out, str_from(at->health.error));
    json_write_key(out, "lastScrapeMs", &inner);
    out_i64(out, at->health.last / 1000000);
    json_write_key(out, "lastScrapeDuration", &inner);
    out_printf(out, "%.6f}", at->health.duration);
}

void scrape_targets(struct call *c)
{
    struct scraper *s = c->server->scraper;
    struct out *out = &c->x->body_out;
    bool first = true;
    c->x->type = "application/json";
    out_text(out, "{\"status\":\"success\",\"data\":{\"activeTargets\":[");
    if (s) {
        pthread_mutex_lock(&s->lock);
        for (struct state *at = s->states; at; at = at->next)
            if (at->target)
                write_target(out, at, &first);
        pthread_mutex_unlock(&s->lock);
    }
    out_text(out, "]}}\n");
    call_finish(c);
}
