// The distributed driver: profiles as rows in ClickHouse, over its HTTP interface
// (docs/guides/clickhouse.md, docs/decisions/0015). Acknowledged data is in a local spool first,
// then in ClickHouse. A query first waits until data acknowledged before it has been sent.
//
// clickhouse.c         open, close, commits, other driver functions
// clickhouse_http.c    requests, and the only place that turns values into SQL
// clickhouse_schema.c  tables and their versions
// clickhouse_rows.c    a profile as rows
// clickhouse_ids.c     caches of ids
// clickhouse_spool.c   rows on disk until ClickHouse has them
// clickhouse_send.c    from the spool into ClickHouse, each batch once
// clickhouse_voids.c   puts that two servers stored at the same time
// clickhouse_series.c  series and time series
// clickhouse_stacks.c  stacks by their numbers, cached
// clickhouse_names.c   late names
// clickhouse_hours.c   which hours of the roll-up are usable
// clickhouse_merge.c   sums
// clickhouse_pick.c    stacks of a filter over time
// clickhouse_care.c    retention, deletion, statistics
// clickhouse_check.c   kiln server check
//
// The tenant is part of every table's key and of every condition. An id (store/id.h) is only unique
// within a tenant.
#pragma once

#include <pthread.h>

#include "base/out.h"
#include "model/builder.h"
#include "net/client.h"
#include "store/driver.h"
#include "store/id.h"
#include "store/retention.h"
#include "store/symbols.h"
#include "store/variance.h"

// In sending order: tables that others refer to come first.
enum table { T_LOCATIONS, T_STACKS, T_SERIES, T_SAMPLES, T_PROFILES, N_TABLES };
extern const char *const clickhouse_tables[N_TABLES];

// Row sizes without the tenant. Rows of these two tables consist of numbers and, at the end, the
// tenant. Within a put all have one size, so that counting finds a row in a batch.
enum {
    SAMPLE_ROW = 2 + 16 + 4 + 16 + 8 + 8 + 8 + 16 + 8 + 8,
    PROFILE_ROW = 2 + 16 + 4 + 16 + 8 + 16 + 8 + 8 + 4 + 1 + 1 + 8,
};
// Column offsets in a row of samples or profiles; PROFILE_ID_AT only in profiles.
enum { FAMILY_AT = 2, HOUR_AT = 18, PROFILE_ID_AT = 46 };
// In b of a put's id: the sender gave no time, so an earlier copy may be in another hour.
#define UNTIMED_BIT UINT64_C(1)

struct clickhouse_client {
    struct net_client *net;
    struct clickhouse_client *next;
};

// The parsed URL.
struct clickhouse_place {
    char base[512]; // http://host:port
    char user[128], password[256], database[64], cluster[64];
    char ca_file[512];
    uint64_t spool_bytes;
};

// A spool file with rows that are sent to ClickHouse together. Each of its rows has the batch.
struct segment_file {
    uint64_t seq, batch;
    int fd; // -1: closed for writing
    uint64_t bytes, rows;
    uint64_t durable; // bytes of acknowledged rows, while it is open
    int64_t first;    // arrival of the first rows, CLOCK_REALTIME
    int64_t due;      // when it is sent at the latest, CLOCK_MONOTONIC
    bool attempted;
    uint8_t *decision; // that the full disk did not take, allocated by malloc; sending thread only
    size_t n_decision;
    bool is_noted; // the user was told that it is torn or damaged
    bool is_cut;   // bytes after cut were discarded, but the file could not be truncated
    uint64_t cut;
    struct segment_file *next;
};

struct spool {
    char directory[4000];
    int lock_fd;
    pthread_mutex_t lock;
    pthread_cond_t work, sent;
    // Protected by lock.
    struct segment_file *first, **last, *open;
    uint64_t next_seq, done_seq; // segments up to done_seq are in ClickHouse
    uint64_t bytes, n_segments;
    bool flush, stopping, failing;
    bool committing; // the open segment is written: only the committing thread closes it
    bool wanted;     // and the sender waits for it
    char why[512];   // reason for failing
    uint64_t sends, failures, sent_rows, repeated;
    // Committing thread only.
    int broken;       // a failed write could not be undone: the next spool_sync fails
    struct err error; // for broken
};

// A lossy set: an id in it was added; an id not in it may have been.
struct known {
    struct id *slots;
    size_t mask;
};

// A lossy cache from content to id, which avoids most SipHash computations. Keys are 128-bit hashes
// of the content with secret seeds of the process.
struct id_slot {
    struct id key, id;
};
struct id_cache {
    struct id_slot *slots;
    size_t mask;
    uint64_t seed[4];
};

// How often a day was dropped. A drop has a begin and an end; while the counts differ, one is
// running.
struct day_drops {
    uint16_t day;
    uint64_t begun, ended;
};

struct stacks_cache;

struct clickhouse {
    struct clickhouse_place at;
    struct store_options options;
    unsigned version;        // ClickHouse version: 18016, 26009
    bool migrated;           // set by the sender if ClickHouse was not reachable at startup
    int64_t ask_nanos;       // how long a statement may take
    _Atomic int64_t stop_at; // when requests under way are abandoned, CLOCK_MONOTONIC; 0: never
    pthread_mutex_t lock;
    struct clickhouse_client *idle; // protected by lock
    struct stacks_cache *caches;    // protected by lock
    uint64_t cache_tick, days_dropped;
    int64_t voids_until;        // how long has_voids is valid, CLOCK_MONOTONIC; protected by lock
    bool has_voids;             // protected by lock
    uint64_t names_version;     // maintenance thread only
    struct retention retention; // protected by lock
    bool has_retention;         // retention knows the newest day; protected by lock
    int64_t next_sweep;         // CLOCK_MONOTONIC; maintenance thread only
    struct known written;       // rows that the open segment has; committing thread only
    struct id_cache ids;        // committing thread only
    struct id stack_key;        // protected by lock; see clickhouse_stack_key
    struct known stored;        // rows that ClickHouse has; sending thread only
    struct spool spool;
    pthread_t sender;
    bool has_sender, has_lock;
};

void clickhouse_note(struct clickhouse *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// --- clickhouse_http.c ---

// Runs a statement. The result rows are allocated in arena, within its budget; arena may be NULL if
// no rows are expected. STORE_FULL: ClickHouse is unreachable; STORE_FAILED: it rejected the
// statement.
int clickhouse_query(struct clickhouse *c, struct str sql, struct arena *arena, struct unpack *rows,
                     struct err *e);
// Call when the rows were read. Returns code, or an error if it is 0 and the rows could not be
// decoded.
int clickhouse_rows_end(struct clickhouse *c, const struct unpack *rows, int code, struct err *e);
int clickhouse_run(struct clickhouse *c, struct err *e, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Runs a statement that returns one number. budget: of the request that waits for it, or NULL.
int clickhouse_number(struct clickhouse *c, struct str sql, struct budget *budget, uint64_t *n,
                      struct err *e);
// Inserts rows in RowBinary format. id is the query id: ClickHouse never runs two queries with one
// id at the same time.
int clickhouse_insert(struct clickhouse *c, const char *table, const char *id, struct str rows,
                      struct err *e);

// Whether the store is closing and requests are abandoned.
bool clickhouse_has_stopped(struct clickhouse *c);

// Writes a string literal. Values become part of statements only here.
void sql_text(struct out *sql, struct str value);
// Sorts numbers and removes duplicates. Returns how many are left.
size_t sql_distinct(uint64_t *numbers, size_t n);
// a, b, c
void sql_numbers(struct out *sql, const uint64_t *numbers, size_t n);
void sql_ids(struct out *sql, const struct id *ids, size_t n);
void sql_id(struct out *sql, struct id id);
// Decode result rows: fixed-size integers; strings and counts are varints, as in pack.h.
uint64_t row_u64(struct unpack *b);
uint32_t row_u32(struct unpack *b);
uint8_t row_u8(struct unpack *b);
struct id row_id(struct unpack *b);
// ClickHouse sums wrap around. The sum of the values' upper halves makes them exact: sum(x),
// sum(SQL_HIGH("x")). row_sum reads both.
#define SQL_HIGH(column) "intDiv(" column ", toInt64(4294967296))"
__int128 row_sum(struct unpack *b);

// --- clickhouse_schema.c ---

int clickhouse_migrate(struct clickhouse *c, struct err *e);
// Checks without changes that there is a store of this version.
int clickhouse_check_version(struct clickhouse *c, struct err *e);
// The secret for stack numbers, shared by all servers of a database. A server that has not reached
// ClickHouse yet uses its own secret; a stack then has several numbers.
struct id clickhouse_stack_key(struct clickhouse *c);

// --- clickhouse_rows.c ---

struct put_rows {
    uint16_t day;
    struct out rows[N_TABLES]; // before T_SAMPLES, each row follows its id and its length (u32)
    uint32_t n[N_TABLES];
};
// Ids of a profile's items; none: not used so far. Kept for the next profile of the request with
// the same tables, so that a part of store_split costs only what it uses. Start zeroed.
struct row_ids {
    struct id scope;
    uint16_t day;
    const void *tables[5]; // of the profile
    size_t counts[4];
    struct id *strings, *functions, *mappings, *locations; // all but locations are cache keys
};
// Converts a put to rows in arena; may jump out of it. A segment has each row that its samples
// refer to once: rows in c->written are skipped, and new rows are added to it.
void clickhouse_rows(struct clickhouse *c, const struct store_put *put, uint64_t batch,
                     struct row_ids *ids, struct arena *arena, struct put_rows *to);

// --- clickhouse_ids.c ---

int known_init(struct known *k, size_t bytes);
void known_clear(struct known *k);
void known_fini(struct known *k);
// known_has: whether id was added with the same day and nth (a batch or a generation). known_add
// adds it.
bool known_has(const struct known *k, struct id id, uint16_t day, uint64_t nth);
void known_add(struct known *k, struct id id, uint16_t day, uint64_t nth);

int id_cache_init(struct id_cache *c, size_t bytes);
void id_cache_fini(struct id_cache *c);
struct id id_cache_text(const struct id_cache *c, struct str text);
// Extends a key by x.
static inline struct id id_cache_mix(const struct id_cache *c, struct id key, struct id x)
{
    return (struct id){hash_fold(key.a ^ x.a, c->seed[2]), hash_fold(key.b + x.b, c->seed[3])};
}
bool id_cache_find(const struct id_cache *c, struct id key, struct id *id);
void id_cache_add(struct id_cache *c, struct id key, struct id id);

// --- clickhouse_spool.c ---

void spool_init(struct spool *s);
int spool_open(struct spool *s, const char *directory, struct err *e);
void spool_close(struct spool *s);
// Of the committing thread, which does not hold the lock: others do not wait for its disk. A commit
// begins with spool_begin_commit, which returns the bytes of the open segment, and ends with
// spool_sync. spool_begin returns the open segment and creates it if needed. Puts are durable after
// spool_sync. A failed spool_append discards only its own puts, unless the
// partial record cannot be removed: then the next spool_sync fails. A failed spool_sync discards
// everything appended since the previous one: the segment is cut back to `before` bytes.
uint64_t spool_begin_commit(struct spool *s);
int spool_begin(struct spool *s, struct segment_file **open, struct err *e);
int spool_append(struct spool *s, const struct put_rows *puts, size_t n, struct err *e);
int spool_sync(struct spool *s, uint64_t before, struct err *e);
// Waits for the next segment to send and closes it for writing. Returns NULL when the spool is
// stopping.
struct segment_file *spool_take(struct spool *s);
// Returns a segment from spool_take. sent: it is deleted.
void spool_give(struct spool *s, struct segment_file *segment, bool sent, const struct err *e);
// Returns its bytes, allocated by malloc.
int spool_read(struct spool *s, const struct segment_file *segment, uint8_t **bytes, size_t *n,
               struct err *e);
// Appends a record to a closed segment, after its complete records (whole bytes). Durable on
// return.
int spool_append_decision(struct spool *s, struct segment_file *segment, uint64_t whole,
                          struct str record, struct err *e);
// Waits until the current content of the spool was sent, for at most nanos. Returns early if
// ClickHouse rejects it or budget (may be NULL) ends.
void spool_flush(struct spool *s, int64_t nanos, struct budget *budget);
int64_t spool_lag(struct spool *s, int64_t now); // the caller holds the lock
// Waits on one of the spool's conditions, at most until this time (CLOCK_MONOTONIC). The caller
// holds the lock.
void spool_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until);

// Iterate over the records of a segment, and over the puts of a record.
enum record { RECORD_END, RECORD_PUTS, RECORD_DECISION };
struct spool_put {
    uint16_t day;
    struct str tenant;
    struct str rows[N_TABLES];
    uint32_t n[N_TABLES];
};
enum record spool_next(struct unpack *b, uint64_t batch, struct unpack *record);
bool spool_next_put(struct unpack *record, struct spool_put *put);

// --- clickhouse_send.c ---

// Sends the bytes of a segment.
int clickhouse_send(struct clickhouse *c, struct segment_file *f, const uint8_t *bytes, size_t n,
                    struct err *e);
void *clickhouse_send_loop(void *clickhouse);

// --- clickhouse_voids.c ---

// A put in a batch that does not count, because another batch has the same put.
struct void_put {
    struct str tenant;
    struct id series;
    int64_t ts;
    uint64_t batch;
};
// Select puts that are in more than one batch, at different times if they are untimed: SELECT ...
// WHERE, the caller's condition, then the rest.
void voids_select(struct clickhouse *c, struct out *sql);
void voids_group(struct out *sql);
// For each put in found, makes all batches void except the one with the lowest number. Skips void
// puts in known, which is sorted. own: incremented for each put of batch.
int voids_write(struct clickhouse *c, struct unpack *found, const struct void_put *known, size_t n,
                uint64_t batch, struct arena *arena, uint64_t *own, struct err *e);
// Looks for such puts again, on a cluster only. all: not only in the last hours.
int voids_sweep(struct clickhouse *c, bool all, struct err *e);
// Of one tenant, or of all if tenant is empty.
int voids_query(struct clickhouse *c, struct str tenant, uint32_t first_day, uint32_t last_day,
                struct arena *arena, struct void_put **voids, size_t *n, struct err *e);

// --- clickhouse_series.c ---

// A matching series of one sample type. Its samples are those of base, multiplied by factor. base
// is family and factor 1, unless the samples of another type are stored in its place.
struct found_series {
    struct id id, family, base;
    struct str service;
    int64_t factor;
    uint32_t line; // index of its labels; shared by series that differ only in their kind
    struct store_series series;
    struct str type, unit, period_type, period_unit;
    int64_t period;
    uint64_t n; // profiles
    // With with_variance: the related column, if there is one.
    struct kind_events events;
    uint32_t way; // of events without weights
    struct id beside, beside_base;
    int64_t beside_factor;
    uint32_t group; // of a select with blocks
};

struct finding {
    struct found_series *found;   // sorted by (family, id)
    struct found_series *by_base; // the same, sorted by (base, id)
    size_t n;
    uint32_t n_lines;
    struct id *families;
    size_t n_families;
    struct id *bases;
    size_t n_bases;
    struct void_put *voids;
    size_t n_voids;
    bool whole;         // every series of the families and bases matched
    struct id *weights; // families of squared weights
    size_t n_weights, cap_weights;
    struct variance_ways ways; // with with_variance
};
// Makes a finding of the related columns, as if they were types.
void finding_beside(const struct finding *f, struct arena *arena, struct finding *beside);
int clickhouse_find(struct clickhouse *c, const struct store_select *select, struct arena *arena,
                    struct finding *f, struct err *e);
// Appends the WHERE clause for the found rows of a table: tenant, days, families, series.
enum where { IN_PROFILES, IN_SAMPLES, IN_HOURLY };
void clickhouse_where(struct out *sql, const struct store_select *select, const struct finding *f,
                      enum where table);
// Appends a time range condition, for profiles and samples.
void clickhouse_in_range(struct out *sql, const struct store_select *select);
struct found_series *finding_at(struct finding *f, struct id family, struct id series);
// Returns the series that a sample with this base and series belongs to. If series is none, any
// series of the base: all have the same service and factor.
struct found_series *finding_base(struct finding *f, struct id base, struct id series);

int clickhouse_series(void *driver, const struct store_select *select, struct arena *arena,
                      struct store_series **series, size_t *n, struct store_answer *answer,
                      struct err *e);
int clickhouse_lines(void *driver, const struct store_select *select, int64_t step,
                     struct arena *arena, struct store_line **lines, size_t *n,
                     struct store_answer *answer, struct err *e);

// The day number as stored in tables.
uint32_t clickhouse_day(int64_t time);
// Appends the step of the range that a time belongs to.
void clickhouse_index(struct out *sql, const struct store_select *select, int64_t step,
                      const char *time);

// --- clickhouse_hours.c ---

struct hours {
    uint64_t *rolled; // hours with a complete roll-up
    size_t n_rolled;
    uint64_t *rest; // hours read from samples; NULL: all of them
    size_t n_rest;
};
// The roll-up is used for hours that are entirely in the range and, unless step is 0, within one
// step.
int hours_find(struct clickhouse *c, const struct store_select *select, const struct finding *f,
               int64_t step, struct arena *arena, struct hours *hours, struct err *e);
// Appends the condition for rows of the roll-up, or for the samples read besides.
void clickhouse_in_hours(struct out *sql, const struct hours *hours, bool rolled);

// --- clickhouse_pick.c ---

// Adds the values of the stacks of select->filter to lines, one per found series. May jump out of
// arena.
struct exact_line;
int clickhouse_pick(struct clickhouse *c, const struct store_select *select, int64_t step,
                    struct finding *found, struct arena *arena, struct exact_line *lines[],
                    struct err *e);

// --- clickhouse_stacks.c ---

// Cached stacks of one service. Between take and give the caller has exclusive access.
struct stacks_cache {
    struct str tenant, service; // both point into names
    char *names;
    struct symbols *symbols;
    struct hash_table index; // in symbols' arena
    uint64_t *numbers;
    uint32_t *nodes;
    size_t n, cap_numbers, cap_nodes;
    bool half_added;  // an update was interrupted: do not use again
    bool has_doubles; // two stacks have the same number
    pthread_mutex_t use;
    // Protected by clickhouse.lock.
    unsigned users;
    uint64_t used;
    size_t size;
    bool expired; // hidden from lookups; freed by the last user
    struct stacks_cache *next;
};
int stacks_take(struct clickhouse *c, struct str tenant, struct str service, struct budget *budget,
                struct stacks_cache **cache, struct err *e);
void stacks_give(struct clickhouse *c, struct stacks_cache *cache);
// Ensures that all numbers have nodes. budget: of the query.
int stacks_ensure(struct clickhouse *c, struct stacks_cache *cache,
                  const struct store_select *select, const uint64_t *numbers, size_t n,
                  struct budget *budget, struct err *e);
// Invalidates the cache. Entries in use stay until they are given back.
void stacks_expire(struct clickhouse *c);
// Returns UINT32_MAX if ClickHouse has no such stack.
uint32_t stacks_node(const struct stacks_cache *cache, uint64_t number);
void stacks_forget(struct clickhouse *c);

// --- clickhouse_merge.c ---

int clickhouse_merge(void *driver, const struct store_select *select, struct arena *arena,
                     struct store_stacks **stacks, struct store_answer *answer, struct err *e);

// --- clickhouse_care.c ---

// Reads how often days were dropped; the caller has set the days.
int drops_query(struct clickhouse *c, struct day_drops *days, size_t n, struct arena *arena,
                struct err *e);
void clickhouse_day_text(uint32_t day, char text[16]);
int clickhouse_maintain(void *driver, bool all, struct err *e);
int64_t clickhouse_time(const void *driver);
// Call before this server stores anything: age counts from the newest day that others stored.
int clickhouse_begin_retention(struct clickhouse *c, struct err *e);
int clickhouse_delete_service(void *driver, struct str tenant, struct str service,
                              struct budget *budget, uint64_t *n, struct err *e);
int clickhouse_stats(void *driver, struct str tenant, struct budget *budget,
                     struct store_stats *stats, struct err *e);
int clickhouse_tenants(void *driver, struct arena *arena, struct str **tenants, size_t *n,
                       struct err *e);

// --- clickhouse_check.c ---

int clickhouse_check(void *driver, void (*found)(void *ctx, const char *text), void *ctx,
                     struct err *e);

// --- clickhouse_names.c ---

// Names of addresses, in an arena that these functions may jump out of.
struct late_names {
    struct late_name *items;
    size_t n;
};
int names_query(struct clickhouse *c, struct str tenant, const uint64_t *places, size_t n,
                struct arena *arena, struct late_names *names, struct err *e);
// Builds the lines of an address. Returns their number; 0: no name.
uint32_t names_lines(const struct late_names *names, struct str build_id, uint64_t place,
                     struct model_builder *b, struct model_line **lines);
// Invalidates cached stacks if another server wrote names.
int clickhouse_watch_names(struct clickhouse *c, struct err *e);
int clickhouse_unnamed(void *driver, struct str tenant, struct str build_id, int64_t start,
                       int64_t end, struct arena *arena, struct store_address **addresses,
                       size_t *n, struct err *e);
int clickhouse_name(void *driver, struct str tenant, const struct store_name *names, size_t n,
                    struct err *e);
