// The interface of a storage driver. store.c queues puts, groups them into batches and hands each
// batch to the driver; it forwards every other call. Arguments and results are those of the
// function of the same name in store/store.h.
//
// Threads: commit and maintain are each called by a single thread. Any thread may call the other
// functions at any time.
#pragma once

#include "store/store.h"

#define HOUR_NANOS (INT64_C(3600) * 1000000000)
#define DAY_NANOS (24 * HOUR_NANOS)

// Days are UTC days, counted from 1970-01-01.
static inline int64_t day_of(int64_t time)
{
    return time / DAY_NANOS;
}

// A request code that only commit sets: a lock is briefly held elsewhere. The request had no
// effect; the queue submits it again soon.
enum { STORE_LATER = 1 };

// Puts that succeed or fail together: all puts of one caller, or one part of them.
struct store_request {
    const struct store_put *puts;
    size_t n;
    store_done_fn *done;
    void *ctx;
    size_t bytes;
    bool is_part;                // one part of a caller's puts; see store/request.h
    int64_t first_day, last_day; // of the puts, which have no other days
    struct store_request *next;
    struct waiting_tenant *tenant; // the tenant's entry in the queue
    int64_t later;                 // monotonic time of the first STORE_LATER; 0: never returned
    // Set by commit.
    int code;
    struct err error;
    uint64_t profiles, samples, repeated;
};

// Counts a day missing from the answer, and adds a warning for the caller.
void store_warn(struct store_answer *answer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

struct store_driver {
    // The store is about to close: maintain must return as soon as it can. May be NULL.
    void (*stop)(void *driver);
    void (*close)(void *driver);
    // On return, each request is durable (code 0), has failed (code and error), or has the code
    // STORE_LATER.
    void (*commit)(void *driver, struct store_request **requests, size_t n);
    int (*series)(void *driver, const struct store_select *select, struct arena *arena,
                  struct store_series **series, size_t *n, struct store_answer *answer,
                  struct err *e);
    int (*merge)(void *driver, const struct store_select *select, struct arena *arena,
                 struct store_stacks **stacks, struct store_answer *answer, struct err *e);
    int (*lines)(void *driver, const struct store_select *select, int64_t step, struct arena *arena,
                 struct store_line **lines, size_t *n, struct store_answer *answer, struct err *e);
    int (*stats)(void *driver, struct str tenant, struct budget *budget, struct store_stats *stats,
                 struct err *e);
    void (*counters)(void *driver, struct store_counters *counters); // adds its own counters
    int (*tenants)(void *driver, struct arena *arena, struct str **tenants, size_t *n,
                   struct err *e);
    int (*maintain)(void *driver, bool all, struct err *e);
    int64_t (*time)(const void *driver);
    int (*delete_service)(void *driver, struct str tenant, struct str service,
                          struct budget *budget, uint64_t *n, struct err *e);
    int (*backup)(void *driver, const char *to, struct err *e);
    int (*check)(void *driver, void (*found)(void *ctx, const char *text), void *ctx,
                 struct err *e);
    int (*each)(void *driver, store_each_fn *give, void *ctx, struct err *e);
    int (*unnamed)(void *driver, struct str tenant, struct str build_id, int64_t start, int64_t end,
                   struct arena *arena, struct store_address **addresses, size_t *n, struct err *e);
    int (*name)(void *driver, struct str tenant, const struct store_name *names, size_t n,
                struct err *e);
    // NULL: the store replaces the names with empty ones.
    int (*forget_names)(void *driver, struct str tenant, struct str build_id, struct err *e);
};

// The default driver: a directory of SQLite databases. The caller has resolved all defaults in
// options; the driver copies them.
int store_sqlite_open(const char *directory, const struct store_options *options,
                      const struct store_driver **driver, void **state, struct err *e);
// clickhouse://...: profiles as rows in ClickHouse. Any number of servers may share one database.
int store_clickhouse_open(const char *url, const struct store_options *options,
                          const struct store_driver **driver, void **state, struct err *e);
