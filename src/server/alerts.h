// Alerts: who is configured hears of changes that are open, and again when they are not.
//
// alerts.c         the thread and its receivers
// alert_rounds.c   requests to a receiver, retries, and what the receiver has acknowledged
// alert_message.c  what it sends
//
// One thread for all receivers: each has one request under way at most, so that none delays
// another, and nothing but this thread waits for any of them. The alerts to send are read from the
// tenants' databases when it is sent (changes_alerts_open): there is no queue that could fill or
// be lost.
#pragma once

#include "server/server.h"

struct alerts;

// NULL if there is no memory. It does nothing before alerts_start.
struct alerts *alerts_new(struct server *s);
// address: where the server listens, which links lead to unless external_url says otherwise.
void alerts_start(struct alerts *a, struct server_config *config, const char *address);
// Requests under way are given up and sent again.
void alerts_reload(struct alerts *a, struct server_config *config);
// Other changes may be open now; any thread.
void alerts_wake(void *alerts);
void alerts_stop(struct alerts *a);
void alerts_free(struct alerts *a); // after alerts_stop

struct alerts_counters {
    uint64_t sent, failed;       // alerts, each time
    unsigned receivers, failing; // failing: the last request failed
};
void alerts_counters(struct alerts *a, struct alerts_counters *counters);
