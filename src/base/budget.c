#include "base/budget.h"

#include <time.h>

static void note_peak(struct budget_account *account, size_t held)
{
    size_t peak = atomic_load_explicit(&account->peak, memory_order_relaxed);
    while (held > peak && !atomic_compare_exchange_weak(&account->peak, &peak, held))
        ;
}

// Whether an account that holds so much, including bytes that its parent does not hold yet, leaves
// enough to others.
static bool leaves_enough(const struct budget_account *a, size_t held, size_t bytes)
{
    const struct budget_account *parent = a->parent;
    if (!a->times_left || !parent || !parent->limit)
        return true;
    size_t others = parent->held + bytes, left = parent->limit - others;
    return others > parent->limit || held / a->times_left <= left; // over the limit: it says so
}

struct budget_account *budget_charge(struct budget_account *account, size_t bytes)
{
    for (struct budget_account *a = account; a; a = a->parent) {
        size_t held = atomic_fetch_add(&a->held, bytes) + bytes;
        if ((a->limit && (held > a->limit || held < bytes)) || !leaves_enough(a, held, bytes)) {
            for (struct budget_account *b = account;; b = b->parent) {
                atomic_fetch_sub(&b->held, bytes);
                if (b == a)
                    return a;
            }
        }
    }
    for (struct budget_account *a = account; a; a = a->parent)
        note_peak(a, a->held);
    return NULL;
}

int budget_take(struct budget *b, size_t bytes)
{
    struct budget_account *full = budget_charge(&b->account, bytes);
    if (!full)
        return 0;
    b->full = full;
    b->failed = BUDGET_NO_MEMORY;
    return -1;
}

void budget_release(struct budget_account *account, size_t bytes)
{
    for (; account; account = account->parent)
        atomic_fetch_sub(&account->held, bytes);
}

int64_t budget_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

enum budget_state budget_check(struct budget *b)
{
    if (b->cancelled)
        b->failed = BUDGET_CANCELLED;
    else if (b->deadline && budget_now() >= b->deadline)
        b->failed = BUDGET_LATE;
    else
        return BUDGET_OK;
    return (enum budget_state)b->failed;
}

enum budget_state budget_yield(struct budget *b)
{
    if (b->pause && !b->holds_lock)
        b->pause(b);
    return budget_check(b);
}

void budget_rest(struct budget *b)
{
    if (b && b->rest)
        b->rest(b);
}

int budget_lock(struct budget *b, pthread_mutex_t *lock)
{
    // Not pthread_mutex_clocklock: ThreadSanitizer does not support it.
    const struct timespec turn = {.tv_nsec = 1000000};
    if (!b)
        return pthread_mutex_lock(lock);
    while (pthread_mutex_trylock(lock) != 0) {
        if (budget_check(b) != BUDGET_OK)
            return -1;
        budget_rest(b);
        nanosleep(&turn, NULL);
    }
    return 0;
}

int budget_explain(const struct budget *b, struct err *e)
{
    switch (atomic_load(&b->failed)) {
    case BUDGET_NO_MEMORY: {
        const struct budget_account *full = b->full;
        return full ? err_set(e, "out of memory: the limit of %s is %zu KiB", full->owner,
                              full->limit >> 10)
                    : err_set(e, "out of memory");
    }
    case BUDGET_LATE:
        return err_set(e, "deadline exceeded");
    case BUDGET_CANCELLED:
        return err_set(e, "canceled");
    default:
        return err_set(e, "no limit was exceeded");
    }
}
