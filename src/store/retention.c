#include "store/retention.h"

#include <stdio.h>

static const int64_t DAY = INT64_C(86400) * 1000000000;

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void retention_init(struct retention *r, const struct store_options *o, int64_t newest)
{
    *r = (struct retention){.reference = earlier(o->clock(), newest), .uptime = o->uptime()};
}

static void note_suspension(const struct store_options *o, int64_t ahead)
{
    char text[300];
    snprintf(text, sizeof text,
             "the newest profiles are %.1f days ahead of the time that has passed: retention by age "
             "is suspended for a day; if the clock is wrong, set it right",
             (double)ahead / (double)DAY);
    o->note(o->note_ctx, text);
}

int64_t retention_cutoff(struct retention *r, const struct store_options *o, int64_t newest)
{
    int64_t uptime = o->uptime(), passed = uptime - r->uptime;
    int64_t target = earlier(o->clock(), newest);
    r->uptime = uptime;
    if (newest == INT64_MIN)
        return INT64_MIN;
    if (r->reference == INT64_MIN)
        r->reference = target;
    // Time passes for data as well, while it is not believed.
    r->reference += passed > 0 ? passed : 0;
    if (target <= r->reference + DAY) {
        r->reference = target;
        r->suspended = 0;
    } else if (!r->suspended) {
        r->suspended = uptime;
        note_suspension(o, target - r->reference);
    } else if (uptime - r->suspended >= DAY) {
        r->reference = target;
        r->suspended = 0;
    }
    return o->keep_nanos > 0 ? r->reference - o->keep_nanos : INT64_MIN;
}
