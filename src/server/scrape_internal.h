// Shared by the threads of the scraper.
#pragma once

#include <pthread.h>

#include "net/client.h"
#include "server/scrape.h"
#include "server/scrape_discover.h"
#include "server/scrape_take.h"

enum {
    SCRAPE_TAKERS = 2,
    SCRAPE_BUCKETS = 1 << 12,
    SCRAPE_DISCOVERY_MAX = 16 << 20, // bytes of a file or an answer with targets
};

// A configuration. Counted references, under the scraper's lock.
struct scrape_settings {
    unsigned refs;
    const struct server_config *config;
    struct server_config *owned; // config, if it is ours to free
};

// What a job may do with targets that are not known to answer.
struct scrape_turn {
    int64_t next;      // no request before
    unsigned doubtful; // requests under way
};

// The targets of one discovery. Counted references, under the scraper's lock.
struct scrape_generation {
    unsigned refs;
    struct scrape_turn *turns; // one for each job
    struct scrape_settings *settings;
    struct arena *arena;
    struct scrape_targets targets;
};

// What is known about a target from one discovery to the next.
struct scrape_state {
    struct scrape_state *next, *chain; // all of them; those with the same hash
    struct scraper *scraper;
    char *key;
    uint64_t hash;
    const struct scrape_target *target; // of the current generation; NULL: gone
    bool busy;                          // from the request until its answer is stored
    bool doubtful;                      // counts among scraper.doubtful
    int64_t due;                        // CLOCK_MONOTONIC, ns
    int64_t cost;                       // ns of CPU time that answers took to decode lately
    struct scrape_health health;
    struct scrape_memory memory; // of the thread that decodes
};

// An http_sd URL. Made and freed by the thread that finds targets.
struct scrape_source {
    struct scrape_source *next;
    struct scraper *scraper;
    struct scrape_settings *settings;
    const struct scrape_config *config; // of settings
    const struct discovery *discovery;  // of config
    char *key;
    bool used, busy;
    int64_t due;
    char *text; // an answer that was not read yet; n bytes
    size_t n;
    struct arena *arena; // of groups
    struct target_group *groups;
    size_t n_groups;
};

// An answer that waits to be decoded.
struct scrape_work {
    struct scrape_work *next;
    struct scrape_state *state;
    struct scrape_generation *generation;
    const struct scrape_target *target;
    uint8_t *data;
    size_t n;
    int64_t cost; // expected, ns
    struct scrape_health health;
};

struct kube_watch;

// Of all watches of Kubernetes API servers.
struct kube_counts {
    uint64_t lists, events, failures, dropped; // lists: that were completed
};

struct scraper {
    struct server *server;
    pthread_mutex_t lock;
    // The configuration and the targets; all under lock.
    struct scrape_settings *settings;
    struct server_config *pending;        // read again, to be taken over
    struct scrape_generation *generation; // whose targets are scraped
    struct scrape_generation *found;      // newer, to be taken over
    struct scrape_state *states, *buckets[SCRAPE_BUCKETS];
    struct scrape_source *sources;
    struct kube_watch *watches; // changed by the thread that finds targets only
    struct kube_counts kube;
    bool stop, started;
    bool look;   // states changed: what is due must be computed again
    bool search; // targets must be looked for
    uint64_t scrapes, failed;
    // The thread of the requests.
    struct net_client *client;
    pthread_t thread;
    unsigned under_way, doubtful, most; // requests
    int64_t next_due;
    // The thread that finds targets.
    pthread_t finder;
    pthread_cond_t wanted;
    bool finder_started;
    struct budget finding; // of everything that it reads and makes
    int64_t read_due;      // when to read what watches received; 0: they received nothing
    struct arena *scratch; // of that thread
    // The threads that decode.
    struct scrape_taker {
        struct scraper *scraper;
        pthread_t thread;
        struct budget *budget; // of what it decodes
        bool started;
    } takers[SCRAPE_TAKERS];
    pthread_cond_t ready;
    struct scrape_work *work;
    size_t waiting;                   // bytes
    size_t room;                      // for answers under way, and for those that wait; bytes
    struct budget_account remembered; // by the states
};

int64_t scrape_now(void); // CLOCK_MONOTONIC, ns
// Starts run(context) with all signals blocked.
bool scrape_thread(pthread_t *thread, void *(*run)(void *context), void *context);

// With the lock held.
void scrape_settings_unref(struct scrape_settings *settings);
void scrape_generation_unref(struct scrape_generation *generation);

// --- scrape_find.c ---
void *scrape_find(void *scraper);
// With the lock held. Frees an answer that was not read.
void scrape_source_drop(struct scrape_source *source);
void scrape_source_free(struct scrape_source *source);

// --- scrape_work.c ---
// Takes answer->data. Without the lock.
void scrape_queue(struct scraper *s, struct scrape_state *state, struct net_answer *answer,
                  const struct scrape_health *health);
void *scrape_decode(void *taker);
void scrape_work_free(struct scrape_work *work); // with the lock held
