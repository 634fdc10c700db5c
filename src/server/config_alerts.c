// Who hears of changes, and which functions are metrics.
#include "query/query.h"
#include "server/config_tables.h"
#include "server/limits.h"
#include "server/outgoing.h"
#include "server/rules.h"

static const int64_t SECOND = 1000000000;
enum {
    URL_MAX = 2000,
    LABELS_MAX = 20,
    SECRET_LEAST = 8,
    FUNCTIONS_MAX = 1000, // of a rule
};

bool config_is_plain_url(struct str url)
{
    size_t host = str_find(url, STR("//"), 0) + 2, end = outgoing_origin(url).n;
    if (!config_is_url(url) || url.n > URL_MAX)
        return false;
    for (size_t i = 0; i < url.n; i++)
        if ((unsigned char)url.p[i] <= ' ' || (unsigned char)url.p[i] >= 0x7f || url.p[i] == '#' ||
            (i < end && url.p[i] == '@'))
            return false;
    return end > host;
}

// Labels that every alert or series has are the server's.
static int check_labels(struct yaml_reader *r, yaml_node_t *node, const struct store_label *labels,
                        size_t n, const char *const *taken)
{
    if (n > LABELS_MAX)
        return yaml_fail(r, node, "labels", "%zu labels; at most %d are allowed", n, LABELS_MAX);
    for (size_t i = 0; i < n; i++) {
        if (!limits_is_plain_name(labels[i].name))
            return yaml_fail(r, node, "labels",
                             "'%s' is not a label name of Prometheus ([a-zA-Z_][a-zA-Z0-9_]*)",
                             labels[i].name.p);
        for (const char *const *name = taken; *name; name++)
            if (str_eq(labels[i].name, str_from(*name)))
                return yaml_fail(r, node, "labels", "'%s' is set by the server", *name);
        for (size_t k = 0; k < i; k++)
            if (str_eq(labels[i].name, labels[k].name))
                return yaml_fail(r, node, "labels", "'%s' is given twice", labels[i].name.p);
    }
    return 0;
}

// --- alerts ---

static void alert_defaults(void *element)
{
    *(struct alert_receiver *)element = (struct alert_receiver){
        .name = STR("kiln"), .decreases = true, .interval = 60 * SECOND, .timeout = 10 * SECOND};
}

static int read_format(struct yaml_reader *r, const char *key, yaml_node_t *node, void *object)
{
    struct alert_receiver *a = object;
    struct str text;
    if (yaml_text(r, key, node, &text))
        return -1;
    a->format = str_eq(text, STR("alertmanager")) ? ALERT_ALERTMANAGER
                : str_eq(text, STR("webhook"))    ? ALERT_WEBHOOK
                                                  : ALERT_NO_FORMAT;
    return a->format ? 0
                     : yaml_fail(r, node, key,
                                 "unknown format '%s'; expected alertmanager or webhook", text.p);
}

static int check_secret(struct yaml_reader *r, yaml_node_t *node, const struct alert_receiver *a)
{
    if (a->secret.n && a->secret_file.n)
        return yaml_fail(r, node, "secret", "cannot be combined with secret_file");
    if ((a->secret.n || a->secret_file.n) && a->format == ALERT_ALERTMANAGER)
        return yaml_fail(r, node, "secret",
                         "Alertmanager does not check signatures; use basic_auth or authorization");
    if (a->secret.p && a->secret.n < SECRET_LEAST)
        return yaml_fail(r, node, "secret", "is shorter than %d bytes", SECRET_LEAST);
    return 0;
}

static int check_alert(struct yaml_reader *r, yaml_node_t *node, void *element)
{
    static const char *const taken[] = {"alertname", "tenant",    "service_name",
                                        "function",  "measured",  "profile_type",
                                        "direction", "change_id", NULL};
    static const struct str end = STR("/api/v2/alerts");
    struct alert_receiver *a = element;
    if (!a->url.n)
        return yaml_fail(r, node, "alerts", "url is missing");
    if (!config_is_plain_url(a->url))
        return yaml_fail(r, node, "url",
                         "expected http://HOST/PATH or https://HOST/PATH; set credentials in "
                         "basic_auth or authorization");
    if (!a->format)
        return yaml_fail(r, node, "alerts", "format is missing; expected alertmanager or webhook");
    if (a->format == ALERT_ALERTMANAGER && !str_ends(a->url, end))
        return yaml_fail(r, node, "url", "an Alertmanager's must end with %s", end.p);
    if (a->interval < 10 * SECOND || a->interval > 3600 * SECOND)
        return yaml_fail(r, node, "interval", "must be 10s to 1h");
    if (a->timeout < SECOND || a->timeout > 60 * SECOND)
        return yaml_fail(r, node, "timeout", "must be 1s to 60s");
    for (size_t i = 0; i < a->n_tenants; i++)
        if (!store_is_tenant(a->tenants[i]))
            return yaml_fail(r, node, "tenants", "'%s' is not a tenant name", a->tenants[i].p);
    if (check_secret(r, node, a) || check_labels(r, node, a->labels, a->n_labels, taken))
        return -1;
    return config_check_auth(r, node, &a->auth);
}

const struct yaml_table config_alert_table = {
    (const struct yaml_key[]){
        KEY("url", YAML_TEXT, struct alert_receiver, url),
        {"format", YAML_OTHER, 0, NULL, read_format},
        KEY("name", YAML_TEXT, struct alert_receiver, name),
        KEY("tenants", YAML_TEXTS, struct alert_receiver, tenants),
        KEY("labels", YAML_LABELS, struct alert_receiver, labels),
        KEY("decreases", YAML_BOOL, struct alert_receiver, decreases),
        KEY("interval", YAML_DURATION, struct alert_receiver, interval),
        KEY("timeout", YAML_DURATION, struct alert_receiver, timeout),
        KEY("secret", YAML_TEXT, struct alert_receiver, secret),
        KEY("secret_file", YAML_TEXT, struct alert_receiver, secret_file),
        AUTH_KEYS(struct alert_receiver),
        END,
    },
    sizeof(struct alert_receiver), alert_defaults, check_alert};

// --- rules ---

static void function_rule_defaults(void *element)
{
    *(struct function_rule *)element =
        (struct function_rule){.tenant = STR("anonymous"), .limit = 100, .window = 300 * SECOND};
}

// The profile type and the selector of a query.
static int check_alert_query(struct yaml_reader *r, yaml_node_t *node, struct function_rule *rule)
{
    struct query_selector selector;
    struct err e = {""};
    if (!rule->query.n)
        return yaml_fail(r, node, "rules", "query is missing: TYPE{service_name=\"...\"}");
    if (query_selector(rule->query, r->arena, &selector, &e))
        return yaml_fail(r, node, "query", "%s", e.message);
    for (size_t i = 0; i < selector.n; i++)
        if (str_eq(selector.matchers[i].name, STR("__name__")))
            rule->type = selector.matchers[i].value;
    if (!rule->type.n || query_type(&rule->type, &e))
        return yaml_fail(r, node, "query",
                         "must begin with a profile type such as "
                         "process_cpu:cpu:nanoseconds:cpu:nanoseconds");
    if (!rules_metric(rule->type))
        return yaml_fail(r, node, "query",
                         "only types of CPU time (nanoseconds) and of bytes can be metrics");
    return 0;
}

static int check_function_rule(struct yaml_reader *r, yaml_node_t *node, void *element)
{
    static const char *const taken[] = {"tenant", "service_name", "profile_type", "function", NULL};
    struct function_rule *rule = element;
    struct err why = {""};
    if (check_alert_query(r, node, rule))
        return -1;
    if (!rule->n_functions && !rule->pattern.n)
        return yaml_fail(r, node, "rules", "function or function_regex is missing");
    if (rule->pattern.n && !model_regex_new(r->arena, "function_regex", rule->pattern, &why))
        return yaml_fail(r, node, "function_regex", "%s", why.message);
    if (!store_is_tenant(rule->tenant))
        return yaml_fail(r, node, "tenant", "'%s' is not a tenant name", rule->tenant.p);
    if (!rule->limit || rule->limit > FUNCTIONS_MAX || rule->n_functions > FUNCTIONS_MAX)
        return yaml_fail(r, node, "limit", "must be 1 to %d, and so must the number of functions",
                         FUNCTIONS_MAX);
    if (rule->n_by > LABELS_MAX)
        return yaml_fail(r, node, "by", "%zu labels; at most %d are allowed", rule->n_by,
                         LABELS_MAX);
    if (rule->window < 10 * SECOND || rule->window > 86400 * SECOND)
        return yaml_fail(r, node, "window", "must be 10s to 1d");
    struct store_label *all = arena_array(r->arena, rule->n_labels + rule->n_by + 1, sizeof *all);
    for (size_t i = 0; i < rule->n_by; i++)
        all[i].name = rules_label_name(rule->by[i], r->arena);
    if (rule->n_labels)
        memcpy(all + rule->n_by, rule->labels, rule->n_labels * sizeof *all);
    return check_labels(r, node, all, rule->n_by + rule->n_labels, taken);
}

const struct yaml_table config_rule_table = {
    (const struct yaml_key[]){
        KEY("query", YAML_TEXT, struct function_rule, query),
        KEY("function", YAML_TEXTS, struct function_rule, functions),
        KEY("function_regex", YAML_TEXT, struct function_rule, pattern),
        KEY("by", YAML_TEXTS, struct function_rule, by),
        KEY("labels", YAML_LABELS, struct function_rule, labels),
        KEY("tenant", YAML_TEXT, struct function_rule, tenant),
        KEY("limit", YAML_COUNT, struct function_rule, limit),
        KEY("window", YAML_DURATION, struct function_rule, window),
        END,
    },
    sizeof(struct function_rule), function_rule_defaults, check_function_rule};
