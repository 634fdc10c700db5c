// Buffered output to a sink: a file descriptor or memory. Writers need not check for errors: the
// first failure is kept and out_finish reports it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

struct out {
    char *p;
    size_t n, cap, limit;  // limit: maximum bytes of a memory sink
    int fd;                // -1: memory sink
    struct arena *arena;   // provides the memory; NULL: malloc
    struct budget *budget; // charged for malloc memory; may be NULL
    int error;             // errno of the first failure
};

// Writes to a file descriptor, which the caller keeps and closes.
void out_init_fd(struct out *out, int fd);
// Writes to memory, at most limit bytes; the result is out_result.
void out_init_memory(struct out *out, size_t limit);
// Like out_init_memory, charged to budget until out_fini. Once megabytes were written, fails with
// ECANCELED if the budget is canceled or past its deadline, so writers of large output should stop
// when out->error is set.
void out_init_budget(struct out *out, size_t limit, struct budget *budget);
// Writes to memory of the arena. out_fini is not needed.
void out_init_arena(struct out *out, struct arena *arena);
// Flushes the buffer. Returns 0, or -1 and fills e with the first failure.
int out_finish(struct out *out, struct err *e);
void out_fini(struct out *out);
// Frees the memory that a memory sink has reserved but not used.
void out_trim(struct out *out);

void out_printf(struct out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void out_u64(struct out *out, uint64_t value);
void out_i64(struct out *out, int64_t value);
// Writes s padded with spaces on the left to width columns. Columns are UTF-8 characters, as in
// Go's fmt.
void out_right(struct out *out, struct str s, size_t width);
void out_spaces(struct out *out, size_t n);

bool out_flush_slow(struct out *out, size_t need);
void out_write_slow(struct out *out, const void *data, size_t n);

static inline void out_write(struct out *out, const void *data, size_t n)
{
    if (n > out->cap - out->n) {
        out_write_slow(out, data, n);
        return;
    }
    if (n)
        memcpy(out->p + out->n, data, n);
    out->n += n;
}

// Returns the contents of a memory sink; valid until the next write.
static inline struct str out_result(const struct out *out)
{
    return (struct str){out->n ? out->p : "", out->n};
}

static inline void out_str(struct out *out, struct str s)
{
    out_write(out, s.p, s.n);
}

static inline void out_text(struct out *out, const char *text)
{
    out_write(out, text, strlen(text));
}

static inline void out_char(struct out *out, char c)
{
    if (out->n < out->cap || out_flush_slow(out, 1))
        out->p[out->n++] = c;
}
