// Which days are too old to keep. Age is measured from the newest stored data or from the wall
// clock, whichever is earlier: a clock that is ahead by more than the retention deletes nothing
// while profiles keep coming with the right time.
//
// Profiles may carry the time of the same wrong clock. So a clock is not believed that is more than
// a day ahead of the newest data when the store is opened, or that is set ahead by more than a day
// later. Retention by age then goes on with the time before, for a day. An operator can set the
// clock right meanwhile; after that day the clock is believed.
#pragma once

#include <stdatomic.h>

#include "store/store.h"

struct retention {
    _Atomic int64_t offset; // of the time that is believed, from uptime
    int64_t suspended;      // uptime since when the clock is not believed; 0: it is
};

// newest: the end of the newest stored day when the store is opened; INT64_MIN: no data.
void retention_init(struct retention *r, const struct store_options *o, int64_t newest);
// Days that end before the result are too old; INT64_MIN: no day is. newest: as above, now. Called
// by one thread.
int64_t retention_cutoff(struct retention *r, const struct store_options *o, int64_t newest);
// The wall clock, or an earlier time while that is not believed. Any thread.
int64_t retention_time(const struct retention *r, const struct store_options *o);
