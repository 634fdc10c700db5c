// The server's HTTP: libmicrohttpd owns the sockets (docs/decisions/0012), worker threads do the
// work, everything is bounded. libmicrohttpd is loaded when a server starts, so that the command
// does not carry it, and TLS, through every run.
//
// A request arrives whole before it is handled; a body of more than the limit is refused with 413,
// and 429 when the bodies of all requests together are over their budget. A client that takes more
// than its time for head or body is cut off.
#pragma once

#include "base/arena.h"
#include "base/out.h"
#include "base/str.h"

struct listener;
struct web_server;

enum { WEB_HEADERS = 8 };

// One request and its answer. Of one thread at a time.
struct web_exchange {
    struct str method;
    struct str path;  // as sent, escapes and all
    struct str query; // without its ?
    struct str body;
    struct arena *arena; // freed after the answer is sent

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
// Ends the work on x, by any thread; x is not to be used any more.
void web_finish(struct web_exchange *x);

struct web_options {
    void *context;
    // By a worker. Must see to it that web_finish is called once, then or later.
    void (*handle)(void *context, struct web_exchange *x);
    const char *tls_certificate, *tls_key; // PEM texts; NULL: no TLS
    unsigned workers;                      // 0: twice the processors, four at least
    unsigned connections;                  // 0: 1024
    size_t body_limit;                     // of one request, as it arrives; 0: 256 MiB
    size_t bodies_limit;                   // of all together; 0: the double of that
    size_t arena_limit;                    // of one request; 0: 1 GiB
    unsigned idle_seconds;                 // an idle connection is closed after; 0: 75
    unsigned request_seconds;              // for a request to arrive; 0: 60
};

struct web_counts {
    uint64_t connections, requests, in_flight;
    uint64_t refused_size, refused_budget, cut_off;
    uint64_t bytes_in, bytes_out;
};

// Takes the listener, which it closes when it stops; on failure it stays the caller's.
struct web_server *web_start(struct listener *listener, const struct web_options *options,
                             struct err *e);
void web_counts(const struct web_server *s, struct web_counts *counts);
// Takes no new connection, lets what is under way finish, within some seconds.
void web_stop(struct web_server *s);
