// Where output goes: a buffer in front of a sink (a file descriptor, or memory).
// Writers never check: the first failure sticks and out_finish reports it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

struct out {
    char *p;
    size_t n, cap, limit;  // limit: the most bytes a memory sink may hold
    int fd;                // -1: memory
    struct arena *arena;   // that the memory comes from; NULL: malloc
    struct budget *budget; // charged for memory from malloc; may be NULL
    int error;             // errno of the first failure
};

// Output to a file descriptor, which stays the caller's.
void out_init_fd(struct out *out, int fd);
// Output kept in memory, at most limit bytes; out->p and out->n are the result.
void out_init_memory(struct out *out, size_t limit);
// The same, charged to budget until out_fini. Fails with ECANCELED when megabytes were written and
// the budget is canceled or past its deadline: writers of large answers end when out->error is set.
void out_init_budget(struct out *out, size_t limit, struct budget *budget);
// Output kept in arena, which then also owns it: out_fini is not needed.
void out_init_arena(struct out *out, struct arena *arena);
// Writes out what is buffered. 0, or -1 with what failed in e.
int out_finish(struct out *out, struct err *e);
void out_fini(struct out *out);
// Gives back what a memory sink has reserved and not used.
void out_trim(struct out *out);

void out_printf(struct out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void out_u64(struct out *out, uint64_t value);
void out_i64(struct out *out, int64_t value);
// width columns, padded with spaces on the left; columns are counted in UTF-8
// characters, as Go's fmt does.
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

// What a memory sink holds.
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
