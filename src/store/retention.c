#include "store/retention.h"

#include <stdio.h>

static const int64_t DAY = INT64_C(86400) * 1000000000;

void retention_init(struct retention *r, const struct store_options *o, int64_t newest)
{
    int64_t now = o->clock();
    r->offset = (newest != INT64_MIN && newest < now ? newest : now) - o->uptime();
    r->suspended = 0;
}

int64_t retention_time(const struct retention *r, const struct store_options *o)
{
    int64_t now = o->clock(), believed = r->offset + o->uptime();
    return now <= believed + DAY ? now : believed;
}

static void note_suspension(const struct store_options *o, int64_t ahead)
{
    char text[300];
    snprintf(text, sizeof text,
             "the clock is %.1f days ahead of the newest profile and of the time that has passed "
             "since: retention by age is suspended for a day; if the clock is wrong, set it right",
             (double)ahead / (double)DAY);
    o->note(o->note_ctx, text);
}

int64_t retention_cutoff(struct retention *r, const struct store_options *o, int64_t newest)
{
    int64_t now = o->clock(), uptime = o->uptime(), believed = r->offset + uptime;
    if (now <= believed + DAY || (r->suspended && uptime - r->suspended >= DAY)) {
        believed = now;
        r->offset = now - uptime;
        r->suspended = 0;
    } else if (!r->suspended) {
        r->suspended = uptime;
        if (o->keep_nanos > 0)
            note_suspension(o, now - believed);
    }
    if (newest == INT64_MIN || o->keep_nanos <= 0)
        return INT64_MIN;
    return (newest < believed ? newest : believed) - o->keep_nanos;
}
