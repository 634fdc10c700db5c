#include "model/regex.h"
#include "server/config_tables.h"

static const int64_t SECOND = 1000000000;

static int read_action(struct yaml_reader *r, const char *key, yaml_node_t *node, void *object)
{
    static const char *const actions[] = {"replace",   "keep",      "drop",
                                          "hashmod",   "labelmap",  "labeldrop",
                                          "labelkeep", "lowercase", "uppercase"};
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
                     "'%s' is no action; replace, keep, drop, hashmod, labelmap, "
                     "labeldrop, labelkeep, lowercase, uppercase are",
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

static int check_rule(struct yaml_reader *r, yaml_node_t *node, void *element)
{
    const struct relabel_rule *rule = element;
    bool needs_target = rule->action == RELABEL_REPLACE || rule->action == RELABEL_HASHMOD ||
                        rule->action == RELABEL_LOWERCASE || rule->action == RELABEL_UPPERCASE;
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
    sizeof(struct relabel_rule), rule_defaults, check_rule};

const struct yaml_table config_group_table = {
    (const struct yaml_key[]){
        KEY("targets", YAML_TEXTS, struct target_group, targets),
        KEY("labels", YAML_LABELS, struct target_group, labels),
        END,
    },
    sizeof(struct target_group), NULL, NULL};

static void discovery_defaults(void *element)
{
    ((struct discovery *)element)->refresh = 60 * SECOND;
}

static const struct yaml_table files_table = {
    (const struct yaml_key[]){
        KEY("files", YAML_TEXTS, struct discovery, places),
        KEY("refresh_interval", YAML_DURATION, struct discovery, refresh),
        END,
    },
    sizeof(struct discovery), discovery_defaults, NULL};

static const struct yaml_table urls_table = {
    (const struct yaml_key[]){
        KEY("url", YAML_TEXTS, struct discovery, places),
        KEY("refresh_interval", YAML_DURATION, struct discovery, refresh),
        END,
    },
    sizeof(struct discovery), discovery_defaults, NULL};

static const struct yaml_table basic_table = {
    (const struct yaml_key[]){
        KEY("username", YAML_TEXT, struct scrape_config, user),
        KEY("password", YAML_TEXT, struct scrape_config, password),
        KEY("password_file", YAML_TEXT, struct scrape_config, password_file),
        END,
    },
    0, NULL, NULL};

static const struct yaml_table scrape_tls_table = {
    (const struct yaml_key[]){
        KEY("ca_file", YAML_TEXT, struct scrape_config, ca_file),
        KEY("cert_file", YAML_TEXT, struct scrape_config, cert_file),
        KEY("key_file", YAML_TEXT, struct scrape_config, key_file),
        KEY("insecure_skip_verify", YAML_BOOL, struct scrape_config, insecure),
        END,
    },
    0, NULL, NULL};

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
        .scheme = STR("http"), .interval = 10 * SECOND, .path_prefix = STR("")};
}

static int check_scrape(struct yaml_reader *r, yaml_node_t *node, void *element)
{
    struct scrape_config *s = element;
    if (!s->job.n)
        return yaml_fail(r, node, "scrape_configs", "job_name is missing");
    if (!str_eq(s->scheme, STR("http")) && !str_eq(s->scheme, STR("https")))
        return yaml_fail(r, node, "scheme", "'%s' is neither http nor https", s->scheme.p);
    if (s->interval < SECOND)
        return yaml_fail(r, node, "scrape_interval", "must be 1s or more");
    if (!s->timeout)
        s->timeout = s->interval + 5 * SECOND;
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
        KEY("scrape_interval", YAML_DURATION, struct scrape_config, interval),
        KEY("scrape_timeout", YAML_DURATION, struct scrape_config, timeout),
        KEY("scheme", YAML_TEXT, struct scrape_config, scheme),
        KEY("params", YAML_LABELS, struct scrape_config, params),
        OF("static_configs", YAML_ITEMS, struct scrape_config, groups, config_group_table),
        OF("file_sd_configs", YAML_ITEMS, struct scrape_config, files, files_table),
        OF("http_sd_configs", YAML_ITEMS, struct scrape_config, urls, urls_table),
        OF("relabel_configs", YAML_ITEMS, struct scrape_config, rules, rule_table),
        {"basic_auth", YAML_MAPPING, 0, &basic_table, NULL},
        KEY("bearer_token", YAML_TEXT, struct scrape_config, bearer),
        KEY("bearer_token_file", YAML_TEXT, struct scrape_config, bearer_file),
        {"tls_config", YAML_MAPPING, 0, &scrape_tls_table, NULL},
        {"profiling_config", YAML_MAPPING, 0, &profiling_table, NULL},
        END,
    },
    sizeof(struct scrape_config), scrape_defaults, check_scrape};
