// Interposes mlockall, so that our memory does not use up what the program may lock.
#include <sys/mman.h>

#include "base/attributes.h"
#include "base/pages.h"
#include "process/libc.h"

EXPORT int mlockall(int flags)
{
    int result = LIBC(mlockall)(flags);
    if (result == 0)
        pages_future_is_locked(flags & MCL_FUTURE);
    return result;
}

EXPORT int munlockall(void)
{
    int result = LIBC(munlockall)();
    if (result == 0)
        pages_future_is_locked(false);
    return result;
}
