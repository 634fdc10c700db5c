// Internals of the server's HTTP layer, shared by the web_*.c files.
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
    WEB_HEAD,    // part of a head has arrived, or the connection is new
    WEB_BODY,
    WEB_WORKING,
    WEB_SENDING,
};

// Connections by activity. Each list is ordered by `since`, oldest first.
enum web_list {
    WEB_LIST_NEW,     // WEB_HEAD of the first request
    WEB_LIST_HEAD,    // WEB_HEAD of a later request
    WEB_LIST_WAITING, // from here on as the phase
    WEB_LIST_BODY,
    WEB_LIST_WORKING,
    WEB_LIST_SENDING,
    WEB_LIST_CUT, // cut off; libmicrohttpd is about to close it
    WEB_LISTS,
};

// Guarded by the server's lock, except moved and uri.
struct web_connection {
    struct web_connection *next, **link;
    enum web_list list;
    int fd;
    enum web_phase phase;
    bool proven;              // a complete head arrived on it before
    bool ended;               // the client closed its sending side
    bool reset;               // and its receiving side
    int64_t since;            // start of the phase
    _Atomic uint64_t moved;   // bytes transferred in the phase
    uint64_t moved_at_first;  // moved + 1 at the end of the grace period; 0: not over
    struct web_request *busy; // in WEB_WORKING: canceled if the client disconnects
    struct web_owner *owner;  // of the admitted request; NULL: none
    char *uri;                // of the beginning request, which takes it when its head is complete
};

struct web_request {
    struct web_exchange x; // must be first: an exchange is converted to its request
    struct web_server *server;
    struct MHD_Connection *connection;
    struct web_request *next; // in the queue of its owner and lane
    char *uri;
    uint8_t *data;
    size_t n, cap;
    size_t discarded;
    bool refused; // answered before its body arrived
    bool last;    // close the connection afterwards
    bool admitted, queued;
    bool counted; // among those under way, of the owner and of the server
    struct MHD_Response *response;
    // The answer's memory, charged to x.budget.
    char *answer;
    size_t answer_n, answer_cap, answer_freed;
};

struct web_lane_queue {
    sem_t work;                                  // one token per request that arrived
    struct web_request *_Atomic inbox;           // requests not yet seen by workers, latest first
    _Atomic uint64_t queued, running;            // queued includes the inbox
    _Atomic unsigned n_workers, idle, n_threads; // n_threads: workers that have not ended
    unsigned least_workers, most_workers;
    pthread_mutex_t lock;            // guards the owners; never taken by libmicrohttpd's thread
    struct web_owner *first, **last; // owners with waiting requests, in the order of their turns
};

struct web_server {
    struct web_options o;
    struct MHD_Daemon *daemon;
    struct listener *listener;
    struct web_lane_queue lanes[WEB_LANES];
    sem_t turns; // for long requests; one per processor
    _Atomic unsigned waiting_turns;
    pthread_t sweeper;
    bool has_sweeper;
    sem_t wake;           // wakes the sweeper: a lane needs workers, or there are too many
                          // connections
    pthread_mutex_t lock; // guards the connections; never taken by workers
    struct {
        struct web_connection *first, **last;
        uint64_t n;
    } lists[WEB_LISTS];
    struct web_cursor { // the position of a thread in a list
        struct web_connection *at;
        struct web_cursor *next;
    } * cursors;
    int64_t next_stalled;  // when to search for slow transfers to evict again
    int hangups;           // epoll: connections that clients close or reset
    _Atomic bool stopping; // no new requests
    _Atomic bool ending;   // no requests are in progress: threads end
    _Atomic uint64_t n_connections, requests, in_flight, under_way, handling, refused_size,
        refused_memory, refused_busy, cut_off, bytes_in, bytes_out;
};

static inline struct web_request *web_request_of(struct web_exchange *x)
{
    return (struct web_request *)x;
}

// Returns what kiln keeps about a connection, or NULL if out of memory when it began.
struct web_connection *web_connection_of(struct MHD_Connection *c);
// Moves the connection to another phase. r: its request, or NULL. Takes the server's lock.
void web_set_phase(struct web_server *s, struct MHD_Connection *c, enum web_phase phase,
                   struct web_request *r);
// Closes a connection of the owner whose body or answer has been in transfer for long. Returns
// whether there was one.
bool web_evict_transfer(struct web_server *s, const struct web_owner *owner);
// Records that bytes of a body or an answer were transferred.
void web_note_moved(struct MHD_Connection *c, uint64_t bytes);
// Whether more than three quarters of the server's memory are in use.
bool web_is_under_pressure(const struct web_server *s);

// web_lanes.c. Except add and join, called by the sweeper or before it starts.
int web_lanes_start(struct web_server *s);
// Called in libmicrohttpd's thread. Returns false if the server is stopping or too many requests
// are waiting.
bool web_lanes_add(struct web_server *s, struct web_request *r);
// Starts workers that are needed.
void web_lanes_grow(struct web_server *s);
void web_lanes_join(struct web_server *s);

// web_head.c. Ends the URI in libmicrohttpd's buffer behind the question mark. Versions that parse
// heads in place keep a structure for each parameter, which nobody here needs, and never answer if
// there is no room for all.
void web_head_hide_query(const char *uri);
// Whether the head could be interpreted differently than libmicrohttpd does.
bool web_head_is_ambiguous(struct web_request *r, const char *method, const char *version);

// web_receive.c: libmicrohttpd's callbacks.
enum MHD_Result web_receive(void *server, struct MHD_Connection *c, const char *url,
                            const char *method, const char *version, const char *upload,
                            size_t *n_upload, void **request);
void *web_receive_begin(void *server, const char *uri, struct MHD_Connection *c);
void web_receive_end(void *server, struct MHD_Connection *c, void **request,
                     enum MHD_RequestTerminationCode code);

// web_answer.c. Sets the answer to a status and a JSON body with this message.
void web_answer_refusal(struct web_request *r, int status, const char *code, const char *format,
                        ...) __attribute__((format(printf, 4, 5)));
// Creates the response of libmicrohttpd from the answer.
void web_answer_make(struct web_request *r);
void web_answer_free(struct web_request *r);
