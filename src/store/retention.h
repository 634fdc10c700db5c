// Decides which days are too old to keep. Age is measured from the newest stored data or from the
// wall clock, whichever is earlier. So a clock that is ahead by more than the retention deletes
// nothing while profiles keep arriving with correct times.
//
// Profiles may carry the time of the same wrong clock. Therefore the wall clock is not trusted if
// it is more than a day ahead of the newest data when the store is opened, or if it later jumps
// ahead by more than a day. For one day, retention by age then continues with the previous time, so
// that an operator can correct the clock. After that day the clock is trusted.
#pragma once

#include <stdatomic.h>

#include "store/store.h"

struct retention {
    _Atomic int64_t offset; // trusted time minus uptime
    int64_t suspended;      // uptime when the clock lost trust; 0: it is trusted
};

// newest: end of the newest stored day when the store is opened; INT64_MIN: no data.
void retention_init(struct retention *r, const struct store_options *o, int64_t newest);
// Returns the cutoff: days that end before it are too old. INT64_MIN: no day is. newest: end of the
// newest stored day now. Called by one thread only.
int64_t retention_cutoff(struct retention *r, const struct store_options *o, int64_t newest);
// Returns the wall clock, or an earlier time while the wall clock is not trusted. Any thread.
int64_t retention_time(const struct retention *r, const struct store_options *o);
