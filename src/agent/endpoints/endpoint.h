// Shared by the files of the endpoints: one request and its response.
#pragma once

#include "agent/agent.h"
#include "net/http_server.h"

struct route;

struct exchange {
    const struct route *route;
    const struct http_request *q;
    struct http_answer *a;
    struct http_later *later;
    const struct http_server *server; // NULL: the program's own server
    const char *prefix;               // path prefix that such a server removed
    bool with_token;                  // the server requires a token
};

struct route {
    const char *path;
    // Called in the socket thread. Returns true if it has responded, false if x->later holds a
    // struct job.
    bool (*begin)(struct exchange *x);
    bool posts; // also accepts POST
    bool open;  // needs no token
    // Defaults for profile parameters.
    enum agent_format format;
    uint32_t seconds, width;
    const char *name; // file name for downloads
};

// Work to do later: `due` is called in the socket thread at the due time, then `finish` in the
// worker thread.
struct job {
    // Returns 0 when done, or the nanoseconds after which to call it again.
    uint64_t (*finish)(struct job *job, const struct http_request *q, struct http_answer *a);
    void (*abandon)(struct job *job);
    void (*due)(struct job *job); // may be NULL
};

enum { ENDPOINT_SECONDS = 3600 }; // maximum length of a window

// Handles a request of the program's own server, which does the authentication. Returns true if it
// has responded, false if later holds a job.
bool endpoints_begin(const struct http_request *q, const char *prefix, struct http_answer *a,
                     struct http_later *later);

bool endpoint_profile(struct exchange *x);
bool endpoint_heap(struct exchange *x);
bool endpoint_symbol(struct exchange *x);
bool endpoint_index(struct exchange *x);
bool endpoint_metrics(struct exchange *x);

// Parse one query parameter. If it is missing or empty, as forms send it, *value is unchanged.
// Return -1 and fill e with the name, the value and what is accepted if it is invalid.
int endpoint_number(struct str query, const char *name, uint32_t least, uint32_t most,
                    uint32_t *value, struct err *e);
int endpoint_switch(struct str query, const char *name, bool *value, struct err *e);
// Parses the parameters for the output format, with the route's defaults.
int endpoint_output(const struct exchange *x, struct agent_output *o, struct err *e);

// Sets the response headers for a profile to download as `name`.
void endpoint_describe(struct http_answer *a, enum agent_format format, const char *name);
// Responds with p. If p is NULL or cannot be written, responds 503 with the message in e.
void endpoint_answer(const struct http_request *q, struct http_answer *a, struct model_profile *p,
                     struct arena *arena, const struct agent_output *o, const char *name,
                     struct err *e);

// Compresses the body if the client accepts gzip and the body is large enough.
void endpoint_compress(const struct http_request *q, struct http_answer *a);

// Returns whether the request has the token, as Bearer token or Basic password.
bool endpoint_authorized(const struct http_request *q, const char *token);
