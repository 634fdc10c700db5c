// The distributed driver: profiles as rows of ClickHouse, over its HTTP interface
// (docs/clickhouse.md, docs/decisions/0015). What is acknowledged is in a local spool first, then
// in ClickHouse; a query waits for what was acknowledged before it.
//
// clickhouse.c         open, close, what others call
// clickhouse_http.c    requests, and the one place where values become SQL
// clickhouse_schema.c  tables and their versions
// clickhouse_rows.c    a profile as rows
// clickhouse_spool.c   rows on disk until ClickHouse has them
// clickhouse_send.c    from the spool into ClickHouse, each batch once
// clickhouse_voids.c   what two servers stored at the same time
// clickhouse_series.c  series and time series
// clickhouse_stacks.c  stacks by their ids, cached
// clickhouse_names.c   names that come late
// clickhouse_hours.c   which hours of the roll-up can be used
// clickhouse_merge.c   sums
// clickhouse_pick.c    the stacks of a filter over time
// clickhouse_care.c    retention, deletion, what there is
// clickhouse_check.c   what kiln server check looks for
//
// The tenant is part of the key of every table and of every condition; an id (store/id.h) means
// nothing without it.
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

// In the order in which they are sent: what others refer to comes first.
enum table { T_LOCATIONS, T_STACKS, T_SERIES, T_SAMPLES, T_PROFILES, N_TABLES };
extern const char *const clickhouse_tables[N_TABLES];

// Rows of these two are numbers and, at the end, the tenant: within a put all are of one size, so
// their place in a batch is known by counting.
enum {
    SAMPLE_ROW = 2 + 16 + 4 + 16 + 8 + 8 + 8 + 16 + 8 + 8,
    PROFILE_ROW = 2 + 16 + 4 + 16 + 8 + 16 + 8 + 8 + 4 + 1 + 1 + 8,
};
// Where a column begins in a row of either, and in one of profiles.
enum { FAMILY_AT = 2, HOUR_AT = 18, PROFILE_ID_AT = 46 };
// Of the b of a put's id: the sender gave no time, so the put may have come at another hour before.
#define UNTIMED_BIT UINT64_C(1)

struct clickhouse_client {
    struct net_client *net;
    struct clickhouse_client *next;
};

// Where it is, from its URL.
struct clickhouse_place {
    char base[512]; // http://host:port
    char user[128], password[256], database[64], cluster[64];
    char ca_file[512];
    uint64_t spool_bytes;
};

// A file of rows that go into ClickHouse together. batch is in each of their rows.
struct segment_file {
    uint64_t seq, batch;
    int fd; // -1: not open for writing any more
    uint64_t bytes, rows;
    int64_t first; // when its first rows came, CLOCK_REALTIME
    bool attempted;
    bool is_cut; // What is behind cut was taken back, but could not be truncated.
    uint64_t cut;
    struct segment_file *next;
};

struct spool {
    char directory[4000];
    int lock_fd;
    pthread_mutex_t lock;
    pthread_cond_t work, sent;
    // All of these under lock.
    struct segment_file *first, **last, *open;
    uint64_t next_seq, done_seq; // everything up to done_seq is in ClickHouse
    uint64_t bytes, n_segments;
    bool flush, stopping, failing;
    char why[512];    // of failing
    int broken;       // A write failed and could not be taken back: the next spool_sync fails.
    struct err error; // of broken
    uint64_t sends, failures, sent_rows, repeated;
};

// A lossy set: what is in it is there, what is not may have been.
struct known {
    struct id *slots;
    size_t mask;
};

// A lossy cache of ids by their content, so that most need not be made: SipHash takes time. Content
// is told apart by 128 bits of a hash with secrets of the process.
struct id_slot {
    struct id key, id;
};
struct id_cache {
    struct id_slot *slots;
    size_t mask;
    uint64_t seed[4];
};

// How often a day was dropped: dropping begins and ends. While the two differ somebody is at it.
struct day_drops {
    uint16_t day;
    uint64_t begun, ended;
};

struct stacks_cache;

struct clickhouse {
    struct clickhouse_place at;
    struct store_options options;
    unsigned version; // 18016, 26009
    bool migrated;    // by the sender, if ClickHouse was not there at first
    pthread_mutex_t lock;
    struct clickhouse_client *idle; // under lock
    struct stacks_cache *caches;    // under lock
    uint64_t cache_tick, days_dropped;
    int64_t no_voids_until;     // under lock, CLOCK_MONOTONIC
    uint64_t names_version;     // of the maintaining thread
    struct retention retention; // the same
    int64_t next_sweep;         // the same, CLOCK_MONOTONIC
    struct known written;       // rows that the open segment has; of the committing thread
    struct id_cache ids;        // of the committing thread
    struct id stack_key;        // under lock; see clickhouse_stack_key
    struct known stored;        // rows that ClickHouse has; of the sending thread
    struct spool spool;
    struct store_counters spooled; // under lock: of the spool, when it was last unlocked
    pthread_t sender;
    bool has_sender, has_lock;
};

void clickhouse_note(struct clickhouse *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// --- clickhouse_http.c ---

// Runs a statement; its rows are in arena, which may be NULL when nothing is expected, and within
// the arena's budget.
// STORE_FULL: ClickHouse cannot be reached; STORE_FAILED: it refused.
int clickhouse_ask(struct clickhouse *c, struct str sql, struct arena *arena, struct unpack *rows,
                   struct err *e);
int clickhouse_run(struct clickhouse *c, struct err *e, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// A number.
int clickhouse_number(struct clickhouse *c, struct str sql, uint64_t *n, struct err *e);
// Rows in RowBinary. id names the query: ClickHouse runs no two of one id at a time.
int clickhouse_insert(struct clickhouse *c, const char *table, const char *id, struct str rows,
                      struct err *e);

// The one place where a value becomes part of a statement.
void sql_text(struct out *sql, struct str value);
// Sorts numbers; how many are left when each is there once.
size_t sql_distinct(uint64_t *numbers, size_t n);
// a, b, c
void sql_numbers(struct out *sql, const uint64_t *numbers, size_t n);
void sql_ids(struct out *sql, const struct id *ids, size_t n);
void sql_id(struct out *sql, struct id id);
// Rows: fixed-size numbers; strings and counts are varints, as in pack.h.
uint64_t row_u64(struct unpack *b);
uint32_t row_u32(struct unpack *b);
uint8_t row_u8(struct unpack *b);
struct id row_id(struct unpack *b);
// The sum of a column is exact with that of its values' upper halves: sum(x), sum(SQL_HIGH("x")).
#define SQL_HIGH(column) "intDiv(" column ", toInt64(4294967296))"
__int128 row_sum(struct unpack *b);

// --- clickhouse_schema.c ---

int clickhouse_migrate(struct clickhouse *c, struct err *e);
// Changes nothing: whether there is a store of this version.
int clickhouse_look(struct clickhouse *c, struct err *e);
// The secret that numbers of stacks are made with, the same in all servers of a database. One that
// has not reached ClickHouse yet has one of its own: then a stack has several numbers.
struct id clickhouse_stack_key(struct clickhouse *c);

// --- clickhouse_rows.c ---

struct put_rows {
    uint16_t day;
    struct out rows[N_TABLES]; // before T_SAMPLES each row is behind its id and its length (u32)
    uint32_t n[N_TABLES];
};
// Ids of what a profile has; none: not used so far. They are kept for the next profile of the
// request with the same tables: a part of store_split costs what it has, not what all parts have.
// Zeroed before the first use.
struct row_ids {
    struct id scope;
    uint16_t day;
    const void *tables[5]; // of the profile
    size_t counts[4];
    struct id *strings, *functions, *mappings, *locations; // but for locations, keys of the cache
};
// Everything is in arena, out of which it may jump. A segment has the rows that its samples refer
// to, each once: those in written are left out, and what is written is in it then.
void clickhouse_rows(struct clickhouse *c, const struct store_put *put, uint64_t batch,
                     struct row_ids *ids, struct arena *arena, struct put_rows *to);

// --- clickhouse_ids.c ---

int known_init(struct known *k, size_t bytes);
void known_clear(struct known *k);
void known_fini(struct known *k);
// Whether id is there, of a day and of the nth time of it (a batch, a generation); known_add: it is
// from now on.
bool known_has(const struct known *k, struct id id, uint16_t day, uint64_t nth);
void known_add(struct known *k, struct id id, uint16_t day, uint64_t nth);

int id_cache_init(struct id_cache *c, size_t bytes);
void id_cache_fini(struct id_cache *c);
struct id id_cache_text(const struct id_cache *c, struct str text);
// The key of what key was of, followed by x.
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
// These three are called with the lock held. Puts are durable after spool_sync. When that or
// spool_append fails, nothing that was appended since the last spool_sync counts: spool_sync fails
// then, and what is in the segment from its byte before on is taken back.
int spool_begin(struct spool *s, struct segment_file **open, struct err *e);
int spool_append(struct spool *s, const struct put_rows *puts, size_t n, struct err *e);
int spool_sync(struct spool *s, uint64_t before, struct err *e);
// The next segment to send, closed for writing; NULL when it is time to stop.
struct segment_file *spool_take(struct spool *s);
// It was sent (and is gone) or not.
void spool_give(struct spool *s, struct segment_file *segment, bool sent, const struct err *e);
// Its bytes, malloc'd.
int spool_read(struct spool *s, const struct segment_file *segment, uint8_t **bytes, size_t *n,
               struct err *e);
// Appends to a segment that is not open, behind its whole records; durable.
int spool_decide(struct spool *s, struct segment_file *segment, uint64_t whole, struct str record,
                 struct err *e);
// Waits until what is in the spool now was sent; not when ClickHouse does not take it. budget,
// which may be NULL, ends it.
void spool_flush(struct spool *s, int64_t nanos, struct budget *budget);
int64_t spool_lag(struct spool *s, int64_t now); // lock is held

// One record of a segment at a time.
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

// The bytes of a segment.
int clickhouse_send(struct clickhouse *c, struct segment_file *f, const uint8_t *bytes, size_t n,
                    struct err *e);
void *clickhouse_send_loop(void *clickhouse);

// --- clickhouse_voids.c ---

// A put in a batch that does not count, because another batch has it, too.
struct void_put {
    struct str tenant;
    struct id series;
    int64_t ts;
    uint64_t batch;
};
// Puts that are in more than one batch, perhaps at different times if they have none of their own:
// SELECT ... WHERE, what the caller looks for, and the rest.
void voids_select(struct clickhouse *c, struct out *sql);
void voids_group(struct out *sql);
// Of such rows all batches but the least become void, except those that are known to be, in the
// order of all their numbers. own: how many of batch are.
int voids_write(struct clickhouse *c, struct unpack *found, const struct void_put *known, size_t n,
                uint64_t batch, struct arena *arena, uint64_t *own, struct err *e);
// On a cluster; all: not only of the last hours.
int voids_sweep(struct clickhouse *c, bool all, struct err *e);
// Of a tenant; of all with an empty one.
int voids_ask(struct clickhouse *c, struct str tenant, uint32_t first_day, uint32_t last_day,
              struct arena *arena, struct void_put **voids, size_t *n, struct err *e);

// --- clickhouse_series.c ---

// A series of one sample type that matches. Its samples are those of base times factor; base is
// family and factor 1, unless another type's samples stand for it.
struct found_series {
    struct id id, family, base;
    struct str service;
    int64_t factor;
    uint32_t line; // the number of its labels, for those that differ in their kind only
    struct store_series series;
    struct str type, unit, period_type, period_unit;
    int64_t period;
    uint64_t n; // profiles
    // With with_variance: of the column beside it, if there is one.
    struct kind_events events;
    uint32_t way; // of events without weights
    struct id beside, beside_base;
    int64_t beside_factor;
    uint32_t group; // of a select with blocks
};

struct finding {
    struct found_series *found;   // by (family, id)
    struct found_series *by_base; // the same by (base, id)
    size_t n;
    uint32_t n_lines;
    struct id *families;
    size_t n_families;
    struct id *bases;
    size_t n_bases;
    struct void_put *voids;
    size_t n_voids;
    bool whole;         // every series of the families and of the bases was found
    struct id *weights; // families of squared weights
    size_t n_weights, cap_weights;
    struct variance_ways ways; // with with_variance
};
// The columns beside those that were found, as if they were types.
void finding_beside(const struct finding *f, struct arena *arena, struct finding *beside);
int clickhouse_find(struct clickhouse *c, const struct store_select *select, struct arena *arena,
                    struct finding *f, struct err *e);
// WHERE of the found rows of one of these tables: tenant, days, families, series.
enum where { IN_PROFILES, IN_SAMPLES, IN_HOURLY };
void clickhouse_where(struct out *sql, const struct store_select *select, const struct finding *f,
                      enum where table);
// Further, for profiles and samples: within the range.
void clickhouse_in_range(struct out *sql, const struct store_select *select);
struct found_series *finding_at(struct finding *f, struct id family, struct id series);
// The one that samples of a base and series are of; none: any series, all of a base are of one
// service and factor.
struct found_series *finding_base(struct finding *f, struct id base, struct id series);

int clickhouse_series(void *driver, const struct store_select *select, struct arena *arena,
                      struct store_series **series, size_t *n, struct store_answer *answer,
                      struct err *e);
int clickhouse_lines(void *driver, const struct store_select *select, int64_t step,
                     struct arena *arena, struct store_line **lines, size_t *n,
                     struct store_answer *answer, struct err *e);

// The number of a day, as tables have it.
uint32_t clickhouse_day(int64_t time);
// On which step of the range a time is.
void clickhouse_index(struct out *sql, const struct store_select *select, int64_t step,
                      const char *time);

// --- clickhouse_hours.c ---

struct hours {
    uint64_t *rolled; // those whose roll-up is complete
    size_t n_rolled;
    uint64_t *rest; // those whose samples are read; NULL: all of them
    size_t n_rest;
};
// The roll-up serves hours that are in the range from end to end and, unless step is 0, on one
// step.
int hours_find(struct clickhouse *c, const struct store_select *select, const struct finding *f,
               int64_t step, struct arena *arena, struct hours *hours, struct err *e);
// The condition for rows of the roll-up, or of the samples that are read beside it.
void clickhouse_in_hours(struct out *sql, const struct hours *hours, bool rolled);

// --- clickhouse_pick.c ---

// Adds what the stacks of select->filter amount to to lines, of which each found series has one.
// May jump out of arena.
struct exact_line;
int clickhouse_pick(struct clickhouse *c, const struct store_select *select, int64_t step,
                    struct finding *found, struct arena *arena, struct exact_line *lines[],
                    struct err *e);

// --- clickhouse_stacks.c ---

// The stacks of one service that were asked for. Between take and give it is the caller's alone.
struct stacks_cache {
    struct str tenant, service; // in names
    char *names;
    struct symbols *symbols;
    struct hash_table index; // in symbols' arena
    uint64_t *numbers;
    uint32_t *nodes;
    size_t n, cap_numbers, cap_nodes;
    bool half_added;  // Something failed in the middle: not to be used again.
    bool has_doubles; // Two stacks have one number.
    pthread_mutex_t use;
    // Under the lock of all.
    unsigned users;
    uint64_t used;
    size_t size;
    bool expired; // not to be found; the last user frees it
    struct stacks_cache *next;
};
int stacks_take(struct clickhouse *c, struct str tenant, struct str service, struct budget *budget,
                struct stacks_cache **cache, struct err *e);
void stacks_give(struct clickhouse *c, struct stacks_cache *cache);
// Sees to it that all numbers have nodes. budget: of the query.
int stacks_need(struct clickhouse *c, struct stacks_cache *cache, const struct store_select *select,
                const uint64_t *numbers, size_t n, struct budget *budget, struct err *e);
// What is cached is not used again; what is in use stays until it is given back.
void stacks_expire(struct clickhouse *c);
// UINT32_MAX: ClickHouse has no such stack.
uint32_t stacks_node(const struct stacks_cache *cache, uint64_t number);
void stacks_forget(struct clickhouse *c);

// --- clickhouse_merge.c ---

int clickhouse_merge(void *driver, const struct store_select *select, struct arena *arena,
                     struct store_stacks **stacks, struct store_answer *answer, struct err *e);

// --- clickhouse_care.c ---

// How often each of the days was dropped; days are filled in by the caller.
int drops_ask(struct clickhouse *c, struct day_drops *days, size_t n, struct arena *arena,
              struct err *e);
void clickhouse_day_text(uint32_t day, char text[16]);
int clickhouse_maintain(void *driver, bool all, struct err *e);
int64_t clickhouse_time(const void *driver);
// When the store is opened: age counts from the newest day that there is.
void clickhouse_begin_retention(struct clickhouse *c);
int clickhouse_delete_service(void *driver, struct str tenant, struct str service, uint64_t *n,
                              struct err *e);
int clickhouse_stats(void *driver, struct str tenant, struct budget *budget,
                     struct store_stats *stats, struct err *e);
int clickhouse_tenants(void *driver, struct arena *arena, struct str **tenants, size_t *n,
                       struct err *e);

// --- clickhouse_check.c ---

int clickhouse_check(void *driver, void (*found)(void *ctx, const char *text), void *ctx,
                     struct err *e);

// --- clickhouse_names.c ---

// Names of addresses, in an arena out of which these may jump.
struct late_names {
    struct late_name *items;
    size_t n;
};
int names_ask(struct clickhouse *c, struct str tenant, const uint64_t *places, size_t n,
              struct arena *arena, struct late_names *names, struct err *e);
// Of an address: how many lines; 0: it has no name.
uint32_t names_lines(const struct late_names *names, struct str build_id, uint64_t place,
                     struct model_builder *b, struct model_line **lines);
// Forgets stacks if another server wrote names.
int clickhouse_watch_names(struct clickhouse *c, struct err *e);
int clickhouse_unnamed(void *driver, struct str tenant, struct str build_id, int64_t start,
                       int64_t end, struct arena *arena, struct store_address **addresses,
                       size_t *n, struct err *e);
int clickhouse_name(void *driver, struct str tenant, const struct store_name *names, size_t n,
                    struct err *e);
