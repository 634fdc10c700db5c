#include "server/server.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "changes/changes.h"
#include "net/listen.h"
#include "server/alerts.h"
#include "server/debuginfo.h"
#include "server/memory.h"
#include "server/routes.h"
#include "server/rules.h"
#include "server/scrape.h"
#include "server/tenants.h"

// Of memory that requests and commits used: what a few dozen pushes at once need.
enum { ARENAS_KEPT = 24 << 20 };

enum {
    CONNECTIONS = 4096, // unless the configuration says otherwise
    CONNECTIONS_LEAST = 16,
    OTHER_MEMORY = 64 << 20, // of the process: code, stacks, what is kept for later
    MEMORY_LEAST = 32 << 20, // of requests
    STOP_MS = 4500,          // from the signal to the end of the process
};
#define CHANGES_CPU 0.05                               // of a core, for the search for changes
static const uint64_t MEMORY_MOST = (uint64_t)2 << 30; // unless the configuration says otherwise

static void store_note(void *context, const char *text)
{
    (void)context;
    server_log("warn", text, "component", "store", NULL);
}

static void changes_note(void *context, const char *text)
{
    (void)context;
    server_log("warn", text, "component", "changes", NULL);
}

static char *read_pem(const char *file, struct err *e)
{
    enum { PEM_MAX = 1 << 20 };
    FILE *f = fopen(file, "r");
    char *text = calloc(1, PEM_MAX + 1);
    if (!f || !text || ferror(f)) {
        err_set(e, "%s: %s", file, strerror(errno));
        free(text);
        text = NULL;
    } else if (fread(text, 1, PEM_MAX, f) == PEM_MAX) {
        err_set(e, "%s: larger than 1 MiB: not a certificate or key", file);
        free(text);
        text = NULL;
    }
    if (f)
        fclose(f);
    return text;
}

// What the process may hold.
static uint64_t total_memory(const struct server_config *config)
{
    uint64_t total = memory_default();
    if (config->process_memory)
        return config->process_memory;
    return total < MEMORY_MOST ? total : MEMORY_MOST;
}

// Connections, which take memory and descriptors. Twice as many may be open for a moment
// (net/web.c): they get an eighth of the memory, and half of the descriptors is for files.
static unsigned limit_connections(const struct server_config *config)
{
    struct rlimit files;
    uint64_t n = config->connections;
    if (!n) {
        n = total_memory(config) / 8 / (2 * WEB_CONNECTION_MEMORY);
        n = n > CONNECTIONS ? CONNECTIONS : n;
    }
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && n > files.rlim_cur / 4)
        n = files.rlim_cur / 4;
    return n > 1 << 20 ? 1 << 20 : n > CONNECTIONS_LEAST ? (unsigned)n : CONNECTIONS_LEAST;
}

// Limits the memory of requests. The store and connections have limits of their own.
static void limit_memory(struct server *s, const struct store_options *store)
{
    const struct server_config *config = s->config;
    uint64_t total = total_memory(config);
    uint64_t held = (store->memory ? store->memory : (uint64_t)128 << 20) + OTHER_MEMORY +
                    (uint64_t)limit_connections(config) * WEB_CONNECTION_MEMORY;
    uint64_t requests = total > held + MEMORY_LEAST ? total - held : MEMORY_LEAST;
    if (config->n_scrapes)
        s->scraping = (size_t)requests / SERVER_SCRAPING_SHARE;
    requests -= s->scraping;
    tenants_init(&s->memory, (size_t)requests,
                 config->tenant_memory ? config->tenant_memory : (size_t)requests / 4 * 3);
}

// As many as the process may have.
static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int start_web(struct server *s, struct listener *listener, struct err *e)
{
    const struct server_config *config = s->config;
    s->loopback = listener->loopback;
    s->host = listener->host;
    // Rebinding gains nothing where credentials are needed, and TLS checks the name itself.
    s->any_host = !listener->host[0] || config->n_access || config->tls_cert;
    char *cert = NULL, *key = NULL;
    if (config->tls_cert &&
        (!(cert = read_pem(config->tls_cert, e)) || !(key = read_pem(config->tls_key, e)))) {
        free(cert);
        return -1;
    }
    struct web_options options = {
        .context = s,
        .admit = routes_admit,
        .handle = routes_handle,
        .late = routes_late,
        .hold = tenants_hold,
        .release = tenants_release,
        .account = &s->memory,
        .tls_certificate = cert,
        .tls_key = key,
        .connections = limit_connections(config),
        .arena_limit = s->memory.limit / 2,
        .body_limit = config->limits.body,
        .request_seconds = (unsigned)(config->request_time / 1000000000),
        .idle_seconds = (unsigned)(config->idle_time / 1000000000),
    };
    s->web = web_start(listener, &options, e);
    free(cert);
    free(key);
    return s->web ? 0 : -1;
}

// SIGHUP: new scrape targets, whether changes are looked for, who hears of them, and rules. What
// else the file says needs a restart.
static void reload_config(struct server *s, const char *file)
{
    struct err e = {""};
    struct server_config *config = file ? server_config_read(file, &e) : NULL;
    if (!config) {
        server_log("error", "cannot reload the configuration; keeping the old one", "error",
                   file ? e.message : "the server was started without --config", NULL);
        return;
    }
    changes_pause(s->changes, !config->changes);
    alerts_reload(s->alerts, config);
    rules_reload(s->rules, config);
    scraper_reload(s->scraper, config);
    server_log("info", "scrape targets, alerts and rules reloaded", "file", file, NULL);
}

static void wait_for_signals(struct server *s, const char *file, const sigset_t *signals)
{
    for (int signal;;) {
        if (sigwait(signals, &signal))
            continue;
        if (signal == SIGHUP) {
            reload_config(s, file);
            continue;
        }
        server_log("info", "stopping", "signal", strsignal(signal), NULL);
        return;
    }
}

// Orchestrators kill what does not end within seconds. Requests are canceled and nothing new
// begins, but a disk or a network file system may hold a thread for long. What was acknowledged is
// durable, so nothing is lost by leaving the rest behind.
static void *exit_in_time(void *context)
{
    struct timespec t = {STOP_MS / 1000, STOP_MS % 1000 * 1000000};
    (void)context;
    while (nanosleep(&t, &t) && errno == EINTR)
        ;
    server_log("error", "shutdown timed out: exiting", "seconds", "4.5", NULL);
    _exit(0);
}

static void limit_stop(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, exit_in_time, NULL) == 0)
        pthread_detach(thread);
}

static struct changes *open_changes(struct server *s, struct err *e)
{
    const struct server_config *config = s->config;
    const struct changes_options options = {
        .data = config->data,
        .store = s->store,
        .memory = &s->memory,
        .paused = !config->changes,
        .window = config->changes_window,
        .lasting = config->changes_lasting,
        .deploy_labels = config->deploy_labels,
        .n_deploy_labels = config->n_deploy_labels,
        .cpu = CHANGES_CPU,
        .note = changes_note,
        .changed = alerts_wake,
        .changed_ctx = s->alerts,
    };
    return changes_open(&options, e);
}

// Writes the address as clients use it: the listener does not know of TLS.
static void write_server_url(const struct server *s, const struct listener *l, char url[400])
{
    bool tls = s->config->tls_cert && strncmp(l->address, "http:", 5) == 0;
    snprintf(url, 400, "%s%s", tls ? "https" : "", tls ? l->address + 4 : l->address);
}

static int serve_requests(struct server *s, const struct server_options *o, struct err *e)
{
    struct listener listener;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    arena_keep(ARENAS_KEPT);
    raise_descriptors();
    struct store_options store = s->config->store;
    store.note = store_note;
    store.directory = s->config->data;
    limit_memory(s, &store);
    if (!(s->store = store_open(s->config->place ? s->config->place : s->config->data, &store, e)))
        return -1;
    const struct debuginfo_options debuginfo = {
        .data = s->config->data,
        .store = s->store,
        .file_limit = s->config->debuginfo_file,
        .total_limit = s->config->debuginfo_total,
        .keep_free = store.keep_free,
        .directories = s->config->debuginfo_directories,
        .n_directories = s->config->n_debuginfo_directories,
    };
    int result = -1;
    s->debuginfo = debuginfo_open(&debuginfo, e);
    s->alerts = alerts_new(s);
    s->rules = rules_new(s);
    if (!s->alerts || !s->rules)
        err_set(e, "out of memory");
    else if (s->debuginfo)
        s->changes = open_changes(s, e);
    if (s->changes && listener_open(&listener, s->config->listen, e) == 0) {
        // Requests ask about targets: the scraper is there before the first and after the last.
        s->scraper = scraper_start(s, s->config);
        if (start_web(s, &listener, e) == 0 && changes_start(s->changes, e) == 0) {
            char url[400];
            write_server_url(s, &listener, url);
            if (!listener.loopback && listener.host[0] && !s->config->n_access)
                server_log("warn",
                           "no authentication is configured: every client can push and read",
                           "address", url, NULL);
            alerts_start(s->alerts, s->config, listener.address);
            rules_reload(s->rules, s->config);
            server_log("info", "listening", "address", url, "data", s->config->data, "version",
                       KILN_VERSION, NULL);
            wait_for_signals(s, o->config, &signals);
            limit_stop();
            alerts_stop(s->alerts);
            rules_stop(s->rules);
            result = 0;
        }
        if (s->web)
            web_stop(s->web);
        else
            listener_close(&listener);
        scraper_stop(s->scraper);
    }
    changes_close(s->changes);
    alerts_free(s->alerts);
    rules_free(s->rules);
    debuginfo_close(s->debuginfo);
    store_close(s->store);
    if (result == 0)
        server_log("info", "stopped", NULL);
    return result;
}

void server_hide_files(void)
{
    umask(umask(027) | 027);
}

int server_run(const struct server_options *options)
{
    struct err e = {""};
    server_hide_files();
    struct server *s = calloc(1, sizeof *s);
    if (!s)
        return 2;
    s->started = server_now();
    s->config = server_config_read(options->config, &e);
    int result = -1;
    if (s->config) {
        if (options->listen)
            s->config->listen = options->listen;
        if (options->data)
            s->config->data = options->data;
        if (options->store)
            s->config->place = options->store;
        if (options->base_path)
            s->config->base_path = options->base_path;
        result = serve_requests(s, options, &e);
    }
    if (result)
        fprintf(stderr, "kiln server: %s\n", e.message);
    server_config_free(s->config);
    free(s);
    return result ? 2 : 0;
}
