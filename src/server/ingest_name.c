#include "server/ingest_name.h"

#include <time.h>

static const int64_t EARLIEST = 1000000; // 0 is no time

static bool is_allowed(char c, const char *more)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr(more, c));
}

static int check_name_part(struct str s, const char *more, const char *what, struct err *e)
{
    if (!s.n)
        return err_set(e, "name: %s is empty", what);
    for (size_t i = 0; i < s.n; i++)
        if (!is_allowed(s.p[i], more))
            return err_set(
                e, "name: %s '%.*s': byte %zu is not allowed; expected letters, digits and %s",
                what, s.n < 60 ? (int)s.n : 60, s.p, i + 1, more);
    return 0;
}

int ingest_name_parse(struct str text, struct arena *arena, struct ingest_name *name, struct err *e)
{
    size_t at = 0, cap = 0;
    *name = (struct ingest_name){0};
    while (at < text.n && text.p[at] != '{')
        at++;
    name->app = str_trim(str_from_to(text, 0, at));
    if (check_name_part(name->app, "_./-", "the application's name", e))
        return -1;
    for (at++; at < text.n && text.p[at] != '}';) {
        size_t key = at;
        while (at < text.n && text.p[at] != '=' && text.p[at] != '}')
            at++;
        if (at == text.n || text.p[at] == '}')
            break;
        struct str label = str_trim(str_from_to(text, key, at));
        size_t value = ++at;
        while (at < text.n && text.p[at] != ',' && text.p[at] != '}')
            at++;
        if (at == text.n)
            break; // as in Pyroscope, what does not end is not there
        if (check_name_part(label, "_.", "a label", e))
            return -1;
        struct str content = str_trim(str_from_to(text, value, at));
        at += text.p[at] == ',';
        size_t i = 0;
        while (i < name->n && !str_eq(name->labels[i].name, label))
            i++;
        if (i == name->n) {
            name->labels = arena_push(arena, name->labels, name->n, &cap, sizeof *name->labels);
            name->n++;
        }
        name->labels[i] = (struct store_label){label, content};
    }
    return 0;
}

static int64_t unit_seconds(struct str unit)
{
    static const struct {
        const char *prefix;
        int64_t seconds;
    } units[] = {
        {"s", 1},    {"mon", 2592000}, {"M", 2592000}, {"min", 60},     {"m", 60},
        {"h", 3600}, {"d", 86400},     {"w", 604800},  {"y", 31536000},
    };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (str_starts(unit, str_from(units[i].prefix)))
            return units[i].seconds;
    return 0;
}

static int64_t offset_seconds(const char *p, const char *end)
{
    int64_t sign = 1, total = 0;
    if (p < end && (*p == '-' || *p == '+'))
        sign = *p++ == '-' ? -1 : 1;
    while (p < end) {
        int64_t n = 0;
        for (; p < end && *p >= '0' && *p <= '9'; p++)
            n = n < 100000000 ? n * 10 + (*p - '0') : n;
        const char *unit = p;
        while (p < end && (*p < '0' || *p > '9'))
            p++;
        total += sign * n * unit_seconds((struct str){unit, (size_t)(p - unit)});
    }
    return total;
}

// A day as YYYYMMDD, or seconds, milliseconds, microseconds or nanoseconds by their number of
// digits.
static bool from_digits(struct str digits, int64_t *time)
{
    int64_t v;
    if (!str_to_i64(digits, &v))
        return false;
    if (digits.n == 8) {
        struct tm day = {.tm_year = (int)(v / 10000) - 1900,
                         .tm_mon = (int)(v / 100 % 100) - 1,
                         .tm_mday = (int)(v % 100)};
        if (day.tm_year > 0 && day.tm_mon >= 0 && day.tm_mon < 12 && day.tm_mday >= 1 &&
            day.tm_mday <= 31)
            return !__builtin_mul_overflow((int64_t)timegm(&day), 1000000000, time);
    }
    int64_t scale = digits.n == 13   ? 1000000
                    : digits.n == 16 ? 1000
                    : digits.n == 19 ? 1
                                     : 1000000000;
    return !__builtin_mul_overflow(v, scale, time);
}

bool ingest_time(struct str text, int64_t now, int64_t *time)
{
    char clean[64];
    size_t n = 0;
    bool digits = true;
    for (size_t i = 0; i < text.n && n + 1 < sizeof clean; i++) {
        char c = text.p[i];
        if (c == '_' || c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r')
            continue;
        digits &= c >= '0' && c <= '9';
        clean[n++] = c;
    }
    if (n && digits)
        return from_digits((struct str){clean, n}, time);
    const char *sign = memchr(clean, '+', n);
    if (!sign)
        sign = memchr(clean, '-', n);
    int64_t seconds = sign ? offset_seconds(sign, clean + n) : 0, nanos;
    bool overflow = __builtin_mul_overflow(seconds, 1000000000, &nanos) ||
                    __builtin_add_overflow(now, nanos, time);
    if (seconds < 0 && (overflow || *time < EARLIEST)) {
        *time = EARLIEST;
        return true;
    }
    return !overflow;
}

const struct ingest_type *ingest_type(struct str *app)
{
    static const struct {
        const char *suffix;
        struct ingest_type type;
    } types[] = {
        {"cpu", {"process_cpu", "cpu", "nanoseconds", true}},
        {"wall", {"wall", "wall", "nanoseconds", true}},
        {"itimer", {"process_cpu", "cpu", "nanoseconds", true}},
        {"seconds", {"wall", "wall", "nanoseconds", true}},
        {"milliseconds", {"wall", "wall", "nanoseconds", true}},
        {"microseconds", {"wall", "wall", "nanoseconds", true}},
        {"nanoseconds", {"wall", "wall", "nanoseconds", true}},
        {"inuse_objects", {"memory", "inuse_objects", "count", false}},
        {"inuse_space", {"memory", "inuse_space", "bytes", false}},
        {"alloc_objects", {"memory", "alloc_objects", "count", false}},
        {"alloc_space", {"memory", "alloc_space", "bytes", false}},
        {"goroutines", {"goroutine", "goroutines", "count", false}},
        {"mutex_count", {"mutex", "contentions", "count", false}},
        {"mutex_duration", {"mutex", "delay", "nanoseconds", false}},
        {"block_count", {"block", "contentions", "count", false}},
        {"block_duration", {"block", "delay", "nanoseconds", false}},
        {"lock_count", {"block", "contentions", "count", false}},
        {"lock_duration", {"block", "delay", "nanoseconds", false}},
        {"alloc_in_new_tlab_objects", {"memory", "alloc_in_new_tlab_objects", "count", false}},
        {"alloc_in_new_tlab_bytes", {"memory", "alloc_in_new_tlab_bytes", "bytes", false}},
        {"alloc_outside_tlab_objects", {"memory", "alloc_outside_tlab_objects", "count", false}},
        {"alloc_outside_tlab_bytes", {"memory", "alloc_outside_tlab_bytes", "bytes", false}},
        {"live", {"memory", "live", "count", false}},
        {"exceptions", {"exceptions", "samples", "count", false}},
        {"bytes", {"memory", "samples", "bytes", false}},
    };
    size_t dot = app->n;
    while (dot > 0 && app->p[dot - 1] != '.')
        dot--;
    if (dot == 0)
        return &types[0].type;
    struct str suffix = str_from_to(*app, dot, app->n);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (str_eq(suffix, str_from(types[i].suffix))) {
            app->n = dot - 1;
            return &types[i].type;
        }
    return NULL;
}
