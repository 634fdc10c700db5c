// The driver that keeps a directory of SQLite databases:
//     DIRECTORY/lock                          locked while a process has the store open
//     DIRECTORY/tenants/TENANT/2026-08-01.db  one per tenant and UTC day
//     DIRECTORY/tenants/TENANT/names.db       late names
//
// Locks and threads: only the holder of lite.write uses a struct day, which is the committer or a
// thread that drops days. Other writers of a day (closing hours, deleting services, migrating) have
// their own connections. The committer does not wait for their transactions: it retries requests
// for a day that is locked or must be migrated. Readers have their own connections and symbols.
// They wait neither for writers nor for each other, except for a reader that is loading the symbols
// they need.
//
// A service within a day is the unit of failure: if its symbols or one of its hours are unreadable
// or too large, the other services of the day are still read and written.
#pragma once

#include <pthread.h>

#include "store/block.h"
#include "store/db.h"
#include "store/driver.h"
#include "store/exact.h"
#include "store/id.h"
#include "store/labels.h"
#include "store/retention.h"

enum level { LEVEL_RAW = 1, LEVEL_FIVE_MINUTES = 2, LEVEL_HOUR = 3 };
#define FIVE_MINUTES_NANOS (INT64_C(300) * 1000000000)

extern const struct db_format DAY_FORMAT; // sqlite_format.c

// Symbols that a writer appends to.
struct writer_symbols {
    struct day *day;
    int64_t service;
    struct symbols *symbols; // NULL: unavailable; error has the reason
    int code;                // if symbols is NULL: STORE_BUSY or STORE_CORRUPT
    char *error;
    size_t size; // of symbols, as of the last day_measure
    uint64_t used;
    struct writer_symbols *next;          // of the day, in the same hash slot
    struct writer_symbols *older, *newer; // of all days, ordered by used
};
enum { SERVICE_PLACES = 256 };

// A recently used series: its lookup key and the result.
struct known_series {
    char *key;
    size_t n;
    int64_t service, series;
    int64_t deletions; // see seen_deletions
};
enum { KNOWN_SERIES = 256 };

struct day {
    struct day *next;
    int64_t number; // days since 1970
    uint64_t used;
    int64_t used_at; // monotonic clock
    bool in_transaction, in_request, failed;
    bool made_rows; // this request has added services, kinds or series
    bool has_pages; // its connection holds cached pages of a transaction
    bool has_old_ids;
    char tenant[151];
    struct db db;
    struct id key; // for its hashes
    int code;      // why it failed
    struct err error;
    struct writer_symbols *symbols[SERVICE_PLACES]; // hashed by service
    struct known_series known[KNOWN_SERIES];        // a direct-mapped cache
};

// A day that another connection wants to lock: the committer leaves it alone.
struct claim {
    struct str tenant;
    int64_t number;
    struct claim *next;
};

// The thread that migrates days for the committer, one at a time.
struct migrator {
    pthread_t thread;
    bool started;
    // The fields below belong to the thread while it runs, then to the committer.
    _Atomic bool running;
    char tenant[151];
    int64_t number;
    int code; // result of the last migration, with error, and the time of a failure (budget_now)
    int64_t failed;
    struct err error;
};

struct reader {
    char tenant[151];
    int64_t number;
    struct db db;
    uint64_t epoch, used;
    struct budget *budget; // cancels statements and reading symbols; NULL: no limit
    size_t charged;        // bytes of the symbols that the reader uses, charged to budget
    struct reader *next;
};

// One version of the symbols of a service and day, shared by readers. It does not change while
// anyone reads it: a reader that needs newer symbols then creates the next version.
struct reader_symbols {
    char tenant[151];
    int64_t number, service;
    uint64_t epoch, used;
    uint32_t users, readers; // users: readers plus threads that wait for lock
    bool stale;              // new readers take another version
    size_t size;
    pthread_mutex_t lock; // held while symbols are read from the day
    struct symbols *symbols;
    struct reader_symbols *next;
};

enum { EPOCHS = 1024 };

struct lite {
    struct store_options options;
    char *directory;
    int lock_fd;

    pthread_mutex_t write; // protects the fields up to the next blank line
    struct day *days;      // most recently used first
    size_t n_days;
    struct writer_symbols *newest, *oldest;
    size_t held; // bytes of writers' symbols
    ZSTD_CCtx *zstd;
    ZSTD_DCtx *unzstd;
    uint64_t tick, batch_tick; // batch_tick: tick at the start of the last commit
    bool all_days_seen;
    struct migrator migrator;

    pthread_mutex_t migration; // held while a day is migrated, to limit time and memory

    pthread_mutex_t care; // held while hours are closed; taken before write
    struct failure *failures;
    _Atomic bool stopping; // work that can be done later is skipped
    struct retention retention;
    _Atomic unsigned n_deleting; // running calls that delete a service

    pthread_mutex_t read; // protects the rest; never held during disk reads
    struct reader *readers;
    struct reader_symbols *symbols;
    uint64_t read_tick;
    uint64_t epochs[EPOCHS]; // of days, by a hash of tenant and number: reader_forget counts them
    uint64_t unshared_epoch; // counts down; epochs of readers without a WAL
    uint64_t days_dropped, hours_closed, close_failures;
    struct claim *claims;
    int64_t noted_day, noted_at;          // the last damaged day that was reported, and when
    size_t written_symbols, read_symbols; // bytes of writers' and readers' symbols
};

// The name of a service in a day, for messages; "?" if it is unreadable.
void lite_service_name(struct db *db, int64_t service, char name[200]);
// Whether code means that only this day is unreadable and can be left out of an answer.
bool lite_is_unreadable(int code);
// Leaves a day out of an answer; e has the reason. number: of the day.
void lite_leave_out(struct lite *lite, int code, int64_t number, struct store_answer *answer,
                    const struct err *e);

// BEGIN IMMEDIATE on a connection other than the committer's. The committer leaves the day alone
// meanwhile; under load it would otherwise almost always hold the lock.
int lite_begin(struct lite *lite, struct db *db, struct str tenant, int64_t number, struct err *e);
bool lite_is_claimed(struct lite *lite, struct str tenant, int64_t number);

void lite_note(struct lite *lite, const char *format, ...) __attribute__((format(printf, 2, 3)));

// --- days (sqlite_day.c) ---

// path has room for PATH_MAX bytes.
void day_path(const struct lite *lite, struct str tenant, int64_t number, char *path);
// Lists a tenant's days that overlap a range, in ascending order, in arena.
int day_list(const struct lite *lite, struct str tenant, int64_t start, int64_t end,
             struct arena *arena, int64_t **days, size_t *n, struct err *e);
// Returns the open day; if create, it is created if missing, otherwise *day is NULL. STORE_LATER:
// the day is locked, or a migration has been started. The caller holds lite->write.
int day_open(struct lite *lite, struct str tenant, int64_t number, bool create, struct day **day,
             struct err *e);
void day_close(struct lite *lite, struct day *day);
// Closes a failed day; a damaged one is moved aside.
void day_fail(struct lite *lite, struct day *day);
// Returns the symbols of a service, loading them if necessary. The caller holds lite->write. On
// failure, *found is NULL if the day failed, else only the service did.
int day_symbols(struct lite *lite, struct day *day, int64_t service, struct writer_symbols **found,
                struct err *e);
// Explains why new symbols of a service are rejected. Returns STORE_BUSY.
int day_refuse(struct lite *lite, struct day *day, const struct writer_symbols *w, struct err *e);
// Renames services with damaged symbols, so that new profiles start a new service. The caller holds
// lite->write, outside of a transaction.
void day_set_aside(struct lite *lite, struct day *day);
void day_drop_symbols(struct lite *lite, struct day *day);
// Call after a rollback: cached series may be gone.
void day_forget_series(struct day *day);
// Call after symbols were added.
void day_measure(struct lite *lite, struct writer_symbols *w);
// OPEN_DAYS: days that may stay open while idle. COMMIT_DAYS: a commit that writes to this many
// days takes no further request. An open day needs three descriptors; creating, opening and closing
// it takes about a dozen syncs.
enum { OPEN_DAYS = 32, COMMIT_DAYS = 32 };
size_t day_count_written(const struct lite *lite);
// Limits the memory of writers' symbols and the number of open days. In a transaction, only symbols
// without unsaved changes are freed.
void day_trim(struct lite *lite, bool in_transaction);

// --- days of older versions (sqlite_format.c) ---

// Opens a separate connection that writes to a day, migrating it if necessary. The caller must not
// hold lite->write.
int day_connect(struct lite *lite, struct str tenant, int64_t number, struct db *db, struct err *e);
// Migrates a day in a thread. Returns STORE_LATER, or the error of a recent failed attempt. The
// caller holds lite->write.
int day_migrate_later(struct lite *lite, struct str tenant, int64_t number, struct err *e);
void day_end_migration(struct lite *lite);

// --- readers (sqlite_reader.c) ---

// Returns a connection in a read transaction; *reader is NULL if there is no such day.
int reader_take(struct lite *lite, struct str tenant, int64_t number, struct reader **reader,
                struct err *e);
// Gives the reader back. code: result of the query. Returns code, or STORE_FULL if the file changed
// under a reader without a lock, so that its results are unusable.
int reader_give(struct lite *lite, struct reader *reader, int code, struct err *e);
// Returns the symbols as of the reader's transaction or later. They do not change until they are
// given back, and are charged to the reader's budget until then. One at a time.
int reader_symbols_take(struct lite *lite, struct reader *reader, int64_t service, ZSTD_DCtx *zstd,
                        struct reader_symbols **symbols, struct err *e);
void reader_symbols_give(struct lite *lite, struct reader *reader, struct reader_symbols *symbols);
// Drops connections and symbols of a day that was moved or removed, or whose services were deleted.
void reader_forget(struct lite *lite, struct str tenant, int64_t number);
// Whether the day was not forgotten since the reader was opened.
bool reader_is_current(struct lite *lite, const struct reader *reader);
void reader_forget_all(struct lite *lite);

// A series of the select, with one of its columns.
struct found {
    int64_t id, service;
    uint32_t column, k;
    struct store_series series;
    struct str type, unit, period_type, period_unit;
    int64_t period;
    struct kind_events events; // with_variance only
    uint32_t group;            // of a select with blocks
    uint64_t n;                // profiles in the range, if counted
    size_t line;               // index used by the code that builds lines
};
// Sorted by service, then id. May jump out of arena.
int reader_find(struct reader *reader, const struct store_select *select, struct arena *arena,
                struct found **found, size_t *n, struct err *e);
// Finds an id among the n series of one service; NULL: not selected.
struct found *reader_found(struct found *found, size_t n, int64_t id);

// --- blocks and fresh profiles (sqlite_block.c) ---

// Sets e. Returns STORE_CORRUPT, or STORE_BUSY if r lacked memory. hour -1: no hour.
int reader_damaged(const struct reader *reader, const struct block_reader *r, const char *what,
                   int64_t hour, struct err *e);
// Binds parameters 1 to 3: the service, the first and the last hour.
void reader_bind_range(sqlite3_stmt *q, int64_t service, const struct store_select *select);
// Sets a bit for each level that has a block, for each hour of the day.
int reader_levels(struct reader *reader, int64_t service, const struct store_select *select,
                  unsigned levels[24], struct err *e);

struct block_at {
    int64_t service, hour;
    enum level level;
};
// Returns a statement with points and head of a block; the caller resets it. NULL: no such block,
// or an error in *code.
sqlite3_stmt *reader_block(struct reader *reader, struct block_at at, int *code, struct err *e);

// The body of a block, which is large: read only if the head does not suffice, and at once if it is
// small. The user sets the fields up to r; the rest starts zeroed.
struct block_body {
    struct reader *reader;
    struct block_reader *r;
    struct block_at at;
    bool whole;
    struct str bytes;   // if read at once
    sqlite3_blob *blob; // otherwise
    uint8_t *part;
    size_t cap_part;
};
// first: index of the first row of the part.
typedef int body_part_fn(void *ctx, const struct parts *part, size_t first, struct err *e);
// Calls take for each part of a block with n_rows rows, as listed in its head. May jump out of r's
// arena or return early on an error; call body_end in any case.
int body_each_part(struct block_body *b, struct block_at at, struct str head, size_t n_rows,
                   body_part_fn *take, void *ctx, struct err *e);
// Returns the bytes of a part, valid until the next statement of the reader or use of r. May jump
// out of r's arena.
int body_part(struct block_body *b, const struct parts *part, struct str *bytes, struct err *e);
int body_damaged(const struct block_body *b, const char *what, struct err *e);
void body_end(struct block_body *b);

// Iterates over the profiles of open hours:
//     for (fresh_open(&f, ...); fresh_next(&f);)
// then fresh_end. Strings are valid until the next fresh_next.
struct fresh {
    struct reader *reader;
    sqlite3_stmt *q;
    bool bodies;
    int rc;
    int64_t series, time, duration;
    uint64_t k;
    struct unpack totals;
    struct str body; // a segment of one profile, if requested
};
int fresh_open(struct fresh *f, struct reader *reader, int64_t service,
               const struct store_select *select, bool bodies, struct err *e);
bool fresh_next(struct fresh *f);
// Returns false if it is damaged.
bool fresh_total(const struct fresh *f, uint32_t column, int64_t *total);
int fresh_end(struct fresh *f, struct err *e);

// --- stacks of a filter over time (sqlite_pick.c) ---

// A step of a series; the same step may occur several times.
struct picked_cell {
    struct found *found;
    struct exact_point point;
};

struct picked_series;
struct pick_row;
// The user sets the fields up to names, whose handle may be NULL; the rest starts zeroed.
struct picker {
    struct lite *lite;
    const struct store_select *select; // with a filter
    int64_t step;
    struct arena *arena;
    struct block_reader *r;
    struct db names;
    // Results of picker_service.
    struct picked_cell *cells;
    size_t n_cells, cap_cells;
    // Of the current service.
    struct reader *reader;
    struct reader_symbols *symbols;
    struct found *found;
    size_t n_found;
    uint32_t n_nodes;
    const uint8_t *picks; // by node; NULL: none
    struct picked_series *series;
    // Of the current block.
    struct pick_row *rows; // profiles of the hour
    struct pick_owner {
        int64_t total;
        uint32_t cell; // MATRIX_NOBODY: none
        uint32_t series;
    } * owner; // of each row of a level
    size_t n_rows, n_owner, n_nobody, cap_rows, cap_owner;
    // Of the current matrix: see matrix_runs.
    uint8_t *classes;
    uint32_t *run, *run_cell;
    __int128 *sums[3];
    size_t cap_classes, cap_run, cap_run_cell, cap_sums[3];
    struct block_body body;
};
// May jump out of its arena. Call picker_release after a jump and before the reader is given back.
int picker_service(struct picker *p, struct reader *reader, struct found *found, size_t n_found,
                   struct err *e);
void picker_release(struct picker *p);

// --- hashes and ids of puts (sqlite_seen.c) ---

// Reads the key of a day's hashes. has_old_ids: the day was migrated from version 2 and has ids of
// that version.
int seen_key(struct db *db, struct id *key, bool *has_old_ids, struct err *e);
struct id seen_series_hash(struct id key, int64_t kind, struct str labels);
// Returns the number of deletions of a service. It is part of the hash of put ids, so that ids from
// before a deletion no longer match.
int seen_deletions(struct day *day, struct str service, int64_t *deletions, struct err *e);
// Stores the id of a put. repeated: it existed. labels: packed.
int seen_add(struct lite *lite, struct day *day, const struct store_put *put, struct str labels,
             int64_t deletions, bool *repeated, struct err *e);
// Call in the transaction that deletes the service.
int seen_forget_service(struct db *db, struct str service, struct err *e);
// Deletes ids that arrived before an hour.
void seen_forget_before(struct db *db, int64_t hour);

// --- driver functions ---

void sqlite_commit(void *driver, struct store_request **requests, size_t n);
int sqlite_series(void *driver, const struct store_select *select, struct arena *arena,
                  struct store_series **series, size_t *n, struct store_answer *answer,
                  struct err *e);
int sqlite_merge(void *driver, const struct store_select *select, struct arena *arena,
                 struct store_stacks **stacks, struct store_answer *answer, struct err *e);
int sqlite_lines(void *driver, const struct store_select *select, int64_t step, struct arena *arena,
                 struct store_line **lines, size_t *n, struct store_answer *answer, struct err *e);
int sqlite_stats(void *driver, struct str tenant, struct budget *budget, struct store_stats *stats,
                 struct err *e);
int sqlite_tenants(void *driver, struct arena *arena, struct str **tenants, size_t *n,
                   struct err *e);
int sqlite_maintain(void *driver, bool all, struct err *e);
int64_t sqlite_time(const void *driver);
// Call when the store is opened: age counts from the newest day.
int sqlite_begin_retention(struct lite *lite, struct err *e);
// Closes one hour of one service. over: the day has no more hours to come. db: a connection to the
// day. The caller holds lite->care. Returns 1 if the day changed in the meantime; then nothing was
// written.
int sqlite_close_hour(struct lite *lite, struct db *db, struct str tenant, int64_t number,
                      int64_t service, int64_t hour, bool over, struct err *e);

// --- the hours of a day (sqlite_hours.c) ---

// Closes all hours that can be closed. A failure is reported, counted and retried later; the other
// hours are still closed. Returns the first failure. The caller holds lite->care.
int hours_close(struct lite *lite, struct str tenant, int64_t number, bool all, struct err *e);
// Whether an hour of the day has failed and is due for a retry. The caller holds lite->care.
bool hours_are_due(const struct lite *lite, struct str tenant, int64_t number);
void hours_fini(struct lite *lite);
// Returns unused pages to the file system, in steps, so that commits run in between. over: no more
// data is expected.
void hours_tidy(struct lite *lite, struct db *db, bool over);

// --- deleting services (sqlite_delete.c) ---

// A service that is being deleted has a blob as its name. Blobs sort after all texts; readers skip
// them.
#define LIVE_SERVICE "name < x''"
#define DEAD_SERVICE "name >= x''"
// Finishes deletions that were interrupted by the end of the process or by a locked day. Adds the
// number of deleted profiles to *n.
int delete_rest(struct lite *lite, struct db *db, struct str tenant, int64_t number, uint64_t *n,
                struct err *e);
int sqlite_delete_service(void *driver, struct str tenant, struct str service,
                          struct budget *budget, uint64_t *n, struct err *e);
int sqlite_backup(void *driver, const char *to, struct err *e);
int sqlite_check(void *driver, void (*found)(void *ctx, const char *text), void *ctx,
                 struct err *e);
int sqlite_each(void *driver, store_each_fn *give, void *ctx, struct err *e);
int sqlite_unnamed(void *driver, struct str tenant, struct str build_id, int64_t start, int64_t end,
                   struct arena *arena, struct store_address **addresses, size_t *n, struct err *e);
int sqlite_name(void *driver, struct str tenant, const struct store_name *names, size_t n,
                struct err *e);
int sqlite_forget_names(void *driver, struct str tenant, struct str build_id, struct err *e);

// --- late names (sqlite_names.c) ---

// Opens the tenant's names.db; db.handle is NULL if there is none.
int names_open(struct lite *lite, struct str tenant, bool create, struct db *db, struct err *e);
// Reads the frames of a location into arena; false: none are known. db or its handle may be NULL:
// there are no names.
bool names_of_location(struct db *db, const struct symbols *s, const struct symbols_location *l,
                       struct arena *arena, struct store_frame **frames, size_t *n);
