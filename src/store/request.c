#include "store/request.h"

#include <stdlib.h>

// Estimates the memory of a profile, including what its decoder still holds. Parts of one profile
// share its tables; the last part accounts for them, because the tables are freed with it.
static size_t estimate_memory(const struct model_profile *p, const struct model_profile *next)
{
    size_t n = 1024 + p->n_samples * (24 + 8 * (size_t)p->n_types);
    if (!next || next->strings != p->strings || next->locations != p->locations)
        n += (size_t)p->n_locations * 192 + (size_t)p->n_functions * 128 + p->strings->n * 160;
    for (size_t i = 0; i < p->n_samples; i++)
        n += 6 * (size_t)p->stack_len[i];
    return n;
}

// A batch around midnight has two days; more than that is split.
enum { FEW_DAYS = 2 };

struct days {
    int64_t numbers[STORE_PUT_DAYS];
    size_t n;
};

static int find_days(const struct store_put *puts, size_t n, struct days *days, struct err *e)
{
    days->n = 0;
    for (size_t i = 0; i < n; i++) {
        size_t at = 0;
        while (at < days->n && days->numbers[at] != day_of(puts[i].time))
            at++;
        if (at == STORE_PUT_DAYS) {
            err_set(e, "the request has profiles of more than %d days; limit %d", STORE_PUT_DAYS,
                    STORE_PUT_DAYS);
            return STORE_BAD_INPUT;
        }
        if (at == days->n)
            days->numbers[days->n++] = day_of(puts[i].time);
    }
    return 0;
}

// Shared by all parts.
struct parts {
    store_done_fn *done;
    void *ctx;
    size_t left; // parts that are not complete
    int code;    // of the first part that failed
    struct err error;
    size_t n;
    struct store_put puts[]; // sorted by day
};

// The committer completes parts one after another, so no lock is needed.
static void part_done(void *ctx, int code, const struct err *e)
{
    struct parts *w = ctx;
    if (code && !w->code) {
        w->code = code;
        w->error = *e;
    }
    if (--w->left)
        return;
    w->done(w->ctx, w->code, &w->error);
    free(w);
}

// end: end of the caller's puts, which may extend beyond this request.
static struct store_request *new_request(const struct store_put *puts, size_t n,
                                         const struct store_put *end, store_done_fn *done,
                                         void *ctx)
{
    struct store_request *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    *r = (struct store_request){.puts = puts,
                                .n = n,
                                .done = done,
                                .ctx = ctx,
                                .first_day = INT64_MAX,
                                .last_day = INT64_MIN};
    for (const struct store_put *put = puts; put < puts + n; put++) {
        int64_t day = day_of(put->time);
        r->first_day = day < r->first_day ? day : r->first_day;
        r->last_day = day > r->last_day ? day : r->last_day;
        r->bytes += estimate_memory(put->profile, put + 1 < end ? put[1].profile : NULL);
    }
    return r;
}

static void free_requests(struct store_request *first)
{
    for (struct store_request *next; first; first = next) {
        next = first->next;
        free(first);
    }
}

// Appends requests for the puts of one day to a list. Returns false if there is no memory.
static bool add_parts(struct parts *w, const struct store_put *puts, size_t n,
                      struct store_request ***last)
{
    for (size_t at = 0; at < n; at += PART_PUTS) {
        size_t some = n - at < PART_PUTS ? n - at : PART_PUTS;
        struct store_request *r = new_request(puts + at, some, w->puts + w->n, part_done, w);
        if (!r)
            return false;
        r->is_part = true;
        **last = r;
        *last = &r->next;
        w->left++;
    }
    return true;
}

// Returns a list of requests, or NULL if there is no memory.
static struct store_request *new_parts(const struct store_put *puts, size_t n,
                                       const struct days *days, store_done_fn *done, void *ctx)
{
    struct parts *w = calloc(1, sizeof *w + n * sizeof *puts);
    struct store_request *first = NULL, **last = &first;
    if (!w)
        return NULL;
    w->done = done;
    w->ctx = ctx;
    size_t ends[STORE_PUT_DAYS]; // of each day
    for (size_t i = 0; i < days->n; i++) {
        for (size_t j = 0; j < n; j++)
            if (day_of(puts[j].time) == days->numbers[i])
                w->puts[w->n++] = puts[j];
        ends[i] = w->n;
    }
    for (size_t i = 0, begin = 0; i < days->n; begin = ends[i++])
        if (!add_parts(w, w->puts + begin, ends[i] - begin, &last)) {
            free_requests(first);
            free(w);
            return NULL;
        }
    return first;
}

int request_new(const struct store_put *puts, size_t n, store_done_fn *done, void *ctx,
                struct store_request **first, struct err *e)
{
    struct days days;
    int code = find_days(puts, n, &days, e);
    if (code)
        return code;
    *first = days.n > FEW_DAYS || n > PART_PUTS ? new_parts(puts, n, &days, done, ctx)
                                                : new_request(puts, n, puts + n, done, ctx);
    if (*first)
        return 0;
    err_set(e, "no memory for another profile");
    return STORE_BUSY;
}

void request_free(struct store_request *first)
{
    if (first->is_part)
        free(first->ctx);
    free_requests(first);
}
