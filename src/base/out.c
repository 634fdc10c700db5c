#include "base/out.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    BUFFER = 256 << 10,
    // Bytes written to budgeted memory between checks of its deadline. Shorter output, such as the
    // message that the deadline has passed, is always written.
    CHECKED = 4 << 20,
};

void out_init_fd(struct out *out, int fd)
{
    // A negative descriptor means memory.
    *out = (struct out){.fd = fd < 0 ? INT_MAX : fd};
}

void out_init_memory(struct out *out, size_t limit)
{
    *out = (struct out){.fd = -1, .limit = limit};
}

void out_init_budget(struct out *out, size_t limit, struct budget *budget)
{
    *out = (struct out){.fd = -1, .limit = limit, .budget = budget};
}

void out_init_arena(struct out *out, struct arena *arena)
{
    *out = (struct out){.fd = -1, .limit = SIZE_MAX, .arena = arena};
}

static void write_to_sink(struct out *out, const char *p, size_t n)
{
    while (n && !out->error) {
        ssize_t done = write(out->fd, p, n);
        if (done < 0) {
            if (errno != EINTR)
                out->error = errno;
            continue;
        }
        p += done;
        n -= (size_t)done;
    }
}

// Makes room for need more bytes. Returns false once output has failed.
bool out_flush_slow(struct out *out, size_t need)
{
    if (out->error)
        return false;
    if (out->fd >= 0) {
        write_to_sink(out, out->p, out->n);
        out->n = 0;
        if (out->cap >= need)
            return !out->error;
    }
    size_t cap = out->cap ? out->cap : out->fd >= 0 ? BUFFER : 4096;
    if (out->fd < 0 && (need > out->limit || out->n > out->limit - need)) {
        out->error = EFBIG;
        return false;
    }
    if (out->budget && cap >= CHECKED && budget_check(out->budget) != BUDGET_OK) {
        out->error = ECANCELED;
        return false;
    }
    while (cap < out->n + need)
        cap += out->budget && cap >= CHECKED ? CHECKED : cap;
    if (out->fd < 0 && cap > out->limit)
        cap = out->limit;
    if (out->budget && budget_take(out->budget, cap - out->cap)) {
        out->error = ENOMEM;
        return false;
    }
    char *p = out->arena ? arena_grow(out->arena, out->p, out->cap, cap) : realloc(out->p, cap);
    if (!p) {
        if (out->budget)
            budget_release(&out->budget->account, cap - out->cap);
        out->error = ENOMEM;
        return false;
    }
    out->p = p;
    out->cap = cap;
    return true;
}

void out_write_slow(struct out *out, const void *data, size_t n)
{
    if (out->fd >= 0 && n > BUFFER) {
        write_to_sink(out, out->p, out->n);
        out->n = 0;
        write_to_sink(out, data, n);
    } else if (out_flush_slow(out, n)) {
        memcpy(out->p + out->n, data, n);
        out->n += n;
    }
}

void out_printf(struct out *out, const char *format, ...)
{
    char small[512];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(small, sizeof small, format, args);
    if (n >= 0 && (size_t)n < sizeof small) {
        out_write(out, small, (size_t)n);
    } else if (n >= 0) {
        char *text = NULL;
        if (vasprintf(&text, format, again) < 0)
            out->error = ENOMEM;
        else
            out_write(out, text, (size_t)n);
        free(text);
    }
    va_end(again);
    va_end(args);
}

void out_u64(struct out *out, uint64_t value)
{
    char digits[20];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + value % 10);
    while (value /= 10);
    out_write(out, digits + at, sizeof digits - at);
}

void out_i64(struct out *out, int64_t value)
{
    if (value < 0)
        out_char(out, '-');
    out_u64(out, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void out_spaces(struct out *out, size_t n)
{
    static const char blank[] = "                                                                ";
    for (; n > sizeof blank - 1; n -= sizeof blank - 1)
        out_write(out, blank, sizeof blank - 1);
    out_write(out, blank, n);
}

void out_right(struct out *out, struct str s, size_t width)
{
    size_t columns = str_columns(s);
    if (columns < width)
        out_spaces(out, width - columns);
    out_str(out, s);
}

int out_finish(struct out *out, struct err *e)
{
    if (out->fd >= 0 && !out->error) {
        write_to_sink(out, out->p, out->n);
        out->n = 0;
    }
    if (out->error == EFBIG && out->fd < 0)
        return err_set(e, "the output is larger than %zu bytes", out->limit);
    return out->error ? err_set(e, "writing output: %s", strerror(out->error)) : 0;
}

void out_trim(struct out *out)
{
    char *p = out->n && !out->arena ? realloc(out->p, out->n) : NULL;
    if (!p)
        return;
    if (out->budget)
        budget_release(&out->budget->account, out->cap - out->n);
    out->p = p;
    out->cap = out->n;
}

void out_fini(struct out *out)
{
    if (!out->arena)
        free(out->p);
    if (out->budget)
        budget_release(&out->budget->account, out->cap);
    *out = (struct out){.fd = -1};
}
