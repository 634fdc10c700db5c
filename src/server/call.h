// One request in progress: the caller, the encoding, and the response.
#pragma once

#include "codec/message.h"
#include "net/http.h"
#include "server/server.h"

struct call {
    struct server *server;
    struct web_exchange *x;
    struct arena *arena;
    struct str tenant;
    const struct server_access
        *access;     // of the credentials; NULL: there is no auth, or none needed
    struct str path; // without the base path
    bool json;       // of a Connect call: how it came and how it is answered
    bool admitting; // only the head has arrived: there is no arena, and the answer goes out at once
    // What is missing in the answer: see call_warn.
    uint32_t damaged_days, n_warnings;
    const char *warnings[8];
};

// Codes of the Connect protocol and their statuses.
enum call_code {
    CALL_UNKNOWN,             // 500
    CALL_INVALID_ARGUMENT,    // 400
    CALL_FAILED_PRECONDITION, // 400
    CALL_NOT_FOUND,           // 404
    CALL_PERMISSION_DENIED,   // 403
    CALL_RESOURCE_EXHAUSTED,  // 429
    CALL_UNIMPLEMENTED,       // 501
    CALL_UNAVAILABLE,         // 503
    CALL_UNAUTHENTICATED,     // 401
    CALL_DEADLINE_EXCEEDED,   // 504
};

// Answers {"code":..., "message":...}; status 0: that of the code. Ends the call.
void call_fail(struct call *c, enum call_code code, int status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// With the message of e: the input is wrong, or a limit of the call's budget was hit on the way.
void call_fail_input(struct call *c, enum call_code code, int status, const struct err *e);
// The call hit a limit of its budget (memory: 429, time: 504) while it was doing what.
void call_fail_budget(struct call *c, const char *what);
// With the message of e and the code that belongs to a result of the store.
void call_fail_store(struct call *c, int result, const struct err *e);
// The answer does not have all: a JSON object says so in "warnings", every answer in the header
// Kiln-Damaged-Days.
void call_warn(struct call *c, const struct store_answer *answer);
// Ends the call with what is in x->body_out.
void call_finish(struct call *c);
// Ends it with a status and no body.
void call_empty(struct call *c, int status);

// Whether a Content-Type is this one, parameters aside.
bool call_is_type(struct str header, const char *type);

// POST with this type, or the call has ended. A page of another origin cannot send a type such as
// application/json without a question beforehand, and nobody answers that.
bool call_is_post(struct call *c, const char *type);

// The body, inflated if it says so, of at most the configured limit. -1: the call has failed.
int call_body(struct call *c, struct str *body);

// The unescaped value of a parameter in the arena; p is NULL if there is none or it is malformed.
struct str call_parameter(const struct call *c, const char *name);
// All values of one that may come several times.
size_t call_parameters(const struct call *c, const char *name, struct str **values);

// A Connect call: checks method and types, decodes. NULL: the call has ended.
void *call_connect(struct call *c, const struct message *m);
// The answer to one.
void call_connect_answer(struct call *c, const struct message *m, const void *object);
