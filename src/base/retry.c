#include "base/retry.h"

#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { DOUBLINGS_MAX = 16 };

void retry_init(struct retry *r, uint64_t interval_ms, uint64_t seed)
{
    *r = (struct retry){.interval_ms = interval_ms ? interval_ms : 1, .random = seed};
}

uint64_t retry_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) == sizeof seed)
        return seed;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)getpid() << 32 ^ (uint64_t)t.tv_nsec ^ (uint64_t)t.tv_sec << 20;
}

// SplitMix64.
uint64_t retry_random(struct retry *r, uint64_t most)
{
    uint64_t x = r->random += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    return (uint64_t)((__uint128_t)x * ((__uint128_t)most + 1) >> 64);
}

static uint64_t retry_backoff(struct retry *r, uint64_t first_ms)
{
    uint64_t longest = r->interval_ms > RETRY_LONGEST_MS ? r->interval_ms : RETRY_LONGEST_MS;
    uint64_t span = first_ms << (r->failures < DOUBLINGS_MAX ? r->failures : DOUBLINGS_MAX);
    r->failures++;
    return retry_random(r, span < longest ? span : longest);
}

// Halves the rate each time, down to half of the usual rate; retry_taken speeds up again gradually.
// A fleet that overloads a server thus settles near the rate that the server can handle.
static void retry_slow_down(struct retry *r)
{
    uint64_t half = r->interval_ms / 2;
    r->pace_ms = r->pace_ms < half ? r->interval_ms : 2 * r->pace_ms;
    if (r->pace_ms > 2 * r->interval_ms)
        r->pace_ms = 2 * r->interval_ms;
}

uint64_t retry_refused(struct retry *r, int64_t after_s)
{
    uint64_t after_ms = 0;
    if (after_s > 0)
        after_ms = 1000 * (uint64_t)(after_s < RETRY_AFTER_MAX_S ? after_s : RETRY_AFTER_MAX_S);
    retry_slow_down(r);
    return after_ms + retry_backoff(r, r->interval_ms);
}

uint64_t retry_no_answer(struct retry *r)
{
    retry_slow_down(r);
    return retry_backoff(r, RETRY_FIRST_MS);
}

uint64_t retry_taken(struct retry *r, bool more)
{
    r->failures = 0;
    if (!more)
        r->pace_ms = 0;
    if (!r->pace_ms)
        return 0;
    r->pace_ms -= r->pace_ms / 8;
    if (r->pace_ms < r->interval_ms / 2)
        r->pace_ms = r->interval_ms / 2;
    return r->pace_ms - r->pace_ms / 4 + retry_random(r, r->pace_ms / 2);
}

// --- Retry-After ---

static bool read_digits(struct str *s, size_t n, int64_t *value)
{
    *value = 0;
    if (s->n < n)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (s->p[i] < '0' || s->p[i] > '9')
            return false;
        *value = *value * 10 + (s->p[i] - '0');
    }
    *s = str_from_to(*s, n, s->n);
    return true;
}

static bool skip_prefix(struct str *s, struct str text)
{
    if (!str_starts(*s, text))
        return false;
    *s = str_from_to(*s, text.n, s->n);
    return true;
}

static bool read_month(struct str *s, int64_t *month)
{
    static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    for (*month = 0; *month < 12; ++*month)
        if (skip_prefix(s, (struct str){names + 3 * *month, 3}))
            return true;
    return false;
}

// Not timegm, which reads time zone files inside the host process. The year begins in March, so
// that the leap day comes last.
static int64_t days_since_1970(int64_t year, int64_t month, int64_t day)
{
    if (month < 2)
        year--;
    int64_t of_year = (153 * ((month + 10) % 12) + 2) / 5 + day - 1;
    int64_t era = year / 400, of_era = year % 400;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

// Sun, 06 Nov 1994 08:49:37 GMT
static bool read_date(struct str s, int64_t *time)
{
    int64_t day, month, year, hour, minute, second;
    if (s.n < 5 || s.p[3] != ',')
        return false;
    s = str_from_to(s, 4, s.n);
    if (!skip_prefix(&s, STR(" ")) || !read_digits(&s, 2, &day) || !skip_prefix(&s, STR(" ")) ||
        !read_month(&s, &month) || !skip_prefix(&s, STR(" ")) || !read_digits(&s, 4, &year) ||
        !skip_prefix(&s, STR(" ")) || !read_digits(&s, 2, &hour) || !skip_prefix(&s, STR(":")) ||
        !read_digits(&s, 2, &minute) || !skip_prefix(&s, STR(":")) ||
        !read_digits(&s, 2, &second) || !str_eq(s, STR(" GMT")))
        return false;
    if (day < 1 || day > 31 || year < 1 || hour > 23 || minute > 59 || second > 60)
        return false;
    *time = days_since_1970(year, month, day) * 86400 + hour * 3600 + minute * 60 + second;
    return true;
}

int64_t retry_after_parse(struct str value, int64_t now)
{
    int64_t seconds, time;
    bool number = value.n > 0;
    value = str_trim(value);
    for (size_t i = 0; i < value.n; i++)
        number &= value.p[i] >= '0' && value.p[i] <= '9';
    if (number && value.n) {
        if (!str_to_i64(value, &seconds)) // overflow
            seconds = RETRY_AFTER_MAX_S;
    } else if (read_date(value, &time)) {
        seconds = time > now ? time - now : 0;
    } else {
        return -1;
    }
    return seconds < RETRY_AFTER_MAX_S ? seconds : RETRY_AFTER_MAX_S;
}
