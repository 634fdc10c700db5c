// Continuous push: windows of equal length, aligned to the clock, become requests that wait in a
// bounded queue until the server has taken them. Two threads: one closes windows in time, however
// slow the server is, the other one sends.
#pragma once

#include <kiln/kiln.h>

#include "model/profile.h"
#include "net/post.h"

enum { PUSH_TAGS = 30, PUSH_STOP_SECONDS = 5, PUSH_WINDOWS = 60 };

struct push_tag {
    char *name, *value;
};

// What profiles are sent as, and where to: set once, read by both threads.
struct push_target {
    struct post_url url;
    char *headers;                   // of every request
    struct push_tag tags[PUSH_TAGS]; // sorted by name; service_name among them
    size_t n_tags;
};

// -1 with e filled, and nothing to free.
int push_target_init(struct push_target *t, const struct kiln_push_options *o, struct err *e);
void push_target_fini(struct push_target *t);

// Either profile may be NULL. Their names are looked for. The request's body, gzipped, to be freed;
// NULL with e filled; NULL with an empty message if there is nothing to tell.
struct push_body {
    char *p;
    size_t n;
};
int push_message(const struct push_target *t, struct model_profile *cpu, struct model_profile *heap,
                 struct arena *arena, struct push_body *body, struct err *e);

// --- the queue and its thread ---

// limit: bytes that may wait; seconds: between two windows.
int push_queue_start(const struct push_target *t, size_t limit, uint32_t seconds, struct err *e);
// Gets the thread out of its wait.
void push_queue_wake(void);
// Takes the body. What does not fit pushes the oldest out, by bytes and by PUSH_WINDOWS.
void push_queue_add(struct push_body body);
// Sends what waits until PUSH_STOP_SECONDS have passed, and ends the thread. False: it is still
// looking a name up, which cannot be interrupted; call again.
bool push_queue_stop(void);
void push_queue_after_fork_in_child(void);
void push_queue_before_fork(void);
void push_queue_after_fork_in_parent(void);
void push_queue_get_statistics(struct kiln_push_statistics *s);

// --- all of it ---

int push_start(const struct kiln_push_options *o, struct err *e);
void push_stop(void);
void push_get_statistics(struct kiln_push_statistics *s);
