// Shared by the files that implement the C interface.
#pragma once

#include <kiln/kiln.h>

#include <pthread.h>
#include <string.h>

#include "base/attributes.h"
#include "base/err.h"
#include "capture/heap_capture.h"

// Copies a struct that begins with its size. Fields that an older caller's struct lacks are zero.
#define ABI_SIZED_COPY(type, given)                                                \
    ({                                                                             \
        struct type known_ = {0};                                                  \
        if (given)                                                                 \
            memcpy(&known_, (given),                                               \
                   (given)->size < sizeof known_ ? (given)->size : sizeof known_); \
        known_;                                                                    \
    })

// For the length of a function, keeps the thread from being canceled while it holds our locks, and
// keeps our own allocations out of heap samples.
#define ABI_SCOPE __attribute__((cleanup(abi_leave))) int cancellation_ = abi_enter()

static inline int abi_enter(void)
{
    int had;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &had);
    capture_heap_enter();
    return had;
}

static inline void abi_leave(const int *had)
{
    capture_heap_leave();
    pthread_setcancelstate(*had, NULL);
}

static inline int abi_set_error(struct kiln_error *error, const struct err *e)
{
    if (error)
        memcpy(error->message, e->message, sizeof error->message);
    return -1;
}
