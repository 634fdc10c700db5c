#include "server/scrape.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/hash.h"
#include "process/clock.h"
#include "server/kube_watch.h"
#include "server/outgoing.h"
#include "server/scrape_internal.h"

enum {
    IDLE_MS = 500,
    ANSWERS_MAX = 128 << 20,    // bytes of answers under way
    REMEMBERED_MAX = 256 << 20, // of the last answers of targets with counters
    MOST_REQUESTS = 4096,
    LEAST_REQUESTS = 64,
};

static const int64_t FULL = 50000000; // ns until a place may be free
// Requests of a job to targets that are not up: 250 a second, after some at once.
static const int64_t DOUBTFUL_PAUSE = 4000000, DOUBTFUL_BURST = 100000000;

int64_t scrape_now(void)
{
    return (int64_t)process_now_ns();
}

bool scrape_thread(pthread_t *thread, void *(*run)(void *context), void *context)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bool started = pthread_create(thread, NULL, run, context) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return started;
}

void scrape_settings_unref(struct scrape_settings *settings)
{
    if (!settings || --settings->refs)
        return;
    server_config_free(settings->owned);
    free(settings);
}

void scrape_generation_unref(struct scrape_generation *generation)
{
    if (!generation || --generation->refs)
        return;
    arena_free(generation->arena);
    scrape_settings_unref(generation->settings);
    free(generation);
}

// --- states ---

static struct scrape_state *state_of(struct scraper *s, const char *key)
{
    uint64_t hash = hash_bytes(key, strlen(key), 0);
    struct scrape_state **bucket = &s->buckets[hash % SCRAPE_BUCKETS];
    for (struct scrape_state *at = *bucket; at; at = at->chain)
        if (at->hash == hash && strcmp(at->key, key) == 0)
            return at;
    struct scrape_state *at = calloc(1, sizeof *at);
    if (!at || !(at->key = strdup(key))) {
        free(at);
        return NULL;
    }
    at->scraper = s;
    at->memory.account = &s->remembered;
    at->hash = hash;
    at->chain = *bucket;
    *bucket = at;
    at->next = s->states;
    return s->states = at;
}

static void state_free(struct scrape_state *at)
{
    struct scrape_state **link = &at->scraper->buckets[at->hash % SCRAPE_BUCKETS];
    while (*link != at)
        link = &(*link)->chain;
    *link = at->chain;
    scrape_memory_fini(&at->memory);
    free(at->key);
    free(at);
}

static void sweep_states(struct scraper *s)
{
    for (struct scrape_state **link = &s->states; *link;) {
        struct scrape_state *at = *link;
        if (at->target || at->busy) {
            link = &at->next;
            continue;
        }
        *link = at->next;
        state_free(at);
    }
}

// Targets that stay keep their state; new ones begin somewhere in their interval, so that not all
// are asked at once.
static void take_generation(struct scraper *s, struct scrape_generation *generation)
{
    for (struct scrape_state *at = s->states; at; at = at->next)
        at->target = NULL;
    for (size_t i = 0; i < generation->targets.n; i++) {
        const struct scrape_target *target = &generation->targets.items[i];
        struct scrape_state *at = state_of(s, target->key);
        if (!at)
            continue;
        if (!at->due) {
            uint64_t jitter = hash_bytes(at->key, strlen(at->key), (uint64_t)server_now());
            at->due = scrape_now() + (int64_t)(jitter % (uint64_t)target->config->interval);
        }
        at->target = target;
    }
    scrape_generation_unref(s->generation);
    s->generation = generation;
}

// --- requests ---

static int begin_request(struct scraper *s, const struct request_auth *auth, const char *url,
                         int64_t timeout, size_t limit, net_done_fn *done, void *context,
                         struct err *e)
{
    struct outgoing r = {
        .net = {.url = url, .timeout_ms = timeout / 1000000, .limit = limit},
    };
    if (outgoing_authorize(&r, auth, e))
        return -1;
    return net_client_begin(s->client, &r.net, done, context, e);
}

static void took_source(void *context, struct net_answer *answer)
{
    struct scrape_source *source = context;
    struct scraper *s = source->scraper;
    char status[16];
    struct arena *arena = NULL;
    pthread_mutex_lock(&s->lock);
    source->busy = false;
    if (answer->status == 200) {
        scrape_source_drop(source);
        if (budget_take(&s->finding, answer->n)) {
            answer->status = 0;
            budget_explain(&s->finding, &answer->error);
        }
    }
    if (answer->status == 200) {
        source->text = (char *)answer->data;
        source->n = answer->n;
        answer->data = NULL;
        s->search = true;
        pthread_cond_broadcast(&s->wanted);
    } else if ((arena = arena_new(0))) {
        snprintf(status, sizeof status, "%d", answer->status);
        server_log("error", "http_sd: no targets in the response; keeping the last targets", "url",
                   scrape_shown_url(source->discovery->places[0].p, arena), "status", status,
                   "error", answer->error.message, NULL);
    }
    pthread_mutex_unlock(&s->lock);
    arena_free(arena);
}

// With the lock held.
static int64_t ask_sources(struct scraper *s, int64_t time)
{
    int64_t first = INT64_MAX;
    for (struct scrape_source *at = s->sources; at; at = at->next) {
        if (at->busy || !at->used)
            continue;
        if (at->due <= time) {
            struct err e = {""};
            at->due = time + at->discovery->refresh;
            at->busy = true;
            if (begin_request(s, &at->discovery->auth, at->discovery->places[0].p,
                              at->config->timeout, SCRAPE_DISCOVERY_MAX, took_source, at, &e)) {
                at->busy = false;
                server_log("error", "http_sd: cannot fetch targets", "job", at->config->job.p,
                           "error", e.message, NULL);
            }
        }
        first = at->due < first ? at->due : first;
    }
    return first;
}

static void end_request(struct scraper *s, struct scrape_state *at)
{
    s->under_way--;
    s->doubtful -= at->doubtful;
    at->doubtful = false;
    s->look = true;
}

static void took_profile(void *context, struct net_answer *answer)
{
    struct scrape_state *at = context;
    struct scraper *s = at->scraper;
    struct scrape_health health = {.duration = answer->seconds, .last = server_now()};
    pthread_mutex_lock(&s->lock);
    end_request(s, at);
    bool decode = at->target && answer->status == 200;
    s->scrapes++;
    if (!decode) {
        scrape_explain(answer, &health);
        at->busy = false;
        at->health = health;
        s->failed++;
    }
    pthread_mutex_unlock(&s->lock);
    if (decode)
        scrape_queue(s, at, answer, &health);
}

static void ask_target(struct scraper *s, struct scrape_state *at, int64_t time)
{
    const struct scrape_target *target = at->target;
    const struct scrape_config *c = target->config;
    struct err e = {""};
    at->due += c->interval;
    if (at->due <= time) // it was missed by more than one: no catching up
        at->due = time + c->interval;
    int64_t wanted = scrape_seconds(target);
    wanted = wanted ? (wanted + 5) * 1000000000 : 0;
    size_t limit = c->body_limit ? c->body_limit : s->server->config->limits.profile;
    at->busy = true;
    if (begin_request(s, &c->auth, target->url, c->timeout > wanted ? c->timeout : wanted, limit,
                      took_profile, at, &e)) {
        at->busy = false;
        at->health = (struct scrape_health){.last = server_now()};
        snprintf(at->health.error, sizeof at->health.error, "%.250s", e.message);
        s->scrapes++;
        s->failed++;
        return;
    }
    at->doubtful = !at->health.up;
    s->under_way++;
    s->doubtful += at->doubtful;
}

static struct scrape_turn *turn_of(const struct scraper *s, const struct scrape_state *at)
{
    const struct scrape_generation *g = s->generation;
    return &g->turns[at->target->config - g->settings->config->scrapes];
}

static void count_doubtful(struct scraper *s)
{
    for (size_t i = 0; s->generation && i < s->generation->settings->config->n_scrapes; i++)
        s->generation->turns[i].doubtful = 0;
    for (struct scrape_state *at = s->states; at; at = at->next)
        if (at->target && at->doubtful)
            turn_of(s, at)->doubtful++;
}

// Whether a target that is due may be asked; if not, *again is when to look again. Targets that may
// hang or are away do not take the places and the time of those that answer: a job may have
// thousands of them.
static bool may_ask(struct scraper *s, const struct scrape_state *at, int64_t time, int64_t *again)
{
    struct scrape_turn *turn = turn_of(s, at);
    bool full = s->under_way >= s->most;
    if (!full && at->health.up)
        return true;
    if (full || s->doubtful >= s->most / 2 || turn->doubtful >= s->most / 4) {
        *again = time + FULL;
        return false;
    }
    if (turn->next > time) {
        *again = turn->next;
        return false;
    }
    turn->next =
        (turn->next > time - DOUBTFUL_BURST ? turn->next : time - DOUBTFUL_BURST) + DOUBTFUL_PAUSE;
    turn->doubtful++;
    return true;
}

// With the lock held. When there is something to do again. Targets that were asked go to the end of
// the list, so that all have their turn.
static int64_t ask_targets(struct scraper *s, int64_t time)
{
    int64_t first = INT64_MAX;
    struct scrape_state *asked = NULL, **link = &s->states;
    count_doubtful(s);
    for (struct scrape_state *at; (at = *link);) {
        int64_t next = INT64_MAX;
        if (at->target && !at->busy)
            next = at->due;
        if (next <= time && may_ask(s, at, time, &next)) {
            ask_target(s, at, time);
            next = at->due;
            *link = at->next;
            at->next = asked;
            asked = at;
        } else {
            link = &at->next;
        }
        first = next < first ? next : first;
    }
    *link = asked;
    return first;
}

static int64_t run_due_scrapes(struct scraper *s)
{
    int64_t time = scrape_now();
    if (s->found) {
        struct scrape_generation *found = s->found;
        s->found = NULL;
        take_generation(s, found);
        s->look = true;
    }
    if (s->look || time >= s->next_due) {
        s->look = false;
        sweep_states(s);
        int64_t sources = ask_sources(s, time), targets = ask_targets(s, time);
        int64_t watches = kube_watches_ask(s, time);
        s->next_due = sources < targets ? sources : targets;
        s->next_due = watches < s->next_due ? watches : s->next_due;
    }
    return s->next_due - time;
}

static void *send_requests(void *context)
{
    struct scraper *s = context;
    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        int64_t wait = run_due_scrapes(s) / 1000000;
        pthread_mutex_unlock(&s->lock);
        net_client_wait(s->client, wait < 1 ? 1 : wait > IDLE_MS ? IDLE_MS : (int)wait);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

// --- start and stop ---

static unsigned most_requests(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files))
        return LEAST_REQUESTS;
    rlim_t most = files.rlim_cur / 4;
    return most > MOST_REQUESTS    ? MOST_REQUESTS
           : most < LEAST_REQUESTS ? LEAST_REQUESTS
                                   : (unsigned)most;
}

static size_t lesser_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

// No target and no URL can take what requests need, nor what the other parts of scraping need.
static void share_memory(struct scraper *s)
{
    struct server *server = s->server;
    // The first targets came with a reload: requests have had all of it so far.
    if (!server->scraping) {
        server->scraping = server->memory.limit / SERVER_SCRAPING_SHARE;
        budget_charge(&server->memory, server->scraping);
    }
    size_t eighth = server->scraping / 8;
    s->room = lesser_of(2 * eighth, ANSWERS_MAX); // twice: under way, and waiting
    s->remembered = (struct budget_account){.limit = lesser_of(eighth, REMEMBERED_MAX)};
    s->finding.account = (struct budget_account){.owner = "target discovery", .limit = 3 * eighth};
}

// libcurl is not loaded before there is something to scrape.
static void start_threads(struct scraper *s)
{
    struct err e = {"no thread can be started"};
    if (s->client)
        return;
    s->client = net_client_new(&e);
    if (!s->client) {
        server_log("error", "scraping is off", "error", e.message, NULL);
        return;
    }
    share_memory(s);
    net_client_limit(s->client, s->room);
    s->most = most_requests();
    s->search = true;
    for (size_t i = 0; i < SCRAPE_TAKERS; i++) {
        s->takers[i].scraper = s;
        s->takers[i].started = scrape_thread(&s->takers[i].thread, scrape_decode, &s->takers[i]);
    }
    s->finder_started = scrape_thread(&s->finder, scrape_find, s);
    s->started = scrape_thread(&s->thread, send_requests, s);
    if (!s->takers[0].started || !s->finder_started || !s->started)
        server_log("error", "scraping is off", "error", e.message, NULL);
}

struct scraper *scraper_start(struct server *server, const struct server_config *config)
{
    struct scraper *s = calloc(1, sizeof *s);
    struct scrape_settings *settings = calloc(1, sizeof *settings);
    if (!s || !settings) {
        free(s);
        free(settings);
        return NULL;
    }
    *settings = (struct scrape_settings){.refs = 1, .config = config};
    s->server = server;
    s->settings = settings;
    pthread_mutex_init(&s->lock, NULL);
    process_condition_init(&s->wanted);
    process_condition_init(&s->ready);
    if (config->n_scrapes)
        start_threads(s);
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
    s->search = true;
    pthread_cond_broadcast(&s->wanted);
    pthread_mutex_unlock(&s->lock);
    if (!s->started)
        start_threads(s);
}

static void stop_threads(struct scraper *s)
{
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    s->finding.cancelled = true;
    for (size_t i = 0; i < SCRAPE_TAKERS; i++)
        if (s->takers[i].budget)
            s->takers[i].budget->cancelled = true;
    pthread_cond_broadcast(&s->wanted);
    pthread_cond_broadcast(&s->ready);
    pthread_mutex_unlock(&s->lock);
    if (s->started) {
        net_client_wake(s->client);
        pthread_join(s->thread, NULL);
    }
    if (s->finder_started)
        pthread_join(s->finder, NULL);
    for (size_t i = 0; i < SCRAPE_TAKERS; i++)
        if (s->takers[i].started)
            pthread_join(s->takers[i].thread, NULL);
}

void scraper_stop(struct scraper *s)
{
    if (!s)
        return;
    stop_threads(s);
    net_client_free(s->client);
    while (s->work) {
        struct scrape_work *next = s->work->next;
        scrape_work_free(s->work);
        s->work = next;
    }
    while (s->states) {
        struct scrape_state *next = s->states->next;
        state_free(s->states);
        s->states = next;
    }
    while (s->sources) {
        struct scrape_source *next = s->sources->next;
        scrape_source_free(s->sources);
        s->sources = next;
    }
    while (s->watches) {
        struct kube_watch *next = s->watches->next;
        kube_watch_free(s->watches);
        s->watches = next;
    }
    arena_free(s->scratch);
    scrape_generation_unref(s->generation);
    scrape_generation_unref(s->found);
    scrape_settings_unref(s->settings);
    server_config_free(s->pending);
    pthread_cond_destroy(&s->wanted);
    pthread_cond_destroy(&s->ready);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
