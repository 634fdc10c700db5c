// The server's HTTP: libmicrohttpd owns the sockets (docs/decisions/0012), worker threads do the
// work, everything is bounded. libmicrohttpd is loaded when a server starts, so that the command
// does not carry it, and TLS, through every run.
//
// web.c          start, stop, and the thread that cuts off slow clients
// web_receive.c  requests and their bodies, in libmicrohttpd's thread
// web_head.c     heads that could be read in two ways
// web_lanes.c    queues and workers
// web_answer.c   answers on their way out
//
// A request is admitted when its head has arrived: the server authenticates it, gives it a lane, an
// owner (whose requests take turns with those of other owners) and a budget, or answers it at once,
// without reading its body. Bodies are charged to the budget as they arrive, answers until they are
// sent. Clients that send or read too slowly are cut off.
#pragma once

#include "base/arena.h"
#include "base/budget.h"
#include "base/out.h"
#include "base/str.h"

struct listener;
struct web_server;
struct web_request;

enum {
    WEB_HEADERS = 8,
    WEB_CONNECTION_MEMORY = 32 << 10, // of each: its request's head must fit
};

// Each lane has its own workers, so that work of one kind never waits for another kind.
enum web_lane { WEB_LANE_STATUS, WEB_LANE_INGEST, WEB_LANE_QUERY, WEB_LANES };

// Whose requests take turns with others' in each lane: a tenant. account.parent is the server's.
struct web_owner {
    struct budget_account account;
    unsigned under_way; // requests, from their heads until they are answered
    struct web_turn {
        struct web_request *first, **last;
        _Atomic unsigned queued; // in the lane's inbox as well
        unsigned running;
        bool listed;
        struct web_owner *next;
    } turns[WEB_LANES];
};

// One request and its answer. Of one thread at a time.
struct web_exchange {
    struct str method;
    struct str path;  // as sent, escapes and all
    struct str query; // without its ?
    struct str body;
    struct arena *arena; // charged to budget; freed by web_finish

    // Set by admit.
    const void *route;
    const void *access; // that the credentials give; NULL: none were needed
    enum web_lane lane;
    struct web_owner *owner;
    int64_t time;         // ns that it may wait and work once it has arrived; 0: no limit
    struct budget budget; // its parent account is the owner's

    int status;       // 200 unless set
    const char *type; // Content-Type; lives as long as arena; NULL: none
    struct out body_out;
    struct {
        const char *name, *value; // live as long as arena
    } headers[WEB_HEADERS];
    size_t n_headers;
    bool may_gzip; // the answer, if that makes it smaller

    int64_t began; // CLOCK_MONOTONIC, ns
};

// A header of the request; p is NULL if there is none.
struct str web_header(const struct web_exchange *x, const char *name);
void web_answer_header(struct web_exchange *x, const char *name, const char *value);
// Retry-After of 1 to 10 seconds, at random: clients that were refused together come back apart.
void web_retry_later(struct web_exchange *x);
// Ends the work on x, by any thread; x is not to be used any more.
void web_finish(struct web_exchange *x);

struct web_options {
    void *context;
    // By libmicrohttpd's thread, which must not be kept long, when the head has arrived; there is
    // no arena yet. True: route, lane, owner and budget are set, and handle comes when the body has
    // arrived. False: x is answered with what is in it now.
    bool (*admit)(void *context, struct web_exchange *x);
    // By a worker. Must see to it that web_finish is called once, then or later.
    void (*handle)(void *context, struct web_exchange *x);
    // By a worker instead of handle: the deadline passed while the request waited in its queue.
    void (*late)(void *context, struct web_exchange *x);
    // References to an owner; admit takes the first one. By any thread.
    void (*hold)(void *context, struct web_owner *owner);
    void (*release)(void *context, struct web_owner *owner);
    struct budget_account *account;        // of the whole server: under pressure, slow clients go
    const char *tls_certificate, *tls_key; // PEM texts; NULL: no TLS
    unsigned
        workers[WEB_LANES]; // at first; 0: one more than processors, three at least; two for status
    unsigned connections;   // that are kept; up to twice as many for a moment; 0: 4096
    size_t body_limit;      // of one request, as it arrives; 0: 256 MiB
    size_t arena_limit;     // of one request; 0: 1 GiB
    unsigned idle_seconds;  // an idle connection is closed after; 0: 75
    unsigned request_seconds; // for a request to arrive; 0: 60
};

struct web_counts {
    uint64_t connections, requests, in_flight;
    uint64_t queued[WEB_LANES], running[WEB_LANES];
    uint64_t refused_size, refused_memory, refused_busy;
    uint64_t cut_off; // clients that were too slow, or whose place was needed
    uint64_t bytes_in, bytes_out;
};

// Takes the listener, which it closes when it stops; on failure it stays the caller's.
struct web_server *web_start(struct listener *listener, const struct web_options *options,
                             struct err *e);
void web_counts(const struct web_server *s, struct web_counts *counts);
// Takes no new request, finishes those under way (queries are canceled after some seconds), closes
// all connections.
void web_stop(struct web_server *s);
