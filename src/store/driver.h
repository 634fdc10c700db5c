// What a place to keep profiles must be able to do. store.c collects puts, waits for company and
// hands batches to the driver; everything else it passes on. Arguments and results are those of
// the functions of the same name in store/store.h.
//
// commit and maintain are called by one thread each; everything else by any thread at any time.
#pragma once

#include "store/store.h"

#define HOUR_NANOS (INT64_C(3600) * 1000000000)
#define DAY_NANOS (24 * HOUR_NANOS)

// Days are those of UTC, numbered from 1970 on.
static inline int64_t day_of(int64_t time)
{
    return time / DAY_NANOS;
}

// A code of a request, of commit only: something is locked that will not be for long. The request
// has had no effect and comes again soon.
enum { STORE_LATER = 1 };

// Puts that succeed or fail together: those of one caller, or a part of them.
struct store_request {
    const struct store_put *puts;
    size_t n;
    store_done_fn *done;
    void *ctx;
    size_t bytes;
    bool is_part;                // of what a caller put: store/request.h
    int64_t first_day, last_day; // of puts, which have no day in between
    struct store_request *next;
    struct waiting_tenant *tenant; // whose it is, for the queue
    int64_t later;                 // since when it came again and again; 0: it did not
    // Filled by commit.
    int code;
    struct err error;
    uint64_t profiles, samples, repeated;
};

// Counts what an answer does not have, and says so to whoever asked.
void store_warn(struct store_answer *answer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

struct store_driver {
    // Close comes soon: maintain returns as soon as it can. May be NULL.
    void (*stop)(void *driver);
    void (*close)(void *driver);
    // When it returns, each request is durable (code 0) or has failed, with code and error, or its
    // code is STORE_LATER.
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
    void (*counters)(void *driver, struct store_counters *counters); // adds the driver's own
    int (*tenants)(void *driver, struct arena *arena, struct str **tenants, size_t *n,
                   struct err *e);
    int (*maintain)(void *driver, bool all, struct err *e);
    int64_t (*time)(const void *driver);
    int (*delete_service)(void *driver, struct str tenant, struct str service, uint64_t *n,
                          struct err *e);
    int (*backup)(void *driver, const char *to, struct err *e);
    int (*check)(void *driver, void (*found)(void *ctx, const char *text), void *ctx,
                 struct err *e);
    int (*each)(void *driver, store_each_fn *give, void *ctx, struct err *e);
    int (*unnamed)(void *driver, struct str tenant, struct str build_id, int64_t start, int64_t end,
                   struct arena *arena, struct store_address **addresses, size_t *n, struct err *e);
    int (*name)(void *driver, struct str tenant, const struct store_name *names, size_t n,
                struct err *e);
    // NULL: names are replaced by empty ones.
    int (*forget_names)(void *driver, struct str tenant, struct str build_id, struct err *e);
};

// The default driver: a directory of SQLite databases. options are complete (no zeroes that mean
// something else) and are copied.
int store_sqlite_open(const char *directory, const struct store_options *options,
                      const struct store_driver **driver, void **state, struct err *e);
// clickhouse://...: profiles as rows of ClickHouse, any number of servers over one.
int store_clickhouse_open(const char *url, const struct store_options *options,
                          const struct store_driver **driver, void **state, struct err *e);
