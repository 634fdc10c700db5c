// What alerts.c and alert_rounds.c share.
#pragma once

#include "base/retry.h"
#include "changes/changes.h"
#include "net/client.h"
#include "server/alerts.h"
#include "server/worker.h"

enum {
    ALERTS_ARENA_MAX = 32 << 20, // bytes of a request, and of what it is made of
    ALERTS_ID_BYTES = 16,        // of a receiver in the tenants' databases
};

// A receiver, and its progress in a round: all tenants, and the alerts of each.
struct receiver {
    struct alerts *alerts;
    const struct alert_receiver *config; // of alerts->config
    char id[2 * ALERTS_ID_BYTES + 1];
    struct retry retry;
    bool busy, failing; // a request is under way; the last one failed
    bool warned;        // since the last one that succeeded
    int64_t due;        // of the next request or round
    int64_t began;      // the round
    int64_t last_warning;
    bool again; // the next round begins at once
    // The round; arena NULL: there is none.
    struct arena *arena;
    struct str *tenants;
    size_t n_tenants, tenant;
    struct changes_outbox *outbox; // of the tenant
    bool open;          // of an Alertmanager: what ended has been sent, what is open is next
    int64_t after;      // the last change that was sent
    struct str service; // of a webhook: the last one, malloc'ed
    // The request under way.
    struct arena *batch_arena;
    struct changes_alert *batch;
    size_t n_batch;
};

struct alerts {
    struct server *server;
    char listens_on[400]; // where links lead to unless external_url says otherwise
    struct worker worker;
    // Under the worker's lock.
    bool woken;
    struct net_client *client; // the pointer; what it does is the thread's
    struct alerts_counters counters;
    // The thread's.
    struct server_config *config;
    struct receiver *receivers;
    size_t n_receivers;
};

// Adds to the counters: alerts that a receiver has acknowledged, and those of failed requests.
void alerts_count(struct alerts *a, size_t sent, size_t failed);

// Continues the receiver's round, or begins one, until a request is under way, the round is over or
// answers have waited for some tenants.
void alert_round_go_on(struct receiver *r);
// Ends the round; the client that its request belonged to is gone.
void alert_round_end(struct receiver *r);
