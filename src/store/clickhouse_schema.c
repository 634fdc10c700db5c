#include <stdio.h>
#include <stdlib.h>

#include "store/clickhouse.h"

const char *const clickhouse_tables[N_TABLES] = {"locations", "stacks", "series", "samples",
                                                 "profiles"};

// A table of one version of the schema. On a cluster NAME_local is replicated and NAME spreads
// over the shards; a batch goes to one shard as a whole, so that it is there or not.
struct definition {
    const char *name, *columns, *engine, *version, *order, *shard;
    bool once; // a block that looks like an earlier one is another one, not a repetition
};

static const struct definition definitions[] = {
    {"locations",
     "day Date, scope UInt64, location UInt64, address UInt64, folded UInt8, mapped UInt8,"
     " size UInt64, offset UInt64, file String, build_id String, flags UInt32,"
     " names Array(String), system_names Array(String), files Array(String),"
     " start_lines Array(Int64), lines Array(Int64), columns Array(Int64), start UInt64",
     "ReplacingMergeTree", "", "scope, location", "location", false},
    {"stacks", "day Date, scope UInt64, stack UInt64, locations Array(UInt64)",
     "ReplacingMergeTree", "", "scope, stack", "stack", false},
    {"series",
     "day Date, tenant String, scope UInt64, series UInt64, service String, kind String,"
     " label_names Array(String), label_values Array(String), families Array(UInt64),"
     " base UInt64, derived UInt64",
     "ReplacingMergeTree", "", "tenant, service, series", "series", false},
    {"samples",
     "day Date, family UInt64, hour UInt32, series UInt64, stack UInt64, ts Int64, span UInt64,"
     " trace_high UInt64, trace_low UInt64, value Int64, batch UInt64",
     "MergeTree", "", "family, hour, series, stack", "batch", false},
    {"profiles",
     "day Date, family UInt64, hour UInt32, series UInt64, ts Int64, id UInt64, total Int64,"
     " duration Int64, n UInt32, own UInt8, batch UInt64",
     "MergeTree", "", "family, hour, series, ts", "batch", false},
    {"voids", "day Date, series UInt64, ts Int64, batch UInt64", "ReplacingMergeTree", "",
     "series, ts, batch", "batch", false},
    {"names",
     "day Date, tenant String, build_id String, place UInt64, version UInt64, frames String",
     "ReplacingMergeTree", "version", "tenant, build_id, place", "place", true},
    {"hourly",
     "day Date, family UInt64, hour UInt32, series UInt64, stack UInt64, total Int64, n UInt64",
     "SummingMergeTree", "", "family, hour, series, stack", "series", true},
};

static int create(struct clickhouse *c, const struct definition *d, struct err *e)
{
    const char *db = c->at.database, *cluster = c->at.cluster;
    if (!*cluster)
        return clickhouse_run(
            c, e,
            "CREATE TABLE IF NOT EXISTS %s.%s (%s) ENGINE = %s(%s) PARTITION BY day "
            "ORDER BY (%s) SETTINGS index_granularity = 8192%s",
            db, d->name, d->columns, d->engine, d->version, d->order,
            // Only newer ones know repeated blocks without ZooKeeper.
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

static int first_version(struct clickhouse *c, struct err *e)
{
    int code = 0;
    for (size_t i = 0; i < sizeof definitions / sizeof *definitions && !code; i++)
        code = create(c, &definitions[i], e);
    const char *local = *c->at.cluster ? "_local" : "";
    return code ? code
                : clickhouse_run(
                      c, e,
                      "CREATE MATERIALIZED VIEW IF NOT EXISTS %s.hourly_view%s%s TO %s.hourly%s "
                      "AS SELECT day, family, hour, series, stack, sum(value) AS total, "
                      "count() AS n FROM %s.samples%s GROUP BY day, family, hour, series, stack",
                      c->at.database, *local ? " ON CLUSTER " : "", c->at.cluster, c->at.database,
                      local, c->at.database, local);
}

// The first brings an empty database to version 1, the next that to version 2, and so on. Each can
// be run again: two servers may start at once.
static int (*const steps[])(struct clickhouse *c, struct err *e) = {first_version};
enum { VERSION = sizeof steps / sizeof *steps };

static int find_version(struct clickhouse *c, struct err *e)
{
    struct arena *arena = arena_new(0);
    struct unpack rows;
    uint64_t major = 0, minor = 0;
    int code = arena ? clickhouse_ask(c, STR("SELECT version() FORMAT RowBinary"), arena, &rows, e)
                     : err_set(e, "no memory");
    if (!code) {
        struct str v = unpack_str(&rows);
        size_t dot = str_find(v, STR("."), 0);
        size_t end = dot == SIZE_MAX ? SIZE_MAX : str_find(v, STR("."), dot + 1);
        if (end == SIZE_MAX || !str_to_u64(str_from_to(v, 0, dot), 10, &major) ||
            !str_to_u64(str_from_to(v, dot + 1, end), 10, &minor))
            code = err_set(e, "%s does not answer as ClickHouse does", c->at.base);
    }
    arena_free(arena);
    c->version = (unsigned)(major * 1000 + minor);
    return code;
}

// 0: there is nothing yet. Statements for a whole cluster wait for each of its nodes, so they are
// left out where nothing is to be done.
static int have_version(struct clickhouse *c, uint64_t *have, struct err *e)
{
    char sql[256];
    snprintf(sql, sizeof sql,
             "SELECT count() FROM system.tables WHERE database = '%s' AND name = 'kiln_schema' "
             "FORMAT RowBinary",
             c->at.database);
    int code = clickhouse_number(c, str_from(sql), have, e);
    if (code || !*have)
        return code;
    snprintf(sql, sizeof sql, "SELECT max(version) FROM %s.kiln_schema FORMAT RowBinary",
             c->at.database);
    return clickhouse_number(c, str_from(sql), have, e);
}

int clickhouse_look(struct clickhouse *c, struct err *e)
{
    uint64_t have = 0;
    int code = find_version(c, e);
    if (!code)
        code = have_version(c, &have, e);
    if (!code && have != VERSION)
        code = err_set(e, "database %s at %s has tables of version %llu, this kiln knows %d%s",
                       c->at.database, c->at.base, (unsigned long long)have, VERSION,
                       have ? "" : "; no kiln server has used it yet");
    return code;
}

int clickhouse_migrate(struct clickhouse *c, struct err *e)
{
    const char *db = c->at.database, *cluster = c->at.cluster;
    const char *on = *cluster ? " ON CLUSTER " : "";
    uint64_t have = 0;
    int code = find_version(c, e);
    if (!code)
        code = have_version(c, &have, e);
    if (code || have == VERSION)
        return code;
    if (have > VERSION)
        return err_set(e,
                       "database %s at %s was made by a newer kiln (schema %llu, this one knows "
                       "%d): update this server",
                       db, c->at.base, (unsigned long long)have, VERSION);
    code = clickhouse_run(c, e, "CREATE DATABASE IF NOT EXISTS %s%s%s", db, on, cluster);
    // On every node, so that a server may ask any of them.
    if (!code)
        code = clickhouse_run(c, e,
                              "CREATE TABLE IF NOT EXISTS %s.kiln_schema%s%s (day Date, version "
                              "UInt64) ENGINE = MergeTree PARTITION BY day ORDER BY version",
                              db, on, cluster);
    for (uint64_t v = have; v < VERSION && !code; v++) {
        code = steps[v](c, e);
        if (!code)
            code = clickhouse_run(c, e, "INSERT INTO %s.kiln_schema VALUES (toDate(0), %llu)", db,
                                  (unsigned long long)v + 1);
    }
    return code;
}
