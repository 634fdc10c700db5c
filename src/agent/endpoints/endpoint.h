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
    const struct http_server *server; // NULL: somebody else's
    const char *prefix;               // that such a one took off the path
    bool with_token;                  // whoever asks had to know it
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
    const char *name; // what it is downloaded as
};

// What is done later: when it is due, in the thread of the sockets; then in the other thread.
struct job {
    // 0: answered; otherwise once more after so many nanoseconds.
    uint64_t (*finish)(struct job *job, const struct http_request *q, struct http_answer *a);
    void (*abandon)(struct job *job);
    void (*due)(struct job *job); // NULL: nothing to do then
};

enum { ENDPOINT_SECONDS = 3600 }; // of a window at the most

// Of somebody else's server, who decides who may ask. True: answered; false: later holds a job.
bool endpoints_begin(const struct http_request *q, const char *prefix, struct http_answer *a,
                     struct http_later *later);

bool endpoint_profile(struct exchange *x);
bool endpoint_heap(struct exchange *x);
bool endpoint_symbol(struct exchange *x);
bool endpoint_index(struct exchange *x);
bool endpoint_metrics(struct exchange *x);

// Parameters. One that is there but empty, as a form sends it, is not there: *value stays. -1 with
// e filled, which names the parameter, its value and what is accepted.
int endpoint_number(struct str query, const char *name, uint32_t least, uint32_t most,
                    uint32_t *value, struct err *e);
int endpoint_switch(struct str query, const char *name, bool *value, struct err *e);
// Those that say how a profile is written, and the defaults of the route.
int endpoint_output(const struct exchange *x, struct agent_output *o, struct err *e);

// The headers of a profile that is downloaded as name.
void endpoint_describe(struct http_answer *a, enum agent_format format, const char *name);
// p as the answer; NULL, or what cannot be written: 503 with what e says.
void endpoint_answer(const struct http_request *q, struct http_answer *a, struct model_profile *p,
                     struct arena *arena, const struct agent_output *o, const char *name,
                     struct err *e);

// Compresses the body if the client takes that and it is worth it.
void endpoint_compress(const struct http_request *q, struct http_answer *a);

// Whether the request carries the token, as Bearer or as the password of Basic.
bool endpoint_authorized(const struct http_request *q, const char *token);
