#include <poll.h>
#include <pthread.h>
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

// A line of at most LINE_MOST bytes goes into a pipe as a whole or not at all.
enum { LINE_MOST = 4096, VALUE_MOST = 1000 };
// So many lines may come at once, and one each PERIOD: who causes lines must not fill the disk.
enum { BURST = 1000, PERIOD = 20000000 };

static bool is_plain_log_value(const char *text)
{
    size_t n = 0;
    while ((unsigned char)text[n] > ' ' && !strchr("\"=\x7f", text[n]))
        n++;
    return n && n <= VALUE_MOST && !text[n];
}

static void put_value(struct out *out, const char *text)
{
    if (is_plain_log_value(text)) {
        out_text(out, text);
        return;
    }
    out_char(out, '"');
    for (size_t i = 0; text[i] && i < VALUE_MOST; i++) {
        if (text[i] == '"' || text[i] == '\\')
            out_char(out, '\\');
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            out_printf(out, "\\x%02x", (unsigned char)text[i]);
        else
            out_char(out, text[i]);
    }
    out_char(out, '"');
}

static struct {
    pthread_mutex_t lock;
    int64_t next; // when a line may come, after BURST of them
    uint64_t lost;
} sink = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool takes_line(void)
{
    int64_t now = budget_now(), earliest = now - (int64_t)BURST * PERIOD;
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    sink.next = sink.next < earliest ? earliest : sink.next;
    // Nobody waits for the reader of a pipe that is full.
    if (sink.next > now || poll(&p, 1, 0) != 1 || !(p.revents & POLLOUT))
        return false;
    sink.next += PERIOD;
    return true;
}

static void write_line(struct out *line)
{
    pthread_mutex_lock(&sink.lock);
    bool takes = !line->error && takes_line();
    if (takes && sink.lost) {
        char text[64];
        line->n--;
        snprintf(text, sizeof text, " lost_lines=%llu\n", (unsigned long long)sink.lost);
        out_text(line, text);
    }
    // One write, so that lines of several threads do not mix.
    if (takes && !line->error && write(STDERR_FILENO, line->p, line->n) > 0)
        sink.lost = 0;
    else
        sink.lost++;
    pthread_mutex_unlock(&sink.lock);
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
    out_init_memory(&out, LINE_MOST);
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
    write_line(&out);
    out_fini(&out);
}
