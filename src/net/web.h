// The HTTP layer of the server. libmicrohttpd owns the sockets (docs/decisions/0012), worker
// threads process requests, and everything is bounded. libmicrohttpd is loaded when a server
// starts, so that other commands need not load it and its TLS library.
//
// web.c          start, stop, and the sweeper thread that cuts off slow clients
// web_receive.c  requests and their bodies, in libmicrohttpd's thread
// web_head.c     detection of ambiguous heads
// web_lanes.c    queues and workers
// web_answer.c   answers
//
// A request is admitted when its head has arrived. The server authenticates it and assigns a lane,
// an owner (owners take turns) and a budget; or it answers at once, without reading the body.
// Bodies are charged to the budget as they arrive, answers until they are sent. Clients that send
// or read too slowly are cut off.
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
    WEB_CONNECTION_MEMORY = 32 << 10, // per connection; a request's head must fit
};

// Each lane has its own workers, so work of one kind does not wait for another kind.
enum web_lane { WEB_LANE_STATUS, WEB_LANE_INGEST, WEB_LANE_QUERY, WEB_LANES };

// A tenant. In each lane, the requests of owners take turns. account.parent is the server's.
struct web_owner {
    struct budget_account account;
    _Atomic unsigned under_way; // requests from their head until they are answered
    struct web_turn {
        struct web_request *first, **last;
        _Atomic unsigned queued; // includes the lane's inbox
        unsigned running;
        bool listed;
        struct web_owner *next;
    } turns[WEB_LANES];
};

// A request and its answer. Used by one thread at a time.
struct web_exchange {
    struct str method;
    struct str path;  // as sent, not unescaped
    struct str query; // without the ?
    struct str body;
    struct arena *arena; // charged to budget; freed by web_finish

    // Set by admit.
    const void *route;
    const void *access; // permissions of the credentials; NULL: none were needed
    enum web_lane lane;
    struct web_owner *owner;
    int64_t time;         // ns for waiting and processing after arrival; 0: no limit
    struct budget budget; // its parent account is the owner's

    int status;       // default: 200
    const char *type; // Content-Type; must live as long as arena; NULL: none
    struct out body_out;
    struct {
        const char *name, *value; // must live as long as arena
    } headers[WEB_HEADERS];
    size_t n_headers;
    bool may_gzip; // compress the answer if that makes it smaller

    int64_t began; // CLOCK_MONOTONIC, ns
};

// Returns a header of the request. p is NULL if there is none.
struct str web_header(const struct web_exchange *x, const char *name);
// Adds a header to the answer. Ignores it if there are already WEB_HEADERS.
void web_answer_header(struct web_exchange *x, const char *name, const char *value);
// Adds Retry-After with a random value of 1 to 10 seconds, so that refused clients do not all
// return together.
void web_retry_later(struct web_exchange *x);
// Completes the request with the answer in x. Any thread may call it. x must not be used
// afterwards.
void web_finish(struct web_exchange *x);

struct web_options {
    void *context;
    // Called in libmicrohttpd's thread when the head has arrived; must return quickly. There is no
    // arena yet. Returns true after setting route, lane, owner and budget; handle is called when
    // the body has arrived. Returns false to answer with the contents of x.
    bool (*admit)(void *context, struct web_exchange *x);
    // Called in a worker. Must ensure that web_finish is called once, then or later.
    void (*handle)(void *context, struct web_exchange *x);
    // Called in a worker instead of handle if the deadline passed in the queue.
    void (*late)(void *context, struct web_exchange *x);
    // Add and drop references to an owner. admit takes the first one. Called in any thread.
    void (*hold)(void *context, struct web_owner *owner);
    void (*release)(void *context, struct web_owner *owner);
    struct budget_account *account;        // of the whole server; slow clients are cut off under
                                           // memory pressure
    const char *tls_certificate, *tls_key; // PEM texts; NULL: no TLS
    unsigned workers[WEB_LANES]; // initial number; 0: processors + 1, at least 3; for status 2
    unsigned connections;        // limit; up to twice as many for a moment; 0: 4096
    size_t body_limit;           // per request, as it arrives; 0: 256 MiB
    size_t arena_limit;          // per request; 0: 1 GiB
    unsigned idle_seconds;       // timeout of idle connections; 0: 75
    unsigned request_seconds;    // timeout for receiving a request; 0: 60
};

struct web_counts {
    uint64_t connections, requests, in_flight;
    uint64_t queued[WEB_LANES], running[WEB_LANES];
    uint64_t refused_size, refused_memory, refused_busy;
    uint64_t cut_off; // clients that were too slow or were evicted
    uint64_t bytes_in, bytes_out;
};

// Starts the server. Takes the listener and closes it when the server stops. On failure returns
// NULL with e filled, and the listener stays the caller's.
struct web_server *web_start(struct listener *listener, const struct web_options *options,
                             struct err *e);
void web_counts(const struct web_server *s, struct web_counts *counts);
// Stops accepting requests, finishes those in progress (cancels queries after some seconds), closes
// all connections and frees s.
void web_stop(struct web_server *s);
