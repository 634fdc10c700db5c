// Limits of one piece of work, such as a request: memory, a deadline, and a cancel flag. An arena
// charges its memory to a budget (arena_new_in), so the budget goes wherever the arena goes.
//
// Accounts form a tree: a request's bytes count for the request, for its tenant and for the
// process, and each of these accounts has its own limit. Accounts may be charged by any number of
// threads.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct budget_account {
    const char *owner;             // in messages: "this request", "tenant a", "the server"
    size_t limit;                  // bytes; 0: none
    struct budget_account *parent; // NULL: the process's own
    _Atomic size_t held, peak;
};

// Charges bytes to the account and all its parents. Returns NULL, or the account that has no room;
// then nothing was charged.
struct budget_account *budget_charge(struct budget_account *account, size_t bytes);
void budget_release(struct budget_account *account, size_t bytes);

enum budget_state {
    BUDGET_OK,
    BUDGET_NO_MEMORY, // an account was full: 429
    BUDGET_LATE,      // the deadline passed: 504
    BUDGET_CANCELLED, // nobody waits for the result any more
};

struct budget {
    struct budget_account account; // of this work
    int64_t deadline;              // CLOCK_MONOTONIC, ns; 0: none
    _Atomic bool cancelled;
    _Atomic int failed;                  // enum budget_state: the last limit that was hit
    struct budget_account *_Atomic full; // of BUDGET_NO_MEMORY
    // Called by budget_yield: work that takes long may have to let others go first. May be NULL.
    void (*pause)(struct budget *b);
    // Called by budget_rest. May be NULL.
    void (*rest)(struct budget *b);
    bool holds_lock; // that others wait for: the work is not paused meanwhile
};

// Charges bytes to the budget's account. -1: there is no room, which failed remembers.
int budget_take(struct budget *b, size_t bytes);

// BUDGET_OK, or BUDGET_LATE or BUDGET_CANCELLED, which failed remembers. Costs a clock read.
enum budget_state budget_check(struct budget *b);
// The same after a pause, if others go first. What waits for this work waits longer then: not to be
// called with a lock that others need, unless holds_lock is set.
enum budget_state budget_yield(struct budget *b);
// Before the work waits for something else than the CPU, such as another machine: others may have
// the CPU meanwhile. b may be NULL.
void budget_rest(struct budget *b);
// Locks a mutex that others may hold for long. -1: the budget ended first, which failed remembers.
// b may be NULL.
int budget_lock(struct budget *b, pthread_mutex_t *lock);
// Why the work ended, as a sentence for the client. Returns -1.
int budget_explain(const struct budget *b, struct err *e);

int64_t budget_now(void); // CLOCK_MONOTONIC, ns
