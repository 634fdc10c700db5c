// Limits for one unit of work, such as a request: memory, a deadline and a cancel flag. An arena
// charges its memory to a budget (arena_new_in), so the budget is available wherever the arena is.
//
// Accounts form a tree: a request's bytes are charged to the request, its tenant and the process,
// each with its own limit. Any number of threads may charge an account.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct budget_account {
    const char *owner;             // for messages: "this request", "tenant a", "the server"
    size_t limit;                  // bytes; 0: no limit
    struct budget_account *parent; // NULL for the process's account
    // It may hold at most so many times as much as its parent has left, so that several accounts
    // never take all of it. 0: any amount.
    unsigned times_left;
    _Atomic size_t held, peak;
};

// Charges bytes to the account and all its parents. Returns NULL on success. Otherwise charges
// nothing and returns the account that is full.
struct budget_account *budget_charge(struct budget_account *account, size_t bytes);
void budget_release(struct budget_account *account, size_t bytes);

enum budget_state {
    BUDGET_OK,
    BUDGET_NO_MEMORY, // an account was full: HTTP status 429
    BUDGET_LATE,      // the deadline passed: HTTP status 504
    BUDGET_CANCELLED, // nobody waits for the result any more
};

struct budget {
    struct budget_account account; // of this unit of work
    int64_t deadline;              // CLOCK_MONOTONIC, ns; 0: no deadline
    _Atomic bool cancelled;
    _Atomic int failed;                  // enum budget_state: the last limit exceeded
    struct budget_account *_Atomic full; // the account that was full, with BUDGET_NO_MEMORY
    // Called by budget_yield: blocks while other work has priority. May be NULL.
    void (*pause)(struct budget *b);
    // Called by budget_rest. May be NULL.
    void (*rest)(struct budget *b);
    bool holds_lock; // the work holds a lock that others need, so do not pause it
};

// Charges bytes to the budget's account. Returns -1 and sets failed if it is full.
int budget_take(struct budget *b, size_t bytes);

// Returns BUDGET_OK, or BUDGET_LATE or BUDGET_CANCELLED, which it also stores in failed. Costs one
// clock read.
enum budget_state budget_check(struct budget *b);
// Like budget_check, but first pauses if other work has priority. Do not call it while holding a
// lock that others need, unless holds_lock is set.
enum budget_state budget_yield(struct budget *b);
// Call it before waiting for something other than the CPU, such as another machine, so that others
// may use the CPU. b may be NULL.
void budget_rest(struct budget *b);
// Locks a mutex that others may hold for long. Returns -1 and sets failed if the budget ends first.
// b may be NULL.
int budget_lock(struct budget *b, pthread_mutex_t *lock);
// Fills e with the reason why the work ended, for the client. Returns -1.
int budget_explain(const struct budget *b, struct err *e);

int64_t budget_now(void); // CLOCK_MONOTONIC, ns
