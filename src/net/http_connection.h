// A connection of the HTTP server: received bytes, the request, and the answer being sent. Owned by
// the sockets thread, except in state HTTP_WORKING.
#pragma once

#include <sys/stat.h>

#include "net/http_server.h"

// A descriptor with the identity of its file. The program may close it and reuse its number.
struct http_fd {
    int fd; // -1: none
    dev_t device;
    ino_t inode;
};
// Moves the descriptor to a high number.
struct http_fd http_fd_take(int fd);
// Whether the descriptor still refers to the same file.
bool http_fd_is_ours(const struct http_fd *f);
// Closes the descriptor unless it now belongs to the program.
void http_fd_close(struct http_fd *f);

enum http_state {
    HTTP_READING,   // receiving a request, or idle
    HTTP_WAITING,   // until an answer is due
    HTTP_WORKING,   // owned by the worker
    HTTP_WRITING,   // sending the answer
    HTTP_LINGERING, // refused; discards input so that the client can read the answer
};

struct http_connection {
    struct http_fd socket;
    enum http_state state;
    uint64_t deadline; // of the state, ns
    uint64_t since;    // start of the state
    char *in;
    size_t n_in, cap_in;
    bool has_head; // request is valid
    bool gone;     // the client left while the worker was busy
    bool close;    // after this answer
    struct http_request request;
    struct http_answer answer;
    void *later;
    uint64_t again_ns;            // set by the worker: call finish again after this time
    struct out head;              // of the answer
    size_t sent;                  // of head and body together
    struct http_connection *next; // in a queue between the threads
};

// Takes fd. now is process_now_ns, as in the functions below. Returns NULL if out of memory.
// http_connection_free does not close the socket.
struct http_connection *http_connection_new(int fd, uint64_t now);
void http_connection_free(struct http_connection *c);

enum http_progress {
    HTTP_AGAIN,  // wait for more input or room to send
    HTTP_READY,  // a request is complete, or an answer was sent
    HTTP_REFUSE, // the input is invalid; the answer is prepared
    HTTP_GONE,   // the client closed the connection
};

// Reads available bytes.
enum http_progress http_connection_read(struct http_connection *c, uint64_t now);
// Checks whether the bytes read contain a complete request.
enum http_progress http_connection_parse(struct http_connection *c, uint64_t now);
// Prepares the answer for sending. Its status must be set.
void http_connection_answer(struct http_connection *c, uint64_t now);
// Sends what it can. Adds the bytes sent to *bytes.
enum http_progress http_connection_write(struct http_connection *c, uint64_t *bytes);
// Removes the answered request and keeps the bytes after it.
void http_connection_next(struct http_connection *c, uint64_t now);
// Closes the sending side and starts HTTP_LINGERING.
void http_connection_linger(struct http_connection *c, uint64_t now);
// Discards input.
enum http_progress http_connection_discard(struct http_connection *c);
