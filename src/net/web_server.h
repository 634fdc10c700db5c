// What the files of the server's HTTP share.
#pragma once

#include <microhttpd.h>
#include <pthread.h>
#include <semaphore.h>
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
    X(get_connection_info)           \
    X(get_version)

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

// Connections by what they do, each list in the order of `since`: who waits longest is first.
enum web_list {
    WEB_LIST_NEW,     // WEB_HEAD, and no request has come on it yet
    WEB_LIST_HEAD,    // WEB_HEAD of a later request
    WEB_LIST_WAITING, // and so on
    WEB_LIST_BODY,
    WEB_LIST_WORKING,
    WEB_LIST_SENDING,
    WEB_LIST_CUT, // cut off: libmicrohttpd is about to close it
    WEB_LISTS,
};

// Under the server's lock, but moved and uri.
struct web_connection {
    struct web_connection *next, **link;
    enum web_list list;
    int fd;
    enum web_phase phase;
    bool proven;              // a whole head has come on it before
    bool ended;               // the client sends nothing any more
    bool reset;               // nor does it receive anything
    int64_t since;            // of the phase
    _Atomic uint64_t moved;   // bytes that came or went in the phase
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
    bool last;    // of its connection
    bool admitted, queued;
    struct MHD_Response *response;
    // The answer's memory, charged to x.budget.
    char *answer;
    size_t answer_n, answer_cap, answer_freed;
};

struct web_lane_queue {
    sem_t work;                                  // what came
    struct web_request *_Atomic inbox;           // what no worker has seen yet, the latest first
    _Atomic uint64_t queued, running;            // queued: in the inbox as well
    _Atomic unsigned n_workers, idle, n_threads; // threads: workers that have not ended
    unsigned least_workers, most_workers;
    pthread_mutex_t lock;            // of owners; not taken by libmicrohttpd's thread
    struct web_owner *first, **last; // with waiting requests, in the order of their turns
};

struct web_server {
    struct web_options o;
    struct MHD_Daemon *daemon;
    struct listener *listener;
    struct web_lane_queue lanes[WEB_LANES];
    sem_t turns; // of requests that take long: as many as there are processors
    _Atomic unsigned waiting_turns;
    pthread_t sweeper;
    bool has_sweeper;
    sem_t wake;           // the sweeper: a lane needs workers, there are too many connections
    pthread_mutex_t lock; // of connections; taken by workers at no time
    struct {
        struct web_connection *first, **last;
        uint64_t n;
    } lists[WEB_LISTS];
    struct web_cursor { // of a thread that goes through a list
        struct web_connection *at;
        struct web_cursor *next;
    } * cursors;
    int hangups;           // epoll: connections whose clients close or reset them
    _Atomic bool stopping; // no request is taken any more
    _Atomic bool ending;   // nor is any under way: threads end
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
void web_note_moved(struct MHD_Connection *c, uint64_t bytes);
// More than three quarters of the server's memory are in use.
bool web_is_under_pressure(const struct web_server *s);

// web_lanes.c. All but add and join by the sweeper, or before it is there.
int web_lanes_start(struct web_server *s);
// By libmicrohttpd's thread. False: the server stops, or too many wait.
bool web_lanes_add(struct web_server *s, struct web_request *r);
// Starts workers that are needed.
void web_lanes_grow(struct web_server *s);
void web_lanes_join(struct web_server *s);

// web_head.c. Whether somebody else could read the head in another way than libmicrohttpd does.
bool web_head_is_ambiguous(struct web_request *r, const char *method, const char *version);

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
