// The driver that keeps a directory of SQLite databases:
//     DIRECTORY/lock                          held while a process has it open
//     DIRECTORY/tenants/TENANT/2026-08-01.db  one a tenant and UTC day
//     DIRECTORY/tenants/TENANT/names.db       names that came late
//
// Whoever writes a day holds lite.write: the committer, and in steps whoever looks after the days.
// Readers have connections and symbols of their own and wait for nobody.
#pragma once

#include <pthread.h>

#include "store/block.h"
#include "store/db.h"
#include "store/driver.h"
#include "store/labels.h"

#define HOUR_NANOS (INT64_C(3600) * 1000000000)
#define DAY_NANOS (24 * HOUR_NANOS)

enum level { LEVEL_RAW = 1, LEVEL_FIVE_MINUTES = 2, LEVEL_HOUR = 3 };
#define FIVE_MINUTES_NANOS (INT64_C(300) * 1000000000)

enum { DAY_VERSION = 2 };
extern const char DAY_SCHEMA[];

// Symbols that a writer appends to; in the day's list.
struct writer_symbols {
    int64_t service;
    struct symbols *symbols;
    uint64_t used;
    struct writer_symbols *next;
};

// A series that came lately: what it is looked up by, and what was found.
struct known_series {
    char *key;
    size_t n;
    int64_t service, series;
};
enum { KNOWN_SERIES = 256 };

struct day {
    char tenant[151];
    int64_t number; // days since 1970
    struct db db;
    bool in_transaction, in_request, failed;
    int code; // why it failed
    struct err error;
    struct writer_symbols *symbols;
    uint64_t used;
    struct day *next;
    struct known_series known[KNOWN_SERIES]; // each has one place
};

struct reader {
    char tenant[151];
    int64_t number;
    struct db db;
    uint64_t epoch, used;
    struct reader *next;
};

// Symbols that readers share. Extended under the write lock of lock, read under its read lock.
struct reader_symbols {
    char tenant[151];
    int64_t number, service;
    uint64_t epoch, used;
    uint32_t users;
    size_t size;
    pthread_rwlock_t lock;
    struct symbols *symbols;
    struct reader_symbols *next;
};

struct lite {
    struct store_options options;
    char *directory;
    int lock_fd;

    pthread_mutex_t write; // everything up to the next blank line
    struct day *days;
    ZSTD_CCtx *zstd;
    ZSTD_DCtx *unzstd;
    uint64_t tick;
    bool all_days_seen;

    pthread_mutex_t read; // the rest; never held while something is read
    struct reader *readers;
    struct reader_symbols *symbols;
    uint64_t read_tick, epoch;
    uint64_t days_dropped, hours_closed;
    size_t written_symbols; // bytes that writers' symbols hold
};

void lite_note(struct lite *lite, const char *format, ...) __attribute__((format(printf, 2, 3)));

// --- days (sqlite_day.c) ---

int64_t day_of(int64_t time);
// path has room for PATH_MAX bytes.
void day_path(const struct lite *lite, struct str tenant, int64_t number, char *path);
// The numbers of the days of a tenant that overlap a range, ascending, in arena.
int day_list(const struct lite *lite, struct str tenant, int64_t start, int64_t end,
             struct arena *arena, int64_t **days, size_t *n, struct err *e);
// The open day, made if create; *day is NULL if there is none. Under lite->write.
int day_open(struct lite *lite, struct str tenant, int64_t number, bool create, struct day **day,
             struct err *e);
void day_close(struct lite *lite, struct day *day);
// Closes a day that failed; one that is damaged is moved aside.
void day_fail(struct lite *lite, struct day *day);
// The symbols of a service, read from the day if need be. Under lite->write.
int day_symbols(struct lite *lite, struct day *day, int64_t service, struct writer_symbols **found,
                struct err *e);
void day_drop_symbols(struct lite *lite, struct day *day);
// After something was taken back: series that are known may be gone.
void day_forget_series(struct day *day);
// Keeps writers' symbols and open days within bounds. Within a transaction only symbols that have
// nothing to save are given up.
void day_trim(struct lite *lite, bool in_transaction);

// --- readers (sqlite_reader.c) ---

// A connection in a read transaction; *reader is NULL if there is no such day.
int reader_take(struct lite *lite, struct str tenant, int64_t number, struct reader **reader,
                struct err *e);
void reader_give(struct lite *lite, struct reader *reader);
// Symbols as of the reader's transaction or later, read-locked until they are given back.
int reader_symbols_take(struct lite *lite, struct reader *reader, int64_t service, ZSTD_DCtx *zstd,
                        struct reader_symbols **symbols, struct err *e);
void reader_symbols_give(struct lite *lite, struct reader_symbols *symbols);
// Nothing of files that were moved or removed is used any more.
void reader_forget(struct lite *lite);

// A series of the select, with one of its columns.
struct found {
    int64_t id, service;
    uint32_t column, k;
    struct store_series series;
    struct str type, unit, period_type, period_unit;
    int64_t period;
    uint64_t n;  // profiles in the range, where somebody counted
    size_t line; // of whoever makes lines of them
};
// Sorted by service, then id. May jump out of arena.
int reader_find(struct reader *reader, const struct store_select *select, struct arena *arena,
                struct found **found, size_t *n, struct err *e);
// The one of n (of one service) with this id; NULL: it is not wanted.
struct found *reader_found(struct found *found, size_t n, int64_t id);

// Ids of puts (table seen) of a service that was deleted do not count any more: they are hashed
// with the number of its deletions, which has a row there, too.
uint64_t put_deletions_key(struct str service);
// Above every hour.
#define SEEN_DELETIONS (INT64_C(1) << 40)

// --- what the driver's functions are ---

void sqlite_commit(void *driver, struct store_request **requests, size_t n);
int sqlite_series(void *driver, const struct store_select *select, struct arena *arena,
                  struct store_series **series, size_t *n, struct store_answer *answer,
                  struct err *e);
int sqlite_merge(void *driver, const struct store_select *select, struct arena *arena,
                 struct store_stacks **stacks, struct store_answer *answer, struct err *e);
int sqlite_lines(void *driver, const struct store_select *select, int64_t step, struct arena *arena,
                 struct store_line **lines, size_t *n, struct store_answer *answer, struct err *e);
int sqlite_stats(void *driver, struct str tenant, struct store_stats *stats, struct err *e);
int sqlite_tenants(void *driver, struct arena *arena, struct str **tenants, size_t *n,
                   struct err *e);
int sqlite_maintain(void *driver, bool all, struct err *e);
// Closes one hour of one service; over: its day has no hour to come. Under lite->write.
int sqlite_close_hour(struct lite *lite, struct day *day, int64_t service, int64_t hour, bool over,
                      struct err *e);
int sqlite_delete_service(void *driver, struct str tenant, struct str service, uint64_t *n,
                          struct err *e);
int sqlite_backup(void *driver, const char *to, struct err *e);
int sqlite_check(void *driver, void (*found)(void *ctx, const char *text), void *ctx,
                 struct err *e);
int sqlite_each(void *driver, store_each_fn *give, void *ctx, struct err *e);
int sqlite_unnamed(void *driver, struct str tenant, struct str build_id, int64_t start, int64_t end,
                   struct arena *arena, struct store_address **addresses, size_t *n, struct err *e);
int sqlite_name(void *driver, struct str tenant, const struct store_name *names, size_t n,
                struct err *e);

// --- names that came late (sqlite_names.c) ---

// The tenant's names.db; db.handle is NULL if there is none.
int names_open(struct lite *lite, struct str tenant, bool create, struct db *db, struct err *e);
// The frames of an address in arena; false: none are known.
bool names_find(struct db *db, struct str build_id, uint64_t offset, struct arena *arena,
                struct store_frame **frames, size_t *n);
