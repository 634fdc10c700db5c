// A small HTTP/1.1 server that can live inside somebody else's process: two threads, nothing
// but libc, everything bounded.
//
// One thread owns all sockets and never blocks; another does what takes long, one answer at a
// time, so that a service is burdened by one core and one profile's memory at the most.
// Neither takes the process's signals. A request that is answered later costs no thread while
// it waits, and its client's leaving is noticed at once.
//
// Bounds: HTTP_SERVER_CONNECTIONS of them (a new one takes the place of the one that has been
// idle longest; 503 if all are busy), sizes as in http.h, 16 MiB of requests that arrive (503
// beyond), 64 MiB of answers that wait for their clients (the slowest is then closed), and a time
// limit on every state in which the client is waited for.
//
// In somebody else's process (http_handler.own_files) both threads have a descriptor table of their
// own, so they never take a number that the program expects, and the program cannot close their
// sockets. Before Linux 5.9 they share the program's, which may close all descriptors, ours too,
// and use their numbers for its own: each is checked before it is used, and serving ends.
#pragma once

#include "base/out.h"
#include "net/http.h"

enum { HTTP_SERVER_CONNECTIONS = 128 };

struct http_answer {
    int status;        // 200 unless set
    const char *type;  // Content-Type; static
    char headers[768]; // further ones: http_answer_header
    struct out body;
    bool no_length; // the answer to HEAD for what would take long to be measured
};

// Adds a header; what does not fit or would break out of its line is left out.
void http_answer_header(struct http_answer *a, const char *name, const char *value);
// Makes the body this sentence, as plain text.
void http_answer_text(struct http_answer *a, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

struct http_later {
    uint64_t delay_ns;
    void *state;
};

struct http_server;

struct http_handler {
    void *context;
    // In the thread of the sockets, which must not be kept long. True: a is the answer. False:
    // it comes later, from finish or, if the client leaves before that, abandon.
    bool (*begin)(void *context, const struct http_server *s, const struct http_request *q,
                  struct http_answer *a, struct http_later *later);
    // In the thread of the sockets, when the delay is over: the other one may be busy.
    void (*due)(void *context, void *state);
    // In the other thread, after that. 0: a is the answer and state is freed. Otherwise it is
    // called again so many nanoseconds later, or abandon is.
    uint64_t (*finish)(void *context, const struct http_request *q, void *state,
                       struct http_answer *a);
    void (*abandon)(void *context, void *state);
    void (*thread)(void); // the first thing in either thread; may be NULL
    bool own_files;       // the threads use no descriptor of the program's
};

struct http_server_counts {
    uint64_t connections; // open now
    uint64_t accepted, refused;
    uint64_t answers[6]; // by the status's first digit
    uint64_t bytes;      // sent
};

struct listener;

// Takes the listener's socket, which it closes when it stops; on failure it stays the caller's.
struct http_server *http_server_start(struct listener *listener, const struct http_handler *handler,
                                      struct err *e);
// Ends all connections and both threads. Not from a handler.
void http_server_stop(struct http_server *s);
void http_server_free(struct http_server *s);
// Gets its threads out of their waits.
void http_server_wake(struct http_server *s);
// From begin only.
void http_server_get_counts(const struct http_server *s, struct http_server_counts *counts);

// For pthread_atfork: the child closes its copies of the sockets and does not serve. There s is
// not to be used any more.
void http_server_before_fork(struct http_server *s);
void http_server_after_fork_in_parent(struct http_server *s);
void http_server_after_fork_in_child(struct http_server *s);
