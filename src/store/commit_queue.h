// The queue of requests that wait for a commit; it decides which of them share a commit. Each
// tenant gets a fair share of the memory and of a commit, in bytes, puts and days. Callers hold the
// store's lock.
#pragma once

#include "store/driver.h"

struct waiting_tenant; // a tenant with queued or committing requests

struct commit_queue {
    struct store_request *first, **last;
    size_t n_waiting;
    size_t bytes, limit; // of queued and committing requests
    struct waiting_tenant *tenants;
    size_t n_tenants;
    bool turn_next; // whether the next commit serves a single tenant
    uint64_t turns;
};

void commit_queue_init(struct commit_queue *q, size_t limit);
// Returns whether adding bytes would exceed the limit; if so, fills e. A tenant below its share of
// the limit is never refused because of other tenants, so n tenants may hold up to 1 + 1/2 + ... +
// 1/n times the limit. While half of the limit is free, a request of any size is accepted.
bool commit_queue_is_full(const struct commit_queue *q, struct str tenant, size_t bytes,
                          struct err *e);
// Appends a list of requests of one tenant. Returns STORE_BUSY and fills e if the queue is full.
int commit_queue_add(struct commit_queue *q, struct str tenant, struct store_request *first,
                     struct err *e);
// Removes the requests of the next commit from the queue, at most `most`, and returns how many.
// Commits alternate: every other one serves a single tenant's slow requests, which others should
// not wait for. These are parts, and days older than the tenant's newest two, one day at a time.
// The other commits take the remaining requests of all tenants.
size_t commit_queue_take(struct commit_queue *q, struct store_request **requests, size_t most);
// Called after the commit. Requests with STORE_LATER are queued again, in front of all others
// unless the commit served a single tenant, and are removed from requests. Returns how many
// requests are left; these are complete. now: monotonic clock.
size_t commit_queue_return(struct commit_queue *q, struct store_request **requests, size_t n,
                           int64_t now);
// Releases the share of a completed request.
void commit_queue_forget(struct commit_queue *q, const struct store_request *r);
