// The driver that keeps a directory of SQLite databases:
//     DIRECTORY/lock                          held while a process has it open
//     DIRECTORY/tenants/TENANT/2026-08-01.db  one a tenant and UTC day
//     DIRECTORY/tenants/TENANT/names.db       names that came late
//
// Whoever uses a struct day holds lite.write: the committer, and who drops days. Everything else
// that writes to a day has a connection of its own: closing hours, deleting services, migrating.
// The committer does not wait for its transactions: requests of a day that is locked, or has to be
// migrated, are committed later. Readers have connections and symbols of
// their own. They do not wait for writers, nor for each other but where one loads the symbols that
// another one wants as well.
//
// A service within a day is the unit of failure: where its symbols or an hour of it cannot be read,
// or are too large, the other services of the day are served and written.
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
    struct symbols *symbols; // NULL: they cannot be had, as error says
    int code;                // then: STORE_BUSY or STORE_CORRUPT
    char *error;
    size_t size; // of symbols, when day_measure was last called
    uint64_t used;
    struct writer_symbols *next;          // of the day, with the same place
    struct writer_symbols *older, *newer; // of all, by used
};
enum { SERVICE_PLACES = 256 };

// A series that came lately: what it is looked up by, and what was found.
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
    int64_t used_at; // of the monotonic clock
    bool in_transaction, in_request, failed;
    bool made_rows; // of services, kinds or series, in this request
    bool has_pages; // in memory, of a transaction
    bool has_old_ids;
    char tenant[151];
    struct db db;
    struct id key; // of its hashes
    int code;      // why it failed
    struct err error;
    struct writer_symbols *symbols[SERVICE_PLACES]; // by their service
    struct known_series known[KNOWN_SERIES];        // each has one place
};

// A day that the committer leaves to another connection that wants to lock it.
struct claim {
    struct str tenant;
    int64_t number;
    struct claim *next;
};

// The thread that migrates days for the committer, one at a time.
struct migrator {
    pthread_t thread;
    bool started;
    _Atomic bool running; // the rest is the thread's while it runs, then the committer's
    char tenant[151];
    int64_t number;
    int code; // of the last one, with error and when it failed (budget_now)
    int64_t failed;
    struct err error;
};

struct reader {
    char tenant[151];
    int64_t number;
    struct db db;
    uint64_t epoch, used;
    struct budget *budget; // ends statements and reading symbols; NULL: nothing does
    struct reader *next;
};

// A version of the symbols of a service and day, which readers share. It does not change while
// somebody reads it: a reader that needs more, while others read it, makes the next version.
struct reader_symbols {
    char tenant[151];
    int64_t number, service;
    uint64_t epoch, used;
    uint32_t users, readers; // users: readers, and who wait for lock
    bool stale;              // nobody new takes it
    size_t size;
    pthread_mutex_t lock; // held while symbols are read from the day
    struct symbols *symbols;
    struct reader_symbols *next;
};

struct lite {
    struct store_options options;
    char *directory;
    int lock_fd;

    pthread_mutex_t write; // everything up to the next blank line
    struct day *days;      // the one that was used last is the first
    size_t n_days;
    struct writer_symbols *newest, *oldest;
    size_t held; // bytes of writers' symbols
    ZSTD_CCtx *zstd;
    ZSTD_DCtx *unzstd;
    uint64_t tick, batch_tick; // batch_tick: when the last commit began
    bool all_days_seen;
    struct migrator migrator;

    pthread_mutex_t migration; // held while a day is migrated: it takes time and memory

    pthread_mutex_t care; // one at a time closes hours; taken before write
    struct failure *failures;
    _Atomic bool stopping; // what can be done later is left
    struct retention retention;
    _Atomic unsigned n_deleting; // calls that delete services now

    pthread_mutex_t read; // the rest; never held while something is read
    struct reader *readers;
    struct reader_symbols *symbols;
    uint64_t read_tick, epoch;
    uint64_t unshared_epoch; // counts down: of readers without a log
    uint64_t days_dropped, hours_closed, close_failures;
    struct claim *claims;
    int64_t noted_day, noted_at;          // the last day that was left out, and when a note said so
    size_t written_symbols, read_symbols; // bytes that writers' and readers' symbols hold
};

// The name of a service of a day, for messages; "?" if it cannot be read.
void lite_service_name(struct db *db, int64_t service, char name[200]);
// A day that cannot be read, while others can: it is left out of an answer.
bool lite_is_unreadable(int code);
// Leaves out a day, which e says more about. number: of the day.
void lite_leave_out(struct lite *lite, int code, int64_t number, struct store_answer *answer,
                    const struct err *e);

// BEGIN IMMEDIATE of a connection that is not the committer's, who leaves the day alone meanwhile:
// under load it would hardly ever be unlocked.
int lite_begin(struct lite *lite, struct db *db, struct str tenant, int64_t number, struct err *e);
bool lite_is_claimed(struct lite *lite, struct str tenant, int64_t number);

void lite_note(struct lite *lite, const char *format, ...) __attribute__((format(printf, 2, 3)));

// --- days (sqlite_day.c) ---

// path has room for PATH_MAX bytes.
void day_path(const struct lite *lite, struct str tenant, int64_t number, char *path);
// The numbers of the days of a tenant that overlap a range, ascending, in arena.
int day_list(const struct lite *lite, struct str tenant, int64_t start, int64_t end,
             struct arena *arena, int64_t **days, size_t *n, struct err *e);
// The open day, made if create; *day is NULL if there is none. STORE_LATER: it is locked, or has to
// be migrated, which is begun. Under lite->write.
int day_open(struct lite *lite, struct str tenant, int64_t number, bool create, struct day **day,
             struct err *e);
void day_close(struct lite *lite, struct day *day);
// Closes a day that failed; one that is damaged is moved aside.
void day_fail(struct lite *lite, struct day *day);
// The symbols of a service, read from the day if need be. Under lite->write. Other failures than
// those of the service itself are the day's, which *found == NULL tells.
int day_symbols(struct lite *lite, struct day *day, int64_t service, struct writer_symbols **found,
                struct err *e);
// Why new symbols of a service are not taken. STORE_BUSY.
int day_refuse(struct lite *lite, struct day *day, const struct writer_symbols *w, struct err *e);
// Gives services whose symbols are damaged another name, out of the way of new profiles. Under
// lite->write, outside of a transaction.
void day_set_aside(struct lite *lite, struct day *day);
void day_drop_symbols(struct lite *lite, struct day *day);
// After something was taken back: series that are known may be gone.
void day_forget_series(struct day *day);
// After something was added to symbols.
void day_measure(struct lite *lite, struct writer_symbols *w);
// Days that stay open though they are idle; and days of one commit beyond which it takes no further
// request. A day is three descriptors, and takes a dozen syncs to make, open and close.
enum { OPEN_DAYS = 32, COMMIT_DAYS = 32 };
size_t day_count_written(const struct lite *lite);
// Keeps writers' symbols and open days within bounds. Within a transaction only symbols that have
// nothing to save are given up.
void day_trim(struct lite *lite, bool in_transaction);

// --- days of older versions (sqlite_format.c) ---

// A connection of its own that writes to a day, which is migrated if need be. Not under
// lite->write.
int day_connect(struct lite *lite, struct str tenant, int64_t number, struct db *db, struct err *e);
// Has a day migrated by a thread. STORE_LATER, or why that failed a moment ago. Under lite->write.
int day_migrate_later(struct lite *lite, struct str tenant, int64_t number, struct err *e);
void day_end_migration(struct lite *lite);

// --- readers (sqlite_reader.c) ---

// A connection in a read transaction; *reader is NULL if there is no such day.
int reader_take(struct lite *lite, struct str tenant, int64_t number, struct reader **reader,
                struct err *e);
// code: of what was done with it. Returns code, or STORE_FULL where the file has changed under a
// reader that could not lock it, so that what was read is of no use.
int reader_give(struct lite *lite, struct reader *reader, int code, struct err *e);
// Symbols as of the reader's transaction or later, which do not change until they are given back.
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
    struct kind_events events; // with_variance only
    uint32_t group;            // of a select with blocks
    uint64_t n;                // profiles in the range, where somebody counted
    size_t line;               // of whoever makes lines of them
};
// Sorted by service, then id. May jump out of arena.
int reader_find(struct reader *reader, const struct store_select *select, struct arena *arena,
                struct found **found, size_t *n, struct err *e);
// The one of n (of one service) with this id; NULL: it is not wanted.
struct found *reader_found(struct found *found, size_t n, int64_t id);

// --- blocks and fresh profiles (sqlite_block.c) ---

// STORE_CORRUPT, or STORE_BUSY if r lacked memory. hour: -1: of none.
int reader_damaged(const struct reader *reader, const struct block_reader *r, const char *what,
                   int64_t hour, struct err *e);
// Parameters 1 to 3: the service, the first and the last hour.
void reader_bind_range(sqlite3_stmt *q, int64_t service, const struct store_select *select);
// Which blocks each hour of the day has: a bit for each level.
int reader_levels(struct reader *reader, int64_t service, const struct store_select *select,
                  unsigned levels[24], struct err *e);

struct block_at {
    int64_t service, hour;
    enum level level;
};
// Its points and its head; NULL where there is no such block, or *code tells why. To be reset.
sqlite3_stmt *reader_block(struct reader *reader, struct block_at at, int *code, struct err *e);

// The body of a block, which is large: read when the head does not do, as a whole if it is small.
// Filled by its user up to r; the rest is zeroed.
struct block_body {
    struct reader *reader;
    struct block_reader *r;
    struct block_at at;
    bool whole;
    struct str bytes;   // of a whole one that was read
    sqlite3_blob *blob; // of another
    uint8_t *part;
    size_t cap_part;
};
// first: the row that the part begins with.
typedef int body_part_fn(void *ctx, const struct parts *part, size_t first, struct err *e);
// Gives the parts of a block of so many rows, which its head lists. May jump out of r's arena, or
// be left by an error; body_end is called in any case.
int body_each_part(struct block_body *b, struct block_at at, struct str head, size_t n_rows,
                   body_part_fn *take, void *ctx, struct err *e);
// The bytes of a part, in r or until the reader's next statement. May jump out of r's arena.
int body_part(struct block_body *b, const struct parts *part, struct str *bytes, struct err *e);
int body_damaged(const struct block_body *b, const char *what, struct err *e);
void body_end(struct block_body *b);

// Profiles of hours that are not closed:
//     for (fresh_open(&f, ...); fresh_next(&f);)
// and fresh_end. Texts are good until the next one.
struct fresh {
    struct reader *reader;
    sqlite3_stmt *q;
    bool bodies;
    int rc;
    int64_t series, time, duration;
    uint64_t k;
    struct unpack totals;
    struct str body; // a segment of one profile, if somebody asked
};
int fresh_open(struct fresh *f, struct reader *reader, int64_t service,
               const struct store_select *select, bool bodies, struct err *e);
bool fresh_next(struct fresh *f);
// false: it is damaged.
bool fresh_total(const struct fresh *f, uint32_t column, int64_t *total);
int fresh_end(struct fresh *f, struct err *e);

// --- the stacks of a filter over time (sqlite_pick.c) ---

// A step of a series; the same one may come several times.
struct picked_cell {
    struct found *found;
    struct exact_point point;
};

struct picked_series;
struct pick_row;
// Filled by its user up to names, whose handle may be NULL; the rest is zeroed.
struct picker {
    struct lite *lite;
    const struct store_select *select; // with a filter
    int64_t step;
    struct arena *arena;
    struct block_reader *r;
    struct db names;
    // What picker_service found.
    struct picked_cell *cells;
    size_t n_cells, cap_cells;
    // Of the service.
    struct reader *reader;
    struct reader_symbols *symbols;
    struct found *found;
    size_t n_found;
    uint32_t n_nodes;
    const uint8_t *picks; // by node; NULL: none
    struct picked_series *series;
    // Of the block.
    struct pick_row *rows; // of the profiles of the hour
    struct pick_owner {
        int64_t total;
        uint32_t cell; // MATRIX_NOBODY: none
        uint32_t series;
    } * owner; // of each row of a level
    size_t n_rows, n_owner, n_nobody, cap_rows, cap_owner;
    // Of a matrix: see matrix_runs.
    uint8_t *classes;
    uint32_t *run, *run_cell;
    __int128 *sums[3];
    size_t cap_classes, cap_run, cap_run_cell, cap_sums[3];
    struct block_body body;
};
// May jump out of its arena; then, and before the reader is given back, picker_release is called.
int picker_service(struct picker *p, struct reader *reader, struct found *found, size_t n_found,
                   struct err *e);
void picker_release(struct picker *p);

// --- hashes and ids of puts (sqlite_seen.c) ---

// The key of a day's hashes. has_old_ids: it was of version 2, and has ids of that version.
int seen_key(struct db *db, struct id *key, bool *has_old_ids, struct err *e);
struct id seen_series_hash(struct id key, int64_t kind, struct str labels);
// Ids of puts of a service that was deleted do not count any more: they are hashed with this
// number, which grows with each deletion.
int seen_deletions(struct day *day, struct str service, int64_t *deletions, struct err *e);
// Remembers the id of a put. repeated: it was there. labels: packed.
int seen_add(struct lite *lite, struct day *day, const struct store_put *put, struct str labels,
             int64_t deletions, bool *repeated, struct err *e);
// In a transaction that deletes the service.
int seen_forget_service(struct db *db, struct str service, struct err *e);
// Forgets ids that came before an hour.
void seen_forget_before(struct db *db, int64_t hour);

// --- what the driver's functions are ---

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
// When the store is opened: age counts from the newest day that there is.
int sqlite_begin_retention(struct lite *lite, struct err *e);
// Closes one hour of one service; over: its day has no hour to come. db: a connection to the day.
// Under lite->care. 1: the day was changed meanwhile, and nothing was done.
int sqlite_close_hour(struct lite *lite, struct db *db, struct str tenant, int64_t number,
                      int64_t service, int64_t hour, bool over, struct err *e);

// --- the hours of a day (sqlite_hours.c) ---

// Closes what can be closed. What fails is noted, counted and tried again later, while the rest
// goes on. The first failure is returned. Under lite->care.
int hours_close(struct lite *lite, struct str tenant, int64_t number, bool all, struct err *e);
// Whether something of the day failed and it is time to try again. Under lite->care.
bool hours_are_due(const struct lite *lite, struct str tenant, int64_t number);
void hours_fini(struct lite *lite);
// Gives back pages that are not used any more, in steps, so that commits come in between. over:
// nothing more is to come.
void hours_tidy(struct lite *lite, struct db *db, bool over);

// --- deleting services (sqlite_delete.c) ---

// Services that are being deleted have a blob for a name, which sorts after all texts: readers
// leave them out.
#define LIVE_SERVICE "name < x''"
#define DEAD_SERVICE "name >= x''"
// Deletes what nobody deletes any more: the process ended meanwhile, or a day was locked. Adds the
// number of profiles to *n.
int delete_rest(struct lite *lite, struct db *db, struct str tenant, int64_t number, uint64_t *n,
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
int sqlite_forget_names(void *driver, struct str tenant, struct str build_id, struct err *e);

// --- names that came late (sqlite_names.c) ---

// The tenant's names.db; db.handle is NULL if there is none.
int names_open(struct lite *lite, struct str tenant, bool create, struct db *db, struct err *e);
// The frames of a location in arena; false: none are known. db: NULL, or its handle: there are no
// names.
bool names_of_location(struct db *db, const struct symbols *s, const struct symbols_location *l,
                       struct arena *arena, struct store_frame **frames, size_t *n);
