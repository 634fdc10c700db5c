#include <stdio.h>
#include <stdlib.h>

#include "store/clickhouse.h"

const char *const clickhouse_tables[N_TABLES] = {"locations", "stacks", "series", "samples",
                                                 "profiles"};

// A table of one version of the schema. On a cluster NAME_local is replicated, and NAME distributes
// over the shards. A batch goes to one shard as a whole, so it is stored completely or not at all.
struct definition {
    const char *name, *columns, *engine, *version, *order, *shard;
    bool once; // without deduplication: a block equal to an earlier one is not a retry
};

static const struct definition definitions[] = {
    {"locations",
     "day Date, tenant String, service String, location FixedString(16), address UInt64,"
     " folded UInt8, mapped UInt8, size UInt64, offset UInt64, file String, build_id String, flags "
     "UInt32,"
     " names Array(String), system_names Array(String), files Array(String),"
     " start_lines Array(Int64), lines Array(Int64), columns Array(Int64), start UInt64",
     "ReplacingMergeTree", "", "tenant, service, location", "sipHash64(location)", false},
    {"stacks",
     "day Date, tenant String, service String, stack UInt64, id FixedString(16),"
     " locations Array(FixedString(16))",
     "ReplacingMergeTree", "", "tenant, service, stack, id", "sipHash64(stack)", false},
    {"series",
     "day Date, tenant String, service String, series FixedString(16), kind String,"
     " label_names Array(String), label_values Array(String), families Array(FixedString(16)),"
     " base FixedString(16), derived UInt64",
     "ReplacingMergeTree", "", "tenant, service, series", "sipHash64(series)", false},
    {"samples",
     "day Date, family FixedString(16), hour UInt32, series FixedString(16),"
     " stack UInt64, ts Int64, span UInt64, trace_high UInt64, trace_low UInt64,"
     " value Int64, batch UInt64, tenant String",
     "MergeTree", "", "tenant, family, hour, series, ts, stack", "batch", false},
    {"profiles",
     "day Date, family FixedString(16), hour UInt32, series FixedString(16), ts Int64,"
     " id FixedString(16), total Int64, duration Int64, n UInt32, own UInt8, first UInt8,"
     " batch UInt64, tenant String",
     "MergeTree", "", "tenant, family, hour, series, ts", "batch", false},
    {"voids", "day Date, tenant String, series FixedString(16), ts Int64, batch UInt64",
     "ReplacingMergeTree", "", "tenant, series, ts, batch", "batch", false},
    {"drops", "day Date, dropped Date, number UInt64, began Int64, ended UInt8", "MergeTree", "",
     "dropped, number", "number", true},
    {"names",
     "day Date, tenant String, build_id String, place UInt64, version UInt64, frames String",
     "ReplacingMergeTree", "version", "tenant, build_id, place", "place", true},
    // total is the sum modulo 2^64; together with high, the sum of the upper halves, it is exact.
    {"hourly",
     "day Date, family FixedString(16), hour UInt32, series FixedString(16),"
     " stack UInt64, total Int64, high Int64, n UInt64, tenant String",
     "SummingMergeTree", "", "tenant, family, hour, series, stack", "sipHash64(series)", true},
};

static int create_table(struct clickhouse *c, const struct definition *d, struct err *e)
{
    const char *db = c->at.database, *cluster = c->at.cluster;
    if (!*cluster)
        return clickhouse_run(
            c, e,
            "CREATE TABLE IF NOT EXISTS %s.%s (%s) ENGINE = %s(%s) PARTITION BY day "
            "ORDER BY (%s) SETTINGS index_granularity = 8192%s",
            db, d->name, d->columns, d->engine, d->version, d->order,
            // Older versions deduplicate blocks only with ZooKeeper.
            c->version >= 22000 && !d->once ? ", non_replicated_deduplication_window = 1000" : "");
    int code = clickhouse_run(
        c, e,
        "CREATE TABLE IF NOT EXISTS %s.%s_local ON CLUSTER %s (%s) ENGINE = "
        "Replicated%s('/clickhouse/tables/{shard}/%s/%s', '{replica}'%s%s) PARTITION BY day "
        "ORDER BY (%s) SETTINGS index_granularity = 8192, replicated_deduplication_window = %d",
        db, d->name, cluster, d->columns, d->engine, db, d->name, *d->version ? ", " : "",
        d->version, d->order, d->once ? 0 : 1000);
    return code ? code
                : clickhouse_run(c, e,
                                 "CREATE TABLE IF NOT EXISTS %s.%s ON CLUSTER %s (%s) ENGINE = "
                                 "Distributed(%s, %s, %s_local, %s)",
                                 db, d->name, cluster, d->columns, cluster, db, d->name, d->shard);
}

// --- the secret of stack numbers ---

struct id clickhouse_stack_key(struct clickhouse *c)
{
    pthread_mutex_lock(&c->lock);
    struct id key = c->stack_key;
    pthread_mutex_unlock(&c->lock);
    return key;
}

// A view of a constant: each node has it independently of the others. If two servers start at the
// same time, the same one wins on all nodes.
static int create_stack_key(struct clickhouse *c, struct err *e)
{
    struct id key = clickhouse_stack_key(c);
    return clickhouse_run(c, e,
                          "CREATE VIEW IF NOT EXISTS %s.stack_key%s%s AS SELECT '%016llx%016llx' "
                          "AS stack_key",
                          c->at.database, *c->at.cluster ? " ON CLUSTER " : "", c->at.cluster,
                          (unsigned long long)key.a, (unsigned long long)key.b);
}

static int find_stack_key(struct clickhouse *c, struct err *e)
{
    struct arena *arena = arena_new(0);
    struct unpack rows;
    struct id key;
    char sql[200];
    snprintf(sql, sizeof sql, "SELECT stack_key FROM %s.stack_key FORMAT RowBinary",
             c->at.database);
    int code =
        arena ? clickhouse_query(c, str_from(sql), arena, &rows, e) : err_set(e, "no memory");
    struct str text = code ? STR("") : unpack_str(&rows);
    if (!code && (text.n != 32 || !str_to_u64(str_from_to(text, 0, 16), 16, &key.a) ||
                  !str_to_u64(str_from_to(text, 16, 32), 16, &key.b)))
        code = err_set(e, "%s.stack_key at %s is not a key of 32 hexadecimal digits",
                       c->at.database, c->at.base);
    arena_free(arena);
    if (code)
        return code;
    pthread_mutex_lock(&c->lock);
    c->stack_key = key;
    pthread_mutex_unlock(&c->lock);
    return 0;
}

// --- migration steps ---

static int create_all(struct clickhouse *c, struct err *e)
{
    int code = 0;
    for (size_t i = 0; i < sizeof definitions / sizeof *definitions && !code; i++)
        code = create_table(c, &definitions[i], e);
    if (!code)
        code = create_stack_key(c, e);
    const char *local = *c->at.cluster ? "_local" : "";
    return code ? code
                : clickhouse_run(
                      c, e,
                      "CREATE MATERIALIZED VIEW IF NOT EXISTS %s.hourly_view%s%s TO %s.hourly%s "
                      "AS SELECT day, family, hour, series, stack, sum(value) AS total, "
                      "sum(" SQL_HIGH(
                          "value") ") AS high, count() AS n, tenant FROM "
                                   "%s.samples%s GROUP BY day, tenant, family, hour, series, stack",
                      c->at.database, *local ? " ON CLUSTER " : "", c->at.cluster, c->at.database,
                      local, c->at.database, local);
}

// No version of kiln with older tables was released.
static int refuse_older(struct clickhouse *c, uint64_t have, struct err *e)
{
    return err_set(e,
                   "database %s at %s has tables of unsupported version %llu; use another database "
                   "in --store, or drop it (DROP DATABASE %s)",
                   c->at.database, c->at.base, (unsigned long long)have, c->at.database);
}

// The first step takes an empty database to FIRST_VERSION, each further step to the next version.
// Steps are idempotent, because two servers may start at the same time.
enum { FIRST_VERSION = 3 };
static int (*const schema_steps[])(struct clickhouse *c, struct err *e) = {create_all};
enum { VERSION = FIRST_VERSION - 1 + sizeof schema_steps / sizeof *schema_steps };

static int query_server_version(struct clickhouse *c, struct err *e)
{
    struct arena *arena = arena_new(0);
    struct unpack rows;
    uint64_t major = 0, minor = 0;
    int code = arena
                   ? clickhouse_query(c, STR("SELECT version() FORMAT RowBinary"), arena, &rows, e)
                   : err_set(e, "no memory");
    if (!code) {
        struct str v = unpack_str(&rows);
        size_t dot = str_find(v, STR("."), 0);
        size_t end = dot == SIZE_MAX ? SIZE_MAX : str_find(v, STR("."), dot + 1);
        if (end == SIZE_MAX || !str_to_u64(str_from_to(v, 0, dot), 10, &major) ||
            !str_to_u64(str_from_to(v, dot + 1, end), 10, &minor))
            code = err_set(e, "%s: invalid response; expected ClickHouse", c->at.base);
    }
    arena_free(arena);
    c->version = (unsigned)(major * 1000 + minor);
    return code;
}

// Returns the version of the tables; 0: there are none. Checked first, because statements for a
// whole cluster wait for every node.
static int query_schema_version(struct clickhouse *c, uint64_t *have, struct err *e)
{
    char sql[256];
    snprintf(sql, sizeof sql,
             "SELECT count() FROM system.tables WHERE database = '%s' AND name = 'kiln_schema' "
             "FORMAT RowBinary",
             c->at.database);
    int code = clickhouse_number(c, str_from(sql), NULL, have, e);
    if (code || !*have)
        return code;
    snprintf(sql, sizeof sql, "SELECT max(version) FROM %s.kiln_schema FORMAT RowBinary",
             c->at.database);
    return clickhouse_number(c, str_from(sql), NULL, have, e);
}

int clickhouse_check_version(struct clickhouse *c, struct err *e)
{
    uint64_t have = 0;
    int code = query_server_version(c, e);
    if (!code)
        code = query_schema_version(c, &have, e);
    if (!code && have && have < FIRST_VERSION)
        code = refuse_older(c, have, e);
    else if (!code && have != VERSION)
        code = err_set(e, "database %s at %s has tables of version %llu; expected %d%s",
                       c->at.database, c->at.base, (unsigned long long)have, VERSION,
                       have ? "" : "; no kiln server has used it yet");
    return code;
}

int clickhouse_migrate(struct clickhouse *c, struct err *e)
{
    const char *db = c->at.database, *cluster = c->at.cluster;
    const char *on = *cluster ? " ON CLUSTER " : "";
    uint64_t have = 0;
    int code = query_server_version(c, e);
    if (!code)
        code = query_schema_version(c, &have, e);
    if (!code && have == VERSION)
        code = find_stack_key(c, e);
    if (code || have == VERSION)
        return code;
    if (have && have < FIRST_VERSION)
        return refuse_older(c, have, e);
    if (have > VERSION)
        return err_set(e,
                       "database %s at %s was created by a newer kiln (schema %llu; this kiln "
                       "supports %d); update this server",
                       db, c->at.base, (unsigned long long)have, VERSION);
    code = clickhouse_run(c, e, "CREATE DATABASE IF NOT EXISTS %s%s%s", db, on, cluster);
    // On every node, so that a server may query any of them.
    if (!code)
        code = clickhouse_run(c, e,
                              "CREATE TABLE IF NOT EXISTS %s.kiln_schema%s%s (day Date, version "
                              "UInt64) ENGINE = MergeTree PARTITION BY day ORDER BY version",
                              db, on, cluster);
    uint64_t next = have < FIRST_VERSION ? FIRST_VERSION : have + 1;
    for (; next <= VERSION && !code; next++) {
        code = schema_steps[next - FIRST_VERSION](c, e);
        if (!code)
            code = clickhouse_run(c, e, "INSERT INTO %s.kiln_schema VALUES (toDate(0), %llu)", db,
                                  (unsigned long long)next);
    }
    return code ? code : find_stack_key(c, e);
}
