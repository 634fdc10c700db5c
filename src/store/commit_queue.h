// Requests that wait to be committed, and which of them are committed together. Each tenant has its
// share of the memory and of a commit, in bytes, puts and days. Callers hold the store's lock.
#pragma once

#include "store/driver.h"

struct waiting_tenant; // one with requests that wait or are being committed

struct commit_queue {
    struct store_request *first, **last;
    size_t n_waiting;
    size_t bytes, limit; // of what waits or is being committed
    struct waiting_tenant *tenants;
    size_t n_tenants;
    bool turn_next; // whether the next commit is a tenant's turn
    uint64_t turns;
};

void commit_queue_init(struct commit_queue *q, size_t limit);
// Whether so many bytes are too much beside what is there; then e is filled. A tenant that has less
// than its share of the limit is never refused because of what the others have: n tenants hold up
// to 1 + 1/2 + ... + 1/n times the limit. A request of any size is taken while half of it is free.
bool commit_queue_is_full(const struct commit_queue *q, struct str tenant, size_t bytes,
                          struct err *e);
// Takes a list of requests of a tenant, or returns STORE_BUSY with e filled.
int commit_queue_add(struct commit_queue *q, struct str tenant, struct store_request *first,
                     struct err *e);
// The requests of the next commit, at most `most` of those that wait. Every other time it is the
// turn of one tenant, for what others should not wait for: parts, and older days than its newest
// two, one day at a time. Else they are the other requests of all tenants.
size_t commit_queue_take(struct commit_queue *q, struct store_request **requests, size_t most);
// After the commit. Requests with STORE_LATER wait again, before all others unless it was a turn,
// and are taken out of requests; returns how many are left, which have ended. now: of the monotonic
// clock.
size_t commit_queue_return(struct commit_queue *q, struct store_request **requests, size_t n,
                           int64_t now);
// A request has ended.
void commit_queue_forget(struct commit_queue *q, const struct store_request *r);
