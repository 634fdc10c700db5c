// Continuous push: windows of equal length, aligned to the clock, become requests that stay in a
// bounded queue until the server has accepted them. There are two threads: one closes windows on
// time, however slow the server is; the other sends.
#pragma once

#include <kiln/kiln.h>

#include "model/profile.h"
#include "net/post.h"

enum { PUSH_TAGS = 30, PUSH_STOP_SECONDS = 5, PUSH_WINDOWS = 60 };

struct push_tag {
    char *name, *value;
};

// Where and how profiles are sent: written once, read by both threads.
struct push_target {
    struct post_url url;
    char *headers;                   // for each request
    struct push_tag tags[PUSH_TAGS]; // sorted by name; includes service_name
    size_t n_tags;
};

// Returns -1 and fills e on failure; then there is nothing to free.
int push_target_init(struct push_target *t, const struct kiln_push_options *o, struct err *e);
void push_target_fini(struct push_target *t);

// Makes the gzipped body of a push request from the profiles, which it symbolizes; either may be
// NULL. The caller frees body->p; body->n is 0 if there is nothing to send. Returns -1 and fills e
// on failure.
struct push_body {
    char *p;
    size_t n;
};
int push_message(const struct push_target *t, struct model_profile *cpu, struct model_profile *heap,
                 struct arena *arena, struct push_body *body, struct err *e);

// --- the queue and its thread ---

// limit: maximum bytes in the queue; seconds: window length. Returns -1 and fills e on failure.
int push_queue_start(const struct push_target *t, size_t limit, uint32_t seconds, struct err *e);
// Wakes up the thread.
void push_queue_wake(void);
// Takes ownership of the body. If the queue exceeds limit or PUSH_WINDOWS, drops the oldest.
void push_queue_add(struct push_body body);
// Sends what is queued for up to PUSH_STOP_SECONDS, and ends the thread. Returns false if the
// thread is still in a name lookup, which cannot be interrupted; then call it again.
bool push_queue_stop(void);
void push_queue_after_fork_in_child(void);
void push_queue_before_fork(void);
void push_queue_after_fork_in_parent(void);
void push_queue_get_statistics(struct kiln_push_statistics *s);

// --- both threads ---

int push_start(const struct kiln_push_options *o, struct err *e);
void push_stop(void);
void push_get_statistics(struct kiln_push_statistics *s);
