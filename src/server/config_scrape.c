#include "model/regex.h"
#include "server/config_tables.h"
#include "server/limits.h"

static const int64_t SECOND = 1000000000, DAY = 86400000000000;
enum { TARGET_LIMIT = 10000 };

static int read_action(struct yaml_reader *r, const char *key, yaml_node_t *node, void *object)
{
    static const char *const actions[] = {"replace",   "keep",      "drop",      "hashmod",
                                          "labelmap",  "labeldrop", "labelkeep", "lowercase",
                                          "uppercase", "keepequal", "dropequal"};
    struct relabel_rule *rule = object;
    struct str text;
    if (yaml_text(r, key, node, &text))
        return -1;
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (strcmp(text.p, actions[i]) == 0) {
            rule->action = (enum relabel_action)i;
            return 0;
        }
    return yaml_fail(r, node, key,
                     "unknown action '%s'; expected replace, keep, drop, keepequal, dropequal, "
                     "hashmod, labelmap, labeldrop, labelkeep, lowercase or uppercase",
                     text.p);
}

static int read_pattern(struct yaml_reader *r, const char *key, yaml_node_t *node, void *object)
{
    struct relabel_rule *rule = object;
    struct str text;
    struct err why = {""};
    if (yaml_text(r, key, node, &text))
        return -1;
    rule->pattern = str_from(arena_printf(r->arena, "^(?:%s)$", text.p));
    if (!model_regex_new(r->arena, key, rule->pattern, &why))
        return yaml_fail(r, node, key, "%s", why.message);
    return 0;
}

static int read_modulus(struct yaml_reader *r, const char *key, yaml_node_t *node, void *object)
{
    struct relabel_rule *rule = object;
    struct str text;
    if (yaml_text(r, key, node, &text))
        return -1;
    if (!str_to_u64(text, 10, &rule->modulus) || !rule->modulus)
        return yaml_fail(r, node, key, "expected a positive number, found '%s'", text.p);
    return 0;
}

static void rule_defaults(void *element)
{
    *(struct relabel_rule *)element = (struct relabel_rule){
        .separator = STR(";"), .replacement = STR("$1"), .pattern = STR("^(?:(.*))$")};
}

static int check_relabel_rule(struct yaml_reader *r, yaml_node_t *node, void *element)
{
    const struct relabel_rule *rule = element;
    bool needs_target = rule->action == RELABEL_REPLACE || rule->action == RELABEL_HASHMOD ||
                        rule->action == RELABEL_LOWERCASE || rule->action == RELABEL_UPPERCASE ||
                        rule->action == RELABEL_KEEPEQUAL || rule->action == RELABEL_DROPEQUAL;
    if (needs_target && !rule->target.n)
        return yaml_fail(r, node, "relabel_configs", "target_label is missing");
    if (rule->action == RELABEL_HASHMOD && !rule->modulus)
        return yaml_fail(r, node, "relabel_configs", "modulus is missing");
    return 0;
}

static const struct yaml_table rule_table = {
    (const struct yaml_key[]){
        KEY("source_labels", YAML_TEXTS, struct relabel_rule, source),
        KEY("separator", YAML_TEXT, struct relabel_rule, separator),
        KEY("target_label", YAML_TEXT, struct relabel_rule, target),
        KEY("replacement", YAML_TEXT, struct relabel_rule, replacement),
        {"regex", YAML_OTHER, 0, NULL, read_pattern},
        {"modulus", YAML_OTHER, 0, NULL, read_modulus},
        {"action", YAML_OTHER, 0, NULL, read_action},
        END,
    },
    sizeof(struct relabel_rule), rule_defaults, check_relabel_rule};

const struct yaml_table config_group_table = {
    (const struct yaml_key[]){
        KEY("targets", YAML_TEXTS, struct target_group, targets),
        KEY("labels", YAML_LABELS, struct target_group, labels),
        END,
    },
    sizeof(struct target_group), NULL, NULL};

const struct yaml_table config_basic_table = {
    (const struct yaml_key[]){
        KEY("username", YAML_TEXT, struct request_auth, user),
        KEY("password", YAML_TEXT, struct request_auth, password),
        KEY("password_file", YAML_TEXT, struct request_auth, password_file),
        END,
    },
    0, NULL, NULL};

const struct yaml_table config_authorization_table = {
    (const struct yaml_key[]){
        KEY("type", YAML_TEXT, struct request_auth, type),
        KEY("credentials", YAML_TEXT, struct request_auth, credentials),
        KEY("credentials_file", YAML_TEXT, struct request_auth, credentials_file),
        END,
    },
    0, NULL, NULL};

const struct yaml_table config_tls_table = {
    (const struct yaml_key[]){
        KEY("ca_file", YAML_TEXT, struct request_auth, ca_file),
        KEY("cert_file", YAML_TEXT, struct request_auth, cert_file),
        KEY("key_file", YAML_TEXT, struct request_auth, key_file),
        KEY("insecure_skip_verify", YAML_BOOL, struct request_auth, insecure),
        END,
    },
    0, NULL, NULL};

static bool is_header_text(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f)
            return false;
    return true;
}

int config_check_auth(struct yaml_reader *r, yaml_node_t *node, struct request_auth *a)
{
    bool basic = a->user.n || a->password.n || a->password_file.n;
    bool other = a->credentials.n || a->credentials_file.n;
    if (basic && other)
        return yaml_fail(r, node, "basic_auth", "cannot be combined with authorization");
    if ((a->password.n && a->password_file.n) || (a->credentials.n && a->credentials_file.n))
        return yaml_fail(r, node, "basic_auth", "a secret and its file cannot be combined");
    if (!is_header_text(a->type) || !is_header_text(a->credentials))
        return yaml_fail(r, node, "authorization", "control characters cannot be sent");
    if (other && !a->type.n)
        a->type = STR("Bearer");
    return 0;
}

int config_check_duration(struct yaml_reader *r, yaml_node_t *node, const char *key, int64_t nanos)
{
    if (nanos < SECOND || nanos > DAY)
        return yaml_fail(r, node, key, "must be 1s to 1d");
    return 0;
}

bool config_is_url(struct str url)
{
    return str_starts(url, STR("http://")) || str_starts(url, STR("https://"));
}

static void discovery_defaults(void *element)
{
    *(struct discovery *)element = (struct discovery){.refresh = 60 * SECOND};
}

static int check_files(struct yaml_reader *r, yaml_node_t *node, void *element)
{
    struct discovery *d = element;
    return config_check_duration(r, node, "refresh_interval", d->refresh);
}

static int check_urls(struct yaml_reader *r, yaml_node_t *node, void *element)
{
    struct discovery *d = element;
    if (d->n_places != 1)
        return yaml_fail(r, node, "http_sd_configs", "expected one url");
    if (!config_is_url(d->places[0]))
        return yaml_fail(r, node, "url", "'%s' is not a URL of http or https", d->places[0].p);
    if (config_check_duration(r, node, "refresh_interval", d->refresh))
        return -1;
    return config_check_auth(r, node, &d->auth);
}

static const struct yaml_table files_table = {
    (const struct yaml_key[]){
        KEY("files", YAML_TEXTS, struct discovery, places),
        KEY("refresh_interval", YAML_DURATION, struct discovery, refresh),
        END,
    },
    sizeof(struct discovery), discovery_defaults, check_files};

static const struct yaml_table urls_table = {
    (const struct yaml_key[]){
        KEY("url", YAML_TEXTS, struct discovery, places),
        KEY("refresh_interval", YAML_DURATION, struct discovery, refresh),
        AUTH_KEYS(struct discovery),
        END,
    },
    sizeof(struct discovery), discovery_defaults, check_urls};

// `seconds` is a plain number, where durations have units.
static int read_seconds(struct yaml_reader *r, const char *key, yaml_node_t *node, void *object)
{
    struct scrape_profile *p = object;
    struct str text;
    if (yaml_text(r, key, node, &text))
        return -1;
    if (!str_to_i64(text, &p->seconds) || p->seconds < 1 || p->seconds > 3600)
        return yaml_fail(r, node, key, "expected 1 to 3600, found '%s'", text.p);
    return 0;
}

static const struct yaml_table profile_table = {
    (const struct yaml_key[]){
        KEY("enabled", YAML_BOOL, struct scrape_profile, enabled),
        KEY("path", YAML_TEXT, struct scrape_profile, path),
        KEY("delta", YAML_BOOL, struct scrape_profile, delta),
        {"seconds", YAML_OTHER, 0, NULL, read_seconds},
        END,
    },
    sizeof(struct scrape_profile), NULL, NULL};

static const struct scrape_profile usual_profiles[] = {
    {STR("process_cpu"), STR("/debug/pprof/profile"), true, true, 0},
    {STR("memory"), STR("/debug/pprof/heap"), true, false, 0},
};

static int read_profile(struct yaml_reader *r, const char *name, yaml_node_t *node,
                        struct scrape_config *s);

static int read_profiles(struct yaml_reader *r, const char *key, yaml_node_t *node, void *object)
{
    if (node->type != YAML_MAPPING_NODE)
        return yaml_fail(r, node, key, "expected profiles by their names");
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top;
         p++) {
        struct str name;
        if (yaml_text(r, key, yaml_document_get_node(&r->document, p->key), &name) ||
            read_profile(r, name.p, yaml_document_get_node(&r->document, p->value), object))
            return -1;
    }
    return 0;
}

static const struct yaml_table profiling_table = {
    (const struct yaml_key[]){
        KEY("path_prefix", YAML_TEXT, struct scrape_config, path_prefix),
        {"pprof_config", YAML_OTHER, 0, NULL, read_profiles},
        END,
    },
    0, NULL, NULL};

static int read_profile(struct yaml_reader *r, const char *name, yaml_node_t *node,
                        struct scrape_config *s)
{
    size_t i = 0;
    while (i < s->n_profiles && !str_eq(s->profiles[i].name, str_from(name)))
        i++;
    if (i == s->n_profiles) {
        struct scrape_profile *grown = arena_array(r->arena, i + 1, sizeof *grown);
        if (i)
            memcpy(grown, s->profiles, i * sizeof *grown);
        grown[i] = (struct scrape_profile){.name = str_from(name), .enabled = true};
        grown[i].path = str_from(arena_printf(r->arena, "/debug/pprof/%s", name));
        s->profiles = grown;
        s->n_profiles++;
    }
    return yaml_read_mapping(r, node, &profile_table, &s->profiles[i]);
}

static void scrape_defaults(void *element)
{
    *(struct scrape_config *)element = (struct scrape_config){
        .scheme = STR("http"),
        .interval = 10 * SECOND,
        .path_prefix = STR(""),
        .target_limit = TARGET_LIMIT,
    };
}

static int check_scrape(struct yaml_reader *r, yaml_node_t *node, void *element)
{
    struct scrape_config *s = element;
    if (!s->job.n)
        return yaml_fail(r, node, "scrape_configs", "job_name is missing");
    if (!str_eq(s->scheme, STR("http")) && !str_eq(s->scheme, STR("https")))
        return yaml_fail(r, node, "scheme", "unknown scheme '%s'; expected http or https",
                         s->scheme.p);
    if (config_check_duration(r, node, "scrape_interval", s->interval))
        return -1;
    if (!s->timeout)
        s->timeout = s->interval + 5 * SECOND;
    else if (config_check_duration(r, node, "scrape_timeout", s->timeout))
        return -1;
    if (s->tenant.n && !store_is_tenant(s->tenant))
        return yaml_fail(r, node, "tenant", "'%s' is not a tenant name", s->tenant.p);
    if (!s->target_limit)
        return yaml_fail(r, node, "target_limit", "must be 1 or more");
    if (config_check_auth(r, node, &s->auth))
        return -1;
    if (!s->n_profiles) {
        s->profiles = arena_array(r->arena, 2, sizeof *s->profiles);
        memcpy(s->profiles, usual_profiles, sizeof usual_profiles);
        s->n_profiles = 2;
    }
    return 0;
}

const struct yaml_table config_scrape_table = {
    (const struct yaml_key[]){
        KEY("job_name", YAML_TEXT, struct scrape_config, job),
        KEY("tenant", YAML_TEXT, struct scrape_config, tenant),
        KEY("target_limit", YAML_COUNT, struct scrape_config, target_limit),
        KEY("body_size_limit", YAML_BYTES, struct scrape_config, body_limit),
        KEY("scrape_interval", YAML_DURATION, struct scrape_config, interval),
        KEY("scrape_timeout", YAML_DURATION, struct scrape_config, timeout),
        KEY("scheme", YAML_TEXT, struct scrape_config, scheme),
        KEY("params", YAML_LABELS, struct scrape_config, params),
        OF("static_configs", YAML_ITEMS, struct scrape_config, groups, config_group_table),
        OF("file_sd_configs", YAML_ITEMS, struct scrape_config, files, files_table),
        OF("http_sd_configs", YAML_ITEMS, struct scrape_config, urls, urls_table),
        OF("kubernetes_sd_configs", YAML_ITEMS, struct scrape_config, clusters, config_kube_table),
        OF("relabel_configs", YAML_ITEMS, struct scrape_config, rules, rule_table),
        AUTH_KEYS(struct scrape_config),
        {"profiling_config", YAML_MAPPING, 0, &profiling_table, NULL},
        END,
    },
    sizeof(struct scrape_config), scrape_defaults, check_scrape};
