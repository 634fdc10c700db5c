// Between the files of the C interface.
#pragma once

#include <kiln/kiln.h>

#include <pthread.h>
#include <string.h>

#include "base/attributes.h"
#include "base/err.h"
#include "capture/heap_capture.h"

// A copy of a struct that begins with its size, as this library knows it: what an older caller
// does not have is zero.
#define KNOWN(type, given)                                                         \
    ({                                                                             \
        struct type known_ = {0};                                                  \
        if (given)                                                                 \
            memcpy(&known_, (given),                                               \
                   (given)->size < sizeof known_ ? (given)->size : sizeof known_); \
        known_;                                                                    \
    })

// A thread that is cancelled in here would take locks with it. What is allocated is ours.
#define OURS __attribute__((cleanup(abi_leave))) int cancellation_ = abi_enter()

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

static inline int tell(struct kiln_error *error, const struct err *e)
{
    if (error)
        memcpy(error->message, e->message, sizeof error->message);
    return -1;
}
