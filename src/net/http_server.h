// A small HTTP/1.1 server that can run inside a service: two threads, only libc, everything
// bounded.
//
// One thread owns all sockets and never blocks. The other one, the worker, does slow work, one
// answer at a time. A service thus spends at most one core and the memory of one profile. Neither
// receives the process's signals. A request that is answered later uses no thread while it waits,
// and a client that disconnects is noticed at once.
//
// Limits: HTTP_SERVER_CONNECTIONS connections (a new one replaces the one idle longest; 503 if all
// are busy), sizes as in http.h, 16 MiB of requests being received (503 beyond), 64 MiB of answers
// that clients have not read (the slowest connection is closed), and a timeout for every state that
// waits for the client.
//
// Inside a service (http_handler.own_files), both threads have their own descriptor table. They
// never use a number that the program expects to be free, and the program cannot close their
// sockets. Before Linux 5.9 they share the program's table. The program may then close these
// descriptors and reuse their numbers, so each one is checked before use, and the server stops if
// the check fails.
#pragma once

#include "base/out.h"
#include "net/http.h"

enum { HTTP_SERVER_CONNECTIONS = 128 };

struct http_answer {
    int status;        // default: 200
    const char *type;  // Content-Type, a static string
    char headers[768]; // further headers; see http_answer_header
    struct out body;
    bool no_length; // omit Content-Length: a HEAD request whose answer would be slow to compute
};

// Adds a header. Ignores it if it does not fit or contains a line break.
void http_answer_header(struct http_answer *a, const char *name, const char *value);
// Sets the body to one line of plain text.
void http_answer_text(struct http_answer *a, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

struct http_later {
    uint64_t delay_ns;
    void *state;
};

struct http_server;

struct http_handler {
    void *context;
    // Called in the sockets thread; must return quickly. Returns true if a is the answer. Returns
    // false if it follows from finish or, if the client leaves first, abandon is called.
    bool (*begin)(void *context, const struct http_server *s, const struct http_request *q,
                  struct http_answer *a, struct http_later *later);
    // Called in the sockets thread when the delay is over, because the worker may be busy.
    void (*due)(void *context, void *state);
    // Called in the worker after due. Returns 0 if a is the answer and state is freed. Otherwise it
    // is called again after that many nanoseconds, or abandon is called.
    uint64_t (*finish)(void *context, const struct http_request *q, void *state,
                       struct http_answer *a);
    void (*abandon)(void *context, void *state);
    void (*thread)(void); // called first in each thread; may be NULL
    bool own_files;       // the threads use none of the program's descriptors
};

struct http_server_counts {
    uint64_t connections; // currently open
    uint64_t accepted, refused;
    uint64_t answers[6]; // by the first digit of the status
    uint64_t bytes;      // sent
};

struct listener;

// Starts the server. Takes the listener's socket and closes it when the server stops. On failure
// returns NULL with e filled, and the socket stays the caller's.
struct http_server *http_server_start(struct listener *listener, const struct http_handler *handler,
                                      struct err *e);
// Closes all connections and joins both threads. Must not be called from a handler.
// http_server_free frees the memory afterwards.
void http_server_stop(struct http_server *s);
void http_server_free(struct http_server *s);
// Wakes the worker, which wakes the sockets thread if the threads are being parked.
void http_server_wake(struct http_server *s);
// Call only from begin.
void http_server_get_counts(const struct http_server *s, struct http_server_counts *counts);

// For pthread_atfork. The child closes its copies of the sockets and does not serve; s must not be
// used there afterwards.
void http_server_before_fork(struct http_server *s);
void http_server_after_fork_in_parent(struct http_server *s);
void http_server_after_fork_in_child(struct http_server *s);
