// The server's configuration: what a YAML file says, and what holds without one
// (docs/server.md has every key). Read-only once it is read; everything is in one arena.
#pragma once

#include "model/regex.h"
#include "store/store.h"

enum server_scope { SCOPE_PUSH = 1, SCOPE_READ = 2, SCOPE_ADMIN = 4, SCOPE_ALL = 7 };

// Authentication, by a bearer token or by a name and a password.
struct server_access {
    struct str name; // of a user; n 0: a token's owner
    struct str secret;
    unsigned scopes;
    struct str *tenants; // that it may name in X-Scope-OrgID; the first is its own
    size_t n_tenants;    // 0: only the default one
    bool any_tenant;     // `tenants: ["*"]`
};

struct server_limits {
    size_t body;    // of a request, before and after inflating
    size_t profile; // of one profile, inflated
    uint32_t depth; // frames of a stack
    uint32_t label_name, label_value, labels;
    uint32_t symbol;
    uint32_t samples, sample_labels;
    int64_t past, future; // ns that a profile's time may differ from now; 0: any
};

// --- scraping ---

enum relabel_action {
    RELABEL_REPLACE,
    RELABEL_KEEP,
    RELABEL_DROP,
    RELABEL_HASHMOD,
    RELABEL_LABELMAP,
    RELABEL_LABELDROP,
    RELABEL_LABELKEEP,
    RELABEL_LOWERCASE,
    RELABEL_UPPERCASE,
    RELABEL_KEEPEQUAL,
    RELABEL_DROPEQUAL,
};

struct relabel_rule {
    struct str *source;
    size_t n_source;
    struct str separator, target, replacement;
    struct str pattern; // anchored
    uint64_t modulus;
    enum relabel_action action;
};

struct scrape_profile {
    struct str name, path;
    bool enabled, delta;
    int64_t seconds; // of the profile; 0: not asked for
};

struct target_group {
    struct str *targets;
    size_t n_targets;
    struct store_label *labels;
    size_t n_labels;
};

// What a request to a target, to a discovery URL or to a receiver of alerts carries. Each has its
// own: what one may know is not sent to another.
struct request_auth {
    struct str user, password, password_file;
    struct str type, credentials, credentials_file; // Authorization: TYPE CREDENTIALS
    struct str ca_file, cert_file, key_file;
    bool insecure;
};

struct discovery {
    struct str *places; // files (with * and ?) or one URL
    size_t n_places;
    int64_t refresh; // ns
    struct request_auth auth;
};

enum kube_role { KUBE_ROLE_POD, KUBE_ROLE_ENDPOINTS, KUBE_ROLE_SLICE };

// Restricts the objects of one resource. role: pod, service, endpoints or endpointslice.
struct kube_selector {
    struct str role, label, field;
};

// Targets out of the API of a Kubernetes cluster.
struct kube_discovery {
    struct str api_server; // without a / at its end
    enum kube_role role;
    struct str *namespaces; // none: all
    size_t n_namespaces;
    bool own_namespace; // also the one that the server runs in
    struct kube_selector *selectors;
    size_t n_selectors;
    bool annotations; // of pods decide which profiles are scraped, and where
    struct request_auth auth;
};

struct scrape_config {
    struct str job, scheme, path_prefix;
    struct str tenant;         // n 0: the default one, or what __tenant_id__ says
    uint32_t target_limit;     // addresses; those beyond it are left out
    size_t body_limit;         // of an answer; 0: limits.profile
    int64_t interval, timeout; // ns
    struct store_label *params;
    size_t n_params;
    struct target_group *groups;
    size_t n_groups;
    struct discovery *files;
    size_t n_files;
    struct discovery *urls;
    size_t n_urls;
    struct kube_discovery *clusters;
    size_t n_clusters;
    struct relabel_rule *rules;
    size_t n_rules;
    struct request_auth auth;
    struct scrape_profile *profiles;
    size_t n_profiles;
};

// --- alerts and metrics ---

enum alert_format { ALERT_NO_FORMAT, ALERT_ALERTMANAGER, ALERT_WEBHOOK };

// Who hears of changes.
struct alert_receiver {
    struct str name, url;
    enum alert_format format;
    struct str secret, secret_file; // that requests are signed with; both empty: they are not
    struct str *tenants;            // whose changes; none: of all
    size_t n_tenants;
    struct store_label *labels; // of each alert, besides its own
    size_t n_labels;
    bool decreases;            // also changes that cost less
    int64_t interval, timeout; // ns
    struct request_auth auth;
};

// Functions whose cost /metrics/functions tells.
struct function_rule {
    struct str tenant, query, type; // type: out of query
    struct str *functions;          // names
    size_t n_functions;
    struct str pattern; // of more names, or empty
    struct str *by;     // labels
    size_t n_by;
    struct store_label *labels; // added to each series
    size_t n_labels;
    uint32_t limit; // of functions, and of series
    int64_t window; // ns
};

// Counted references: several threads keep what was read last.
struct server_config {
    struct arena *arena;
    _Atomic unsigned references;
    const char *listen, *data, *base_path;
    const char *external_url; // how a browser reaches the server, without a / at its end; or NULL
    const char *place;        // of the store, if it is not data: clickhouse://...
    const char *tls_cert, *tls_key; // files
    struct server_limits limits;
    struct store_options store;
    size_t debuginfo_file, debuginfo_total; // bytes of one debug file, of a tenant's
    struct str *debuginfo_directories;      // of this machine's debug files
    size_t n_debuginfo_directories;
    unsigned connections;
    int64_t request_time, idle_time, query_time; // ns
    size_t process_memory, tenant_memory;        // bytes; of requests, beside the store's
    struct str *hosts;                           // names that requests may have in Host
    size_t n_hosts;
    bool multitenant; // X-Scope-OrgID is believed without authentication
    struct server_access *access;
    size_t n_access;
    struct scrape_config *scrapes;
    size_t n_scrapes;
    bool changes;                            // are looked for
    int64_t changes_window, changes_lasting; // ns
    struct str *deploy_labels;
    size_t n_deploy_labels;
    struct alert_receiver *alerts;
    size_t n_alerts;
    struct function_rule *rules;
    size_t n_rules;
};

// file: NULL for the defaults. NULL with e filled: which file, line and key.
struct server_config *server_config_read(const char *file, struct err *e);
struct server_config *server_config_share(struct server_config *config);
void server_config_free(struct server_config *config);
