// Shared by the files that implement the C interface.
#pragma once

#include <kiln/kiln.h>

#include <pthread.h>
#include <string.h>

#include "base/attributes.h"
#include "base/err.h"
#include "capture/heap_capture.h"
#include "process/floating.h"

// Copies a struct that begins with its size. Fields that an older caller's struct lacks are zero.
#define ABI_SIZED_COPY(type, given)                                                \
    ({                                                                             \
        struct type known_ = {0};                                                  \
        if (given)                                                                 \
            memcpy(&known_, (given),                                               \
                   (given)->size < sizeof known_ ? (given)->size : sizeof known_); \
        known_;                                                                    \
    })

// For the length of a function, keeps the thread from being canceled while it holds our locks,
// keeps our own allocations out of heap samples, and holds the program's floating-point traps and
// flags.
#define ABI_SCOPE __attribute__((cleanup(abi_leave), unused)) struct abi_scope scope_ = abi_enter()

struct abi_scope {
    int cancellation;
    struct floating floating;
};

static inline struct abi_scope abi_enter(void)
{
    struct abi_scope scope;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &scope.cancellation);
    capture_heap_enter();
    scope.floating = floating_hold();
    return scope;
}

static inline void abi_leave(const struct abi_scope *scope)
{
    floating_release(scope->floating);
    capture_heap_leave();
    pthread_setcancelstate(scope->cancellation, NULL);
}

static inline int abi_set_error(struct kiln_error *error, const struct err *e)
{
    if (error)
        memcpy(error->message, e->message, sizeof error->message);
    return -1;
}
