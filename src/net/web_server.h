// What the files of the server's HTTP share.
#pragma once

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "net/web.h"

#define WEB_FUNCTIONS(X)             \
    X(start_daemon)                  \
    X(stop_daemon)                   \
    X(quiesce_daemon)                \
    X(create_response_from_buffer)   \
    X(create_response_from_callback) \
    X(add_response_header)           \
    X(queue_response)                \
    X(destroy_response)              \
    X(suspend_connection)            \
    X(resume_connection)             \
    X(lookup_connection_value)       \
    X(get_connection_values_n)       \
    X(get_connection_info)

#define WEB_DECLARE(name) __typeof__(MHD_##name) *name;
extern struct web_library {
    WEB_FUNCTIONS(WEB_DECLARE)
} web_library;

enum { WEB_ANSWER_MAX = 512 << 20 }; // bytes

enum web_phase {
    WEB_WAITING, // for another request
    WEB_HEAD,    // something of a head has come, or the connection is new
    WEB_BODY,
    WEB_WORKING,
    WEB_SENDING,
};

// Under the server's lock, but uri.
struct web_connection {
    struct web_connection *next, **link;
    int fd;
    enum web_phase phase;
    bool proven;              // a whole head has come on it before
    bool cut;                 // off: libmicrohttpd is about to close it
    int64_t since;            // of the phase
    uint64_t moved;           // bytes that came or went in the phase
    uint64_t moved_at_first;  // when its grace was over; 0: it is not
    struct web_request *busy; // WEB_WORKING: to be canceled when the client is gone
    char *uri;                // of the request that begins; its own once its head has come
};

struct web_request {
    struct web_exchange x; // the first member: an exchange is its request
    struct web_server *server;
    struct MHD_Connection *connection;
    struct web_request *next; // of its owner and lane
    char *uri;
    uint8_t *data;
    size_t n, cap;
    size_t discarded;
    bool refused; // answered before its body came
    bool admitted, queued;
    struct MHD_Response *response;
    // The answer's memory, charged to x.budget.
    char *answer;
    size_t answer_n, answer_cap, answer_freed;
};

struct web_lane_queue {
    pthread_cond_t work;
    struct web_owner *first, **last; // with waiting requests, in the order of their turns
    unsigned n_workers, idle, least_workers, most_workers;
    _Atomic uint64_t queued, running;
};

struct web_server {
    struct web_options o;
    struct MHD_Daemon *daemon;
    struct listener *listener;
    pthread_mutex_t lock;
    struct web_lane_queue lanes[WEB_LANES];
    struct web_worker *workers; // of all lanes
    pthread_t sweeper;
    bool has_sweeper;
    pthread_cond_t sweep; // it is time to end; the last worker of a lane has ended
    struct web_connection *connections, **last_connection; // those that wait longest first
    uint64_t n_cut;                                        // of them, cut off
    bool stopping;                                         // no request is taken any more
    bool ending;                                           // nor is any under way: threads end
    _Atomic uint64_t n_connections, requests, in_flight, handling, refused_size, refused_memory,
        refused_busy, cut_off, bytes_in, bytes_out;
};

static inline struct web_request *web_request_of(struct web_exchange *x)
{
    return (struct web_request *)x;
}

struct web_connection *web_connection_of(struct MHD_Connection *c);
void web_set_phase(struct web_server *s, struct MHD_Connection *c, enum web_phase phase,
                   struct web_request *busy);
// So many bytes of a body or an answer came or went.
void web_note_moved(struct web_server *s, struct MHD_Connection *c, uint64_t bytes);
// More than three quarters of the server's memory are in use.
bool web_is_under_pressure(const struct web_server *s);

// web_lanes.c. Enqueue: false if the server stops or too many wait.
int web_lanes_start(struct web_server *s);
// One more worker, if there may be; lock is held.
void web_lanes_grow(struct web_server *s, enum web_lane which);
// Requests that take long get less of the CPU from now on; lock is held.
void web_lanes_demote(struct web_server *s, int64_t now);
bool web_lanes_add(struct web_server *s, struct web_request *r);
void web_lanes_join(struct web_server *s);

// web_receive.c: libmicrohttpd's callbacks.
enum MHD_Result web_receive(void *server, struct MHD_Connection *c, const char *url,
                            const char *method, const char *version, const char *upload,
                            size_t *n_upload, void **request);
void *web_receive_begin(void *server, const char *uri, struct MHD_Connection *c);
void web_receive_end(void *server, struct MHD_Connection *c, void **request,
                     enum MHD_RequestTerminationCode code);

// web_answer.c. A refusal: status and a JSON body of this sentence.
void web_answer_refusal(struct web_request *r, int status, const char *code, const char *format,
                        ...) __attribute__((format(printf, 4, 5)));
void web_answer_make(struct web_request *r);
void web_answer_free(struct web_request *r);
