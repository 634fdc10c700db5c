// The driver that keeps a directory of SQLite databases:
//     DIRECTORY/lock                          held while a process has it open
//     DIRECTORY/tenants/TENANT/2026-08-01.db  one a tenant and UTC day
//     DIRECTORY/tenants/TENANT/names.db       names that came late
//
// Whoever uses a struct day holds lite.write: the committer, and who deletes services and days.
// Hours are closed by a connection of their own. The committer does not wait for its transactions:
// requests of a day that is locked are committed later. Readers have connections and symbols of
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
#include "store/labels.h"
#include "store/retention.h"

#define HOUR_NANOS (INT64_C(3600) * 1000000000)
#define DAY_NANOS (24 * HOUR_NANOS)

enum level { LEVEL_RAW = 1, LEVEL_FIVE_MINUTES = 2, LEVEL_HOUR = 3 };
#define FIVE_MINUTES_NANOS (INT64_C(300) * 1000000000)

enum { DAY_VERSION = 2 };
extern const char DAY_SCHEMA[];

// Symbols that a writer appends to; in the day's list.
struct writer_symbols {
    int64_t service;
    struct symbols *symbols; // NULL: they cannot be had, as error says
    int code;                // then: STORE_BUSY or STORE_CORRUPT
    char *error;
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
    bool made_rows; // of services, kinds or series, in this request
    int code;       // why it failed
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
    struct day *days;
    ZSTD_CCtx *zstd;
    ZSTD_DCtx *unzstd;
    uint64_t tick, batch_tick; // batch_tick: when the last commit began
    bool all_days_seen;

    pthread_mutex_t care; // one at a time closes hours; taken before write
    struct failure *failures;
    _Atomic bool stopping; // what can be done later is left
    struct retention retention;

    pthread_mutex_t read; // the rest; never held while something is read
    struct reader *readers;
    struct reader_symbols *symbols;
    uint64_t read_tick, epoch;
    uint64_t days_dropped, hours_closed, close_failures;
    const struct reader *claimed; // a day that the committer leaves to who closes an hour of it
    int64_t noted_day, noted_at;  // the last day that was left out, and when a note said so
    size_t written_symbols, read_symbols; // bytes that writers' and readers' symbols hold
};

// The name of a service of a day, for messages; "?" if it cannot be read.
void lite_service_name(struct db *db, int64_t service, char name[200]);
// A day that cannot be read, while others can: it is left out of an answer.
bool lite_is_unreadable(int code);
// Leaves out a day, which e says more about. number: of the day.
void lite_leave_out(struct lite *lite, int code, int64_t number, struct store_answer *answer,
                    const struct err *e);

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
// Days that stay open, which is one for each tenant that sends now; and days of one commit beyond
// which it takes no further request. A day is three descriptors, and takes a dozen syncs to make,
// open and close.
enum { OPEN_DAYS = 32, COMMIT_DAYS = 32 };
size_t day_count_written(const struct lite *lite);
// Keeps writers' symbols and open days within bounds. Within a transaction only symbols that have
// nothing to save are given up.
void day_trim(struct lite *lite, bool in_transaction);

// --- readers (sqlite_reader.c) ---

// A connection in a read transaction; *reader is NULL if there is no such day.
int reader_take(struct lite *lite, struct str tenant, int64_t number, struct reader **reader,
                struct err *e);
void reader_give(struct lite *lite, struct reader *reader);
// Symbols as of the reader's transaction or later, which do not change until they are given back.
int reader_symbols_take(struct lite *lite, struct reader *reader, int64_t service, ZSTD_DCtx *zstd,
                        struct reader_symbols **symbols, struct err *e);
void reader_symbols_give(struct lite *lite, struct reader_symbols *symbols);
// Nothing of files that were moved or removed is used any more.
void reader_forget(struct lite *lite);

// The body of a block, which is large: read when the head does not do, as a whole if it is small.
// Zeroed before it is used.
struct block_body {
    int64_t id;
    bool whole;
    struct str bytes;   // of a whole one that was read
    sqlite3_blob *blob; // of another
    uint8_t *part;
    size_t cap_part;
};
void reader_body(struct block_body *b, int64_t id, struct parts parts);
// The bytes of a part, in r or until the reader's next statement. May jump out of r's arena.
int reader_part(struct block_body *b, struct reader *reader, struct block_reader *r,
                const struct parts *part, struct str *bytes, struct err *e);
void reader_body_end(struct block_body *b);

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
// Pages that are not used any more. over: nothing more is to come.
void hours_give_back_pages(struct db *db, bool over);
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
// The frames of an address in arena; false: none are known.
bool names_find(struct db *db, struct str build_id, uint64_t offset, struct arena *arena,
                struct store_frame **frames, size_t *n);
