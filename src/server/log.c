#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "server/server.h"

int64_t server_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void put_value(struct out *out, const char *text)
{
    if (*text && !strpbrk(text, " \"=\n\t")) {
        out_text(out, text);
        return;
    }
    out_char(out, '"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            out_char(out, '\\');
        if ((unsigned char)*text < 0x20)
            out_printf(out, "\\x%02x", (unsigned char)*text);
        else
            out_char(out, *text);
    }
    out_char(out, '"');
}

void server_log(const char *level, const char *message, ...)
{
    struct timespec t;
    struct tm utc;
    char when[40];
    struct out out;
    clock_gettime(CLOCK_REALTIME, &t);
    gmtime_r(&t.tv_sec, &utc);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &utc);
    out_init_memory(&out, 16384);
    out_printf(&out, "ts=%s.%03ldZ level=%s msg=", when, t.tv_nsec / 1000000, level);
    put_value(&out, message);
    va_list list;
    va_start(list, message);
    for (const char *key; (key = va_arg(list, const char *));) {
        const char *value = va_arg(list, const char *);
        out_printf(&out, " %s=", key);
        put_value(&out, value ? value : "");
    }
    va_end(list);
    out_char(&out, '\n');
    // One write, so that lines of several threads do not mix.
    if (!out.error && write(STDERR_FILENO, out.p, out.n) < 0) {
        // There is nowhere left to say it.
    }
    out_fini(&out);
}
