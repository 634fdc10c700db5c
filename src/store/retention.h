// Which days are too old to keep. Age is measured from the newest stored data or from the wall
// clock, whichever is earlier: a clock that is ahead by more than the retention deletes nothing
// while profiles keep coming with the right time.
//
// Data may carry the time of the same wrong clock. So when the newest data is further ahead than
// time that has passed, by more than a day, retention by age is suspended for a day. An operator
// can set the clock right in that time; after it, the new time is believed.
#pragma once

#include "store/store.h"

struct retention {
    int64_t reference; // the time that age is measured from; INT64_MIN: no data yet
    int64_t uptime;    // of the last call
    int64_t suspended; // uptime when the newest data ran ahead; 0: it does not
};

// newest: the end of the newest stored day when the store is opened; INT64_MIN: no data.
void retention_init(struct retention *r, const struct store_options *o, int64_t newest);
// Days that end before the result are too old; INT64_MIN: no day is. newest: as above, now. Called
// by one thread.
int64_t retention_cutoff(struct retention *r, const struct store_options *o, int64_t newest);
