// One connection of the HTTP server: what has arrived, what is being answered, what is still to
// be sent. Owned by the thread of the sockets, except while it is HTTP_WORKING.
#pragma once

#include <sys/stat.h>

#include "net/http_server.h"

// A descriptor that the program may have closed, and its number then used for something of its own.
struct http_fd {
    int fd; // -1: none
    dev_t device;
    ino_t inode;
};
// Moves the descriptor to a high number.
struct http_fd http_fd_take(int fd);
bool http_fd_is_ours(const struct http_fd *f);
// Unless it is no longer ours.
void http_fd_close(struct http_fd *f);

enum http_state {
    HTTP_READING,   // a request, or idle before one
    HTTP_WAITING,   // until an answer is due
    HTTP_WORKING,   // in the other thread's hands
    HTTP_WRITING,   // the answer
    HTTP_LINGERING, // refused; what the client still sends is thrown away, so that it can read why
};

struct http_connection {
    struct http_fd socket;
    enum http_state state;
    uint64_t deadline; // of the state, ns
    uint64_t since;    // when the state began
    char *in;
    size_t n_in, cap_in;
    bool has_head; // request is filled
    bool gone;     // the client left while the other thread worked
    bool close;    // after this answer
    struct http_request request;
    struct http_answer answer;
    void *later;
    uint64_t again_ns;            // what was begun goes on after so long; set by the other thread
    struct out head;              // of the answer
    size_t sent;                  // of head and body together
    struct http_connection *next; // in a queue between the threads
};

struct http_connection *http_connection_new(int fd, uint64_t now);
void http_connection_free(struct http_connection *c);

enum http_progress {
    HTTP_AGAIN,  // nothing more to be had now
    HTTP_READY,  // a whole request, or an answer sent to its end
    HTTP_REFUSE, // the answer that refuses what was read is prepared
    HTTP_GONE,   // the client is
};

// Reads what there is.
enum http_progress http_connection_read(struct http_connection *c, uint64_t now);
// Looks for a whole request in what was read.
enum http_progress http_connection_parse(struct http_connection *c, uint64_t now);
// The answer becomes what is to be sent; its status must be set.
void http_connection_answer(struct http_connection *c, uint64_t now);
// Sends what there is to send; *bytes counts.
enum http_progress http_connection_write(struct http_connection *c, uint64_t *bytes);
// Forgets the request that was answered and keeps what came after it.
void http_connection_next(struct http_connection *c, uint64_t now);
void http_connection_linger(struct http_connection *c, uint64_t now);
// Throws away what the client sends.
enum http_progress http_connection_discard(struct http_connection *c);
