// Between the files of the endpoints: one request on its way to its answer.
#pragma once

#include "agent/agent.h"
#include "net/http_server.h"

struct route;

struct exchange {
    const struct route *route;
    const struct http_request *q;
    struct http_answer *a;
    struct http_later *later;
    const struct http_server *server;
    bool with_token; // whoever asks had to know it
};

struct route {
    const char *path;
    // In the thread of the sockets. True: answered; false: x->later holds a struct job.
    bool (*begin)(struct exchange *x);
    bool posts; // POST is taken too
    bool open;  // no token is asked for
    // Of profiles; the defaults of their parameters.
    enum agent_format format;
    uint32_t seconds, width;
};

// What is done later: when it is due, in the thread of the sockets; then in the other thread.
struct job {
    void (*finish)(struct job *job, const struct http_request *q, struct http_answer *a);
    void (*abandon)(struct job *job);
    void (*due)(struct job *job); // NULL: nothing to do then
};

bool endpoint_profile(struct exchange *x);
bool endpoint_symbol(struct exchange *x);
bool endpoint_index(struct exchange *x);
bool endpoint_metrics(struct exchange *x);

// Compresses the body if the client takes that and it is worth it.
void endpoint_compress(const struct http_request *q, struct http_answer *a);

// Whether the request carries the token, as Bearer or as the password of Basic.
bool endpoint_authorized(const struct http_request *q, const char *token);
// Whether a browser that was led astray could have sent it: see the definition. Fills e.
bool endpoint_trusts_origin(const struct http_request *q, bool check_host, const char *host,
                            struct err *e);
