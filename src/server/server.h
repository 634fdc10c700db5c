// `kiln server`: takes profiles in, stores them and answers queries.
// Wiring, no algorithms: decoding is codec's, keeping is store's, answering is query's.
//
// server.c      start, stop, signals
// care.c        backup and check of the data
// routes.c      which path is whose, admission of requests
// tenants.c     tenants with requests under way: their memory and their turns
// memory.c      how much memory the process may use
// call.c        one request: bodies in, answers and errors out
// ingest*.c     profiles in: Push, /ingest, OTLP
// query_api.c, render_api.c   questions: Connect and the older endpoints
// scrape*.c     profiles fetched from services
// changes_api.c, annotation_api.c   what src/changes found, and notes that it takes
// alert*.c      receivers that hear of changes
// rules.c       functions as metrics
// worker.c      the threads of alerts and rules
// debuginfo*.c  debug files, and names for frames that came without
// config.c      the YAML file
#pragma once

#include <stdatomic.h>

#include "net/web.h"
#include "query/query.h"
#include "server/config.h"
#include "store/store.h"

struct scraper;
struct debuginfo;
struct changes;
struct alerts;
struct rules;

enum { SERVER_SCRAPING_SHARE = 3 }; // a third of the memory of requests, if anything is scraped

struct server_counters {
    _Atomic uint64_t profiles, samples, bytes; // taken in
    _Atomic uint64_t corrected;                // whose time was not plausible
    _Atomic uint64_t refused[6];               // requests, by enum server_refusal
    _Atomic uint64_t answers[6];               // by the status's first digit
    _Atomic uint64_t query_nanos, push_nanos, queries, pushes;
};

struct server {
    struct server_config *config;
    struct store *store;
    struct web_server *_Atomic web; // NULL while it starts, though it may answer already
    struct scraper *scraper;
    struct debuginfo *debuginfo;
    struct changes *changes;
    struct alerts *alerts;
    struct rules *rules;
    struct server_counters counters;
    struct budget_account memory; // of all requests
    size_t scraping;              // bytes that are set aside for scraping; 0: nothing is scraped
    bool loopback, any_host;      // who is served; any_host: Host is not checked
    const char *host;             // that the server listens on
    int64_t started;              // CLOCK_REALTIME, ns
};

struct server_options {
    const char *listen; // NULL: the configuration's
    const char *data;
    const char *store;
    const char *config;
    const char *base_path;
};

// Runs until SIGTERM or SIGINT. The exit status.
int server_run(const struct server_options *options);

// A copy of the data directory into to, which must not exist; and whether all of it can be read,
// told on standard output. Also while a server runs. The exit status: 0; 1: something is damaged;
// 2: it could not be done.
int server_backup(const struct server_options *options, const char *to);
// From now on, other users of the machine cannot read the files that this process creates.
void server_hide_files(void);
int server_check(const struct server_options *options);

// logfmt on standard error: level, message, then pairs of key and value, NULL at the end. Never
// waits: lines that find no room, or are too many, are counted in the next one (lost_lines).
void server_log(const char *level, const char *message, ...) __attribute__((sentinel));
int64_t server_now(void); // CLOCK_REALTIME, ns
