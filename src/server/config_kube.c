#include <stdlib.h>

#include "server/config_tables.h"
#include "server/outgoing.h"

// Kubernetes mounts these into every pod.
#define SERVICE_ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount/"

static const char *const roles[] = {"pod", "endpoints", "endpointslice"};

static int read_role(struct yaml_reader *r, const char *key, yaml_node_t *node, void *object)
{
    struct kube_discovery *d = object;
    struct str text;
    if (yaml_text(r, key, node, &text))
        return -1;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strcmp(text.p, roles[i]) == 0) {
            d->role = (enum kube_role)i;
            return 0;
        }
    return yaml_fail(r, node, key, "unknown role '%s'; expected pod, endpoints or endpointslice",
                     text.p);
}

static int check_selector(struct yaml_reader *r, yaml_node_t *node, void *element)
{
    const struct kube_selector *s = element;
    if (str_eq(s->role, STR("service")))
        return 0;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (str_eq(s->role, str_from(roles[i])))
            return 0;
    return yaml_fail(r, node, "selectors",
                     "expected role: pod, service, endpoints or endpointslice");
}

static const struct yaml_table selector_table = {
    (const struct yaml_key[]){
        KEY("role", YAML_TEXT, struct kube_selector, role),
        KEY("label", YAML_TEXT, struct kube_selector, label),
        KEY("field", YAML_TEXT, struct kube_selector, field),
        END,
    },
    sizeof(struct kube_selector), NULL, check_selector};

static const struct yaml_table namespaces_table = {
    (const struct yaml_key[]){
        KEY("own_namespace", YAML_BOOL, struct kube_discovery, own_namespace),
        KEY("names", YAML_TEXTS, struct kube_discovery, namespaces),
        END,
    },
    0, NULL, NULL};

// A DNS label, so that it can be a part of a path.
static bool is_namespace(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!((s.p[i] >= 'a' && s.p[i] <= 'z') || (s.p[i] >= '0' && s.p[i] <= '9') ||
              s.p[i] == '-'))
            return false;
    return s.n > 0 && s.n < 64;
}

static int add_own_namespace(struct yaml_reader *r, yaml_node_t *node, struct kube_discovery *d)
{
    char name[256];
    struct err e;
    if (outgoing_read_secret(SERVICE_ACCOUNT "namespace", name, sizeof name, &e))
        return yaml_fail(r, node, "own_namespace", "%s", e.message);
    struct str *all = arena_array(r->arena, d->n_namespaces + 1, sizeof *all);
    if (d->n_namespaces)
        memcpy(all, d->namespaces, d->n_namespaces * sizeof *all);
    all[d->n_namespaces++] = (struct str){arena_copy(r->arena, name, strlen(name)), strlen(name)};
    d->namespaces = all;
    return 0;
}

// What a pod finds in its environment and its service account.
static int use_cluster(struct yaml_reader *r, yaml_node_t *node, struct kube_discovery *d)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");
    if (!host || !*host)
        return yaml_fail(r, node, "kubernetes_sd_configs",
                         "api_server is missing, and this process does not run in a cluster: "
                         "KUBERNETES_SERVICE_HOST is not set");
    bool ipv6 = strchr(host, ':') != NULL;
    d->api_server = str_from(arena_printf(r->arena, "https://%s%s%s:%s", ipv6 ? "[" : "", host,
                                          ipv6 ? "]" : "", port && *port ? port : "443"));
    if (!d->auth.user.n && !d->auth.credentials.n && !d->auth.credentials_file.n)
        d->auth.credentials_file = STR(SERVICE_ACCOUNT "token");
    if (!d->auth.ca_file.n)
        d->auth.ca_file = STR(SERVICE_ACCOUNT "ca.crt");
    return 0;
}

static int check_kube(struct yaml_reader *r, yaml_node_t *node, void *element)
{
    struct kube_discovery *d = element;
    if (!d->api_server.n && use_cluster(r, node, d))
        return -1;
    if (!config_is_plain_url(d->api_server))
        return yaml_fail(r, node, "api_server", "'%s' is not a URL of http or https",
                         d->api_server.p);
    while (str_ends(d->api_server, STR("/")))
        d->api_server = str_from(arena_copy(r->arena, d->api_server.p, d->api_server.n - 1));
    if (d->own_namespace && add_own_namespace(r, node, d))
        return -1;
    for (size_t i = 0; i < d->n_namespaces; i++)
        if (!is_namespace(d->namespaces[i]))
            return yaml_fail(r, node, "namespaces", "invalid namespace '%s'", d->namespaces[i].p);
    if (d->annotations && d->role != KUBE_ROLE_POD)
        return yaml_fail(r, node, "annotations", "needs role: pod");
    return config_check_auth(r, node, &d->auth);
}

const struct yaml_table config_kube_table = {
    (const struct yaml_key[]){
        {"role", YAML_OTHER, 0, NULL, read_role},
        KEY("api_server", YAML_TEXT, struct kube_discovery, api_server),
        {"namespaces", YAML_MAPPING, 0, &namespaces_table, NULL},
        OF("selectors", YAML_ITEMS, struct kube_discovery, selectors, selector_table),
        KEY("annotations", YAML_BOOL, struct kube_discovery, annotations),
        AUTH_KEYS(struct kube_discovery),
        END,
    },
    sizeof(struct kube_discovery), NULL, check_kube};
