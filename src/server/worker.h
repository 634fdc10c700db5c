// A thread that works as the configuration says: alerts.c and rules.c have one each. It starts with
// the first configuration that has work for it, and takes over each later one.
#pragma once

#include <pthread.h>

#include "server/config.h"

struct worker {
    // Set by the owner before worker_init.
    void *(*run)(void *context);      // the thread; returns soon after stop is set
    void (*interrupt)(void *context); // with the lock held: ends a wait of run; may be NULL
    void *context;
    const char *component, *failure; // in the log, if the thread cannot be started

    pthread_mutex_t lock;
    pthread_cond_t changed; // stop, pending or what the owner adds; its timeouts are monotonic
    // Under lock.
    bool stop;
    struct server_config *pending; // run takes it over; NULL: none
    // Of the thread that reloads and stops.
    pthread_t thread;
    bool started;
};

void worker_init(struct worker *w);
// Hands over a configuration. The thread starts if it has work.
void worker_reload(struct worker *w, struct server_config *config, bool has_work);
// Ends waits of run; with the lock held.
void worker_interrupt(struct worker *w);
void worker_stop(struct worker *w);
void worker_fini(struct worker *w); // after worker_stop
