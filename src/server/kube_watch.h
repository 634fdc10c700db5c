// Lists and watches of a Kubernetes API server, for the scraper. A watch begins with a list, in
// pages, and continues with events from the version of the list. It resumes after its end from the
// last version that it has seen; it lists again if that is too old or if events were lost. Targets
// stay while the API server does not answer.
//
// The thread of the requests receives bytes (kube_watches_ask); the thread that finds targets reads
// them (kube_add_targets).
#pragma once

#include "base/retry.h"
#include "server/kube_objects.h"
#include "server/scrape_internal.h"

enum kube_state {
    KUBE_READY,    // for a request, when it is due
    KUBE_ASKED,    // a request is under way
    KUBE_ANSWERED, // it has ended; what it brought is to be read
};

struct kube_watch {
    struct kube_watch *next;
    struct scraper *scraper;
    struct scrape_settings *settings;
    const struct scrape_config *config;     // of settings
    const struct kube_discovery *discovery; // of config
    struct str space;                       // namespace, of discovery; n 0: all
    enum kube_resource resource;
    char *key;
    bool used;
    // Under the scraper's lock.
    enum kube_state state;
    bool lists;    // the request is one for a page of a list; else a watch
    bool too_much; // received more than there is room for
    bool spoiled;  // an event was invalid: the request is to end, and a list follows
    int status;    // of the answer
    int64_t due, asked;
    char *text; // received and not read yet; charged to the scraper's finding
    size_t n, cap;
    struct err error;
    size_t shown; // objects
    // Of the thread that finds targets; while the state is KUBE_READY, of that of the requests.
    char version[KUBE_VERSION_MAX];
    char *more;    // token of the next page
    unsigned page; // objects
    struct retry retry;
    struct kube_objects objects;
    uint64_t counted; // of objects.dropped
    struct err why;   // spoiled
};

// With the lock held: there is a watch for each resource and namespace of settings, and no other.
void kube_watches_update(struct scraper *s, struct scrape_settings *settings, struct arena *arena);
// With the lock held. Sends the requests that are due at time; returns when the next one is.
int64_t kube_watches_ask(struct scraper *s, int64_t time);
// Reads what was received. Returns whether there may be other targets now.
bool kube_watches_read(struct scraper *s);
// Adds the targets of the objects so far. job's arena may jump.
void kube_add_targets(struct scraper *s, struct scrape_job *job, const struct kube_discovery *d,
                      struct scrape_targets *targets);
void kube_watch_free(struct kube_watch *watch);
