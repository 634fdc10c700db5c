// The server's configuration: what a YAML file says, and what holds without one
// (docs/server.md has every key). Read-only once it is read; everything is in one arena.
#pragma once

#include "model/regex.h"
#include "store/store.h"

enum server_scope { SCOPE_PUSH = 1, SCOPE_READ = 2, SCOPE_ADMIN = 4, SCOPE_ALL = 7 };

// Who may come, by a bearer token or by a name and a password.
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

// What a request to a target or to a discovery URL carries. Each has its own: what one may know
// is not sent to another.
struct scrape_auth {
    struct str user, password, password_file;
    struct str type, credentials, credentials_file; // Authorization: TYPE CREDENTIALS
    struct str ca_file, cert_file, key_file;
    bool insecure;
};

struct discovery {
    struct str *places; // files (with * and ?) or one URL
    size_t n_places;
    int64_t refresh; // ns
    struct scrape_auth auth;
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
    struct relabel_rule *rules;
    size_t n_rules;
    struct scrape_auth auth;
    struct scrape_profile *profiles;
    size_t n_profiles;
};

struct server_config {
    struct arena *arena;
    const char *listen, *data, *base_path;
    const char *place;              // of the store, if it is not data: clickhouse://...
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
};

// file: NULL for the defaults. NULL with e filled: which file, line and key.
struct server_config *server_config_read(const char *file, struct err *e);
void server_config_free(struct server_config *config);
