#include "server/config.h"

#include <errno.h>
#include <stdio.h>

#include "server/config_tables.h"
#include "server/limits.h"

enum { PROCESS_MEMORY_LEAST = 64 << 20, RECEIVERS_MAX = 20, RULES_MAX = 100 };

static const struct yaml_table limits_table = {
    (const struct yaml_key[]){
        KEY("body_size", YAML_BYTES, struct server_config, limits.body),
        KEY("profile_size", YAML_BYTES, struct server_config, limits.profile),
        KEY("stack_depth", YAML_COUNT, struct server_config, limits.depth),
        KEY("label_name_length", YAML_COUNT, struct server_config, limits.label_name),
        KEY("label_value_length", YAML_COUNT, struct server_config, limits.label_value),
        KEY("labels", YAML_COUNT, struct server_config, limits.labels),
        KEY("symbol_length", YAML_COUNT, struct server_config, limits.symbol),
        KEY("samples", YAML_COUNT, struct server_config, limits.samples),
        KEY("sample_labels", YAML_COUNT, struct server_config, limits.sample_labels),
        KEY("past", YAML_DURATION, struct server_config, limits.past),
        KEY("future", YAML_DURATION, struct server_config, limits.future),
        KEY("connections", YAML_COUNT, struct server_config, connections),
        KEY("request_time", YAML_DURATION, struct server_config, request_time),
        KEY("idle_time", YAML_DURATION, struct server_config, idle_time),
        KEY("query_time", YAML_DURATION, struct server_config, query_time),
        KEY("process_memory", YAML_BYTES, struct server_config, process_memory),
        KEY("tenant_memory", YAML_BYTES, struct server_config, tenant_memory),
        KEY("debuginfo_size", YAML_BYTES, struct server_config, debuginfo_file),
        KEY("debuginfo_total", YAML_BYTES, struct server_config, debuginfo_total),
        KEY("memory", YAML_BYTES, struct server_config, store.memory),
        END,
    },
    0, NULL, NULL};

static const struct yaml_table retention_table = {
    (const struct yaml_key[]){
        KEY("age", YAML_DURATION, struct server_config, store.keep_nanos),
        KEY("size", YAML_BYTES, struct server_config, store.keep_bytes),
        KEY("free", YAML_BYTES, struct server_config, store.keep_free),
        END,
    },
    0, NULL, NULL};

static const struct yaml_table server_tls_table = {
    (const struct yaml_key[]){
        KEY("cert_file", YAML_CTEXT, struct server_config, tls_cert),
        KEY("key_file", YAML_CTEXT, struct server_config, tls_key),
        END,
    },
    0, NULL, NULL};

static const struct yaml_table changes_table = {
    (const struct yaml_key[]){
        KEY("enabled", YAML_BOOL, struct server_config, changes),
        KEY("window", YAML_DURATION, struct server_config, changes_window),
        KEY("lasting", YAML_DURATION, struct server_config, changes_lasting),
        KEY("deploy_labels", YAML_TEXTS, struct server_config, deploy_labels),
        OF("alerts", YAML_ITEMS, struct server_config, alerts, config_alert_table),
        END,
    },
    0, NULL, NULL};

static int read_scopes(struct yaml_reader *r, const char *key, yaml_node_t *node, void *object)
{
    static const char *const names[] = {"push", "read", "admin"};
    struct server_access *a = object;
    if (node->type != YAML_SEQUENCE_NODE)
        return yaml_fail(r, node, key, "expected a list of push, read, admin");
    a->scopes = 0;
    for (yaml_node_item_t *i = node->data.sequence.items.start; i < node->data.sequence.items.top;
         i++) {
        struct str text;
        yaml_node_t *item = yaml_document_get_node(&r->document, *i);
        if (yaml_text(r, key, item, &text))
            return -1;
        unsigned scope = 0;
        for (unsigned k = 0; k < 3; k++)
            if (strcmp(text.p, names[k]) == 0)
                scope = 1u << k;
        if (!scope)
            return yaml_fail(r, item, key, "unknown scope '%s'; expected push, read or admin",
                             text.p);
        a->scopes |= scope;
    }
    return 0;
}

static int read_secret_file(struct yaml_reader *r, const char *key, yaml_node_t *node, void *object)
{
    struct server_access *a = object;
    struct str name;
    char text[4097];
    if (yaml_text(r, key, node, &name))
        return -1;
    FILE *f = fopen(name.p, "r");
    if (!f)
        return yaml_fail(r, node, key, "%s: %s", name.p, strerror(errno));
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    struct str secret = str_trim((struct str){text, n});
    a->secret = (struct str){arena_copy(r->arena, secret.p, secret.n), secret.n};
    return 0;
}

static int check_access(struct yaml_reader *r, yaml_node_t *node, void *element)
{
    struct server_access *a = element;
    if (a->secret.n < 8)
        return yaml_fail(r, node, "auth", "token or password is missing or shorter than 8 bytes");
    if (!a->scopes)
        return yaml_fail(r, node, "auth", "scopes is missing; expected push, read or admin");
    for (size_t i = 0; i < a->n_tenants; i++) {
        if (str_eq(a->tenants[i], STR("*"))) {
            a->any_tenant = true;
            a->n_tenants = i; // later values are ignored
            break;
        }
        if (!store_is_tenant(a->tenants[i]))
            return yaml_fail(r, node, "tenants", "'%s' is not a tenant name", a->tenants[i].p);
    }
    return 0;
}

static const struct yaml_table access_table = {
    (const struct yaml_key[]){
        KEY("user", YAML_TEXT, struct server_access, name),
        KEY("token", YAML_TEXT, struct server_access, secret),
        KEY("password", YAML_TEXT, struct server_access, secret),
        {"token_file", YAML_OTHER, 0, NULL, read_secret_file},
        {"password_file", YAML_OTHER, 0, NULL, read_secret_file},
        {"scopes", YAML_OTHER, 0, NULL, read_scopes},
        KEY("tenants", YAML_TEXTS, struct server_access, tenants),
        END,
    },
    sizeof(struct server_access), NULL, check_access};

static int read_base_path(struct yaml_reader *r, const char *key, yaml_node_t *node, void *object)
{
    struct server_config *c = object;
    struct str text;
    if (yaml_text(r, key, node, &text))
        return -1;
    while (text.n && text.p[text.n - 1] == '/')
        text.n--;
    if (text.n && text.p[0] != '/')
        return yaml_fail(r, node, key, "invalid path '%s'; expected a path that begins with /",
                         text.p);
    c->base_path = arena_copy(r->arena, text.p, text.n);
    return 0;
}

static int read_external_url(struct yaml_reader *r, const char *key, yaml_node_t *node,
                             void *object)
{
    struct server_config *c = object;
    struct str text;
    if (yaml_text(r, key, node, &text))
        return -1;
    while (text.n && text.p[text.n - 1] == '/')
        text.n--;
    if (!text.n)
        return 0;
    if (!config_is_plain_url(text))
        return yaml_fail(r, node, key, "'%s' is not a URL of http or https without credentials",
                         text.p);
    c->external_url = arena_copy(r->arena, text.p, text.n);
    return 0;
}

static int check_config(struct yaml_reader *r, yaml_node_t *node, void *object)
{
    struct server_config *c = object;
    if (c->place && !*c->place)
        c->place = NULL;
    if (!c->tls_cert != !c->tls_key)
        return yaml_fail(r, node, "tls", "cert_file needs key_file, and key_file needs cert_file");
    if (c->limits.body < 1024 || c->limits.profile < 1024)
        return yaml_fail(r, node, "limits", "body_size and profile_size must be 1KiB or more");
    if (c->place && !*c->place)
        c->place = NULL;
    const int64_t second = 1000000000, day = 86400 * second;
    if ((c->request_time && (c->request_time < second || c->request_time > day)) ||
        (c->idle_time && (c->idle_time < second || c->idle_time > day)))
        return yaml_fail(r, node, "limits", "request_time and idle_time must be 1s to 1d");
    if (c->query_time < second / 10 || c->query_time > day)
        return yaml_fail(r, node, "limits", "query_time must be 100ms to 1d");
    if (c->process_memory && c->process_memory < PROCESS_MEMORY_LEAST)
        return yaml_fail(r, node, "limits", "process_memory must be 64MiB or more");
    // Histories of more than six hours and less than four days tell nothing: stats/steps.h.
    if ((c->changes_window != 60 * second && c->changes_window < 900 * second) ||
        c->changes_window > 3600 * second || 3600 * second % c->changes_window)
        return yaml_fail(r, node, "changes", "window must be 1m, 15m, 20m, 30m or 1h");
    if (c->changes_lasting && (c->changes_lasting < 2 * c->changes_window ||
                               c->changes_lasting > 100 * c->changes_window))
        return yaml_fail(r, node, "changes", "lasting must be 2 to 100 windows");
    if (c->n_alerts > RECEIVERS_MAX || c->n_rules > RULES_MAX)
        return yaml_fail(r, node, c->n_rules > RULES_MAX ? "rules" : "alerts",
                         "at most %d receivers of alerts and %d rules are allowed", RECEIVERS_MAX,
                         RULES_MAX);
    for (size_t i = 1; i < c->n_alerts; i++)
        for (size_t k = 0; k < i; k++)
            if (str_eq(c->alerts[i].url, c->alerts[k].url))
                return yaml_fail(r, node, "alerts", "the url of receivers %zu and %zu is the same",
                                 k + 1, i + 1);
    return 0;
}

static const struct yaml_table config_table = {
    (const struct yaml_key[]){
        KEY("listen", YAML_CTEXT, struct server_config, listen),
        KEY("data", YAML_CTEXT, struct server_config, data),
        KEY("store", YAML_CTEXT, struct server_config, place),
        {"base_path", YAML_OTHER, 0, NULL, read_base_path},
        {"external_url", YAML_OTHER, 0, NULL, read_external_url},
        {"tls", YAML_MAPPING, 0, &server_tls_table, NULL},
        {"limits", YAML_MAPPING, 0, &limits_table, NULL},
        {"retention", YAML_MAPPING, 0, &retention_table, NULL},
        {"changes", YAML_MAPPING, 0, &changes_table, NULL},
        KEY("debuginfo_directories", YAML_TEXTS, struct server_config, debuginfo_directories),
        OF("auth", YAML_ITEMS, struct server_config, access, access_table),
        KEY("multitenant", YAML_BOOL, struct server_config, multitenant),
        KEY("hosts", YAML_TEXTS, struct server_config, hosts),
        OF("scrape_configs", YAML_ITEMS, struct server_config, scrapes, config_scrape_table),
        OF("rules", YAML_ITEMS, struct server_config, rules, config_rule_table),
        END,
    },
    sizeof(struct server_config), NULL, check_config};

static struct str usual_directory = STR("/usr/lib/debug");

struct server_config *server_config_read(const char *file, struct err *e)
{
    struct arena *arena = arena_new((size_t)256 << 20);
    if (!arena) {
        err_set(e, "out of memory");
        return NULL;
    }
    struct server_config *c = arena_alloc(arena, sizeof *c);
    *c = (struct server_config){
        .arena = arena,
        .references = 1,
        .listen = "127.0.0.1:4040",
        .data = "kiln-data",
        .base_path = "",
        .limits =
            {
                .body = (size_t)256 << 20,
                .profile = (size_t)64 << 20,
                .depth = 1000,
                .label_name = 1024,
                .label_value = 2048,
                .labels = 30,
                .symbol = 65535,
                .samples = 4000000,
                .sample_labels = 100,
                .past = INT64_C(31) * 86400 * 1000000000,
                .future = INT64_C(3600) * 1000000000,
            },
        .query_time = INT64_C(30000000000),
        .debuginfo_file = (size_t)2 << 30,
        .debuginfo_total = (size_t)20 << 30,
        .debuginfo_directories = &usual_directory,
        .n_debuginfo_directories = 1,
        .changes_window = INT64_C(3600) * 1000000000,
    };
    if (file && yaml_read_file(file, arena, &config_table, c, e)) {
        arena_free(arena);
        return NULL;
    }
    return c;
}

struct server_config *server_config_share(struct server_config *config)
{
    config->references++;
    return config;
}

void server_config_free(struct server_config *config)
{
    if (config && --config->references == 0)
        arena_free(config->arena);
}
