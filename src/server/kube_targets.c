#include "server/kube_targets.h"

#include <string.h>

#include "base/out.h"

enum {
    LABELS_MAX = 250,    // of a target; those of annotations come last
    TARGETS_MAX = 10000, // of an object
};

#define META "__meta_kubernetes_"
// As Pyroscope's Helm chart and Grafana Alloy have them: TYPE.scrape, .port, .port_name, .path,
// .scheme.
#define GRAFANA "profiles.grafana.com/"
// For all profiles of the job: scrape, port, port_name, path_prefix, scheme.
#define KILN "kiln.io/"

struct labels {
    struct store_label *items;
    size_t n;
};

struct maker {
    const struct kube_discovery *d;
    const struct kube_view *view;
    struct arena *arena;
    struct target_group *groups;
    size_t n, cap;
};

static struct str object_text(const struct maker *m, struct json object, const char *name)
{
    struct json value = json_get(object, name);
    struct str text = json_string(value, m->arena);
    if (text.p)
        return text;
    enum json_kind kind = json_kind(value);
    return kind == JSON_NUMBER || kind == JSON_BOOL ? json_text(value) : STR("");
}

static void put_kube_label(struct labels *l, const char *name, struct str value)
{
    if (value.n && l->n < LABELS_MAX)
        l->items[l->n++] = (struct store_label){str_from(name), value};
}

static struct labels new_labels(const struct maker *m, const struct labels *from)
{
    struct labels l = {arena_array(m->arena, LABELS_MAX, sizeof *l.items), 0};
    if (from && from->n)
        memcpy(l.items, from->items, from->n * sizeof *l.items);
    l.n = from ? from->n : 0;
    return l;
}

// The characters that label names may have; others become _.
static char *label_name(const struct maker *m, const char *prefix, struct str name)
{
    size_t n = strlen(prefix);
    char *text = arena_alloc(m->arena, n + name.n + 1);
    memcpy(text, prefix, n);
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        text[n + i] = good ? c : '_';
    }
    return text;
}

// KIND_label_NAME=value and KIND_labelpresent_NAME=true; the same for annotations.
static void put_members(const struct maker *m, struct labels *l, struct json object,
                        const char *prefix, const char *present)
{
    for (struct json_each i = json_each(object); json_next(&i);) {
        struct str key = json_key(&i, m->arena), value = json_string(i.value, m->arena);
        if (!value.p)
            continue;
        put_kube_label(l, label_name(m, prefix, key), value);
        put_kube_label(l, label_name(m, present, key), STR("true"));
    }
}

static struct str join_port(const struct maker *m, struct str host, struct str port)
{
    const char *format = memchr(host.p, ':', host.n) ? "[%.*s]%s%.*s" : "%.*s%s%.*s";
    return str_from(arena_printf(m->arena, format, (int)host.n, host.p, port.n ? ":" : "",
                                 (int)port.n, port.p));
}

static void add_kube_target(struct maker *m, const struct labels *l, struct str address)
{
    if (!address.n || m->n >= TARGETS_MAX)
        return;
    struct str *targets = arena_array(m->arena, 1, sizeof *targets);
    *targets = address;
    m->groups = arena_push(m->arena, m->groups, m->n, &m->cap, sizeof *m->groups);
    m->groups[m->n++] = (struct target_group){targets, 1, l->items, l->n};
}

// --- pods ---

static struct str pod_ready(const struct maker *m, struct json status)
{
    for (struct json_each i = json_each(json_get(status, "conditions")); json_next(&i);)
        if (json_is(json_get(i.value, "type"), "Ready"))
            return json_is(json_get(i.value, "status"), "True")    ? STR("true")
                   : json_is(json_get(i.value, "status"), "False") ? STR("false")
                                                                   : STR("unknown");
    return STR("unknown");
}

static void put_pod_labels(const struct maker *m, struct labels *l, struct json pod)
{
    struct json meta = json_get(pod, "metadata"), status = json_get(pod, "status");
    put_kube_label(l, META "namespace", object_text(m, meta, "namespace"));
    put_kube_label(l, META "pod_name", object_text(m, meta, "name"));
    put_kube_label(l, META "pod_ip", object_text(m, status, "podIP"));
    put_kube_label(l, META "pod_ready", pod_ready(m, status));
    put_kube_label(l, META "pod_phase", object_text(m, status, "phase"));
    put_kube_label(l, META "pod_node_name", object_text(m, json_get(pod, "spec"), "nodeName"));
    put_kube_label(l, META "pod_host_ip", object_text(m, status, "hostIP"));
    put_kube_label(l, META "pod_uid", object_text(m, meta, "uid"));
    for (struct json_each i = json_each(json_get(meta, "ownerReferences")); json_next(&i);)
        if (json_is_true(json_get(i.value, "controller"))) {
            put_kube_label(l, META "pod_controller_kind", object_text(m, i.value, "kind"));
            put_kube_label(l, META "pod_controller_name", object_text(m, i.value, "name"));
            break;
        }
}

// After those of the container: a pod with many annotations keeps the others.
static void put_pod_metadata(const struct maker *m, struct labels *l, struct json pod)
{
    struct json meta = json_get(pod, "metadata");
    put_members(m, l, json_get(meta, "labels"), META "pod_label_", META "pod_labelpresent_");
    put_members(m, l, json_get(meta, "annotations"), META "pod_annotation_",
                META "pod_annotationpresent_");
}

static void put_container_labels(const struct maker *m, struct labels *l, struct json container)
{
    put_kube_label(l, META "pod_container_name", object_text(m, container, "name"));
    put_kube_label(l, META "pod_container_image", object_text(m, container, "image"));
}

static void put_port_labels(const struct maker *m, struct labels *l, struct json port)
{
    put_kube_label(l, META "pod_container_port_name", object_text(m, port, "name"));
    put_kube_label(l, META "pod_container_port_number", object_text(m, port, "containerPort"));
    put_kube_label(l, META "pod_container_port_protocol", object_text(m, port, "protocol"));
}

// What the annotations of a pod say about one type of profile.
struct wish {
    const char *profile; // NULL: all of the job
    struct str port, port_name, path, path_prefix, scheme;
};

static bool is_port_number(struct str s)
{
    uint64_t port;
    return s.n <= 5 && str_to_u64(s, 10, &port) && port && port <= 65535;
}

// Whether a port is the one that the annotations name. Without a name or number, it must be the
// only one. port absent: the container declares none.
static bool is_wanted_port(const struct maker *m, const struct wish *w, struct json port,
                           size_t n_ports)
{
    if (json_kind(port) == JSON_ABSENT)
        return !w->port_name.n && (!w->port.n || is_port_number(w->port));
    if (w->port_name.n)
        return str_eq(object_text(m, port, "name"), w->port_name);
    if (w->port.n)
        return str_eq(object_text(m, port, "containerPort"), w->port);
    return n_ports == 1;
}

static void put_wish(const struct maker *m, struct labels *l, const struct wish *w, struct json pod,
                     struct json container)
{
    struct json meta = json_get(pod, "metadata");
    struct str space = object_text(m, meta, "namespace"), name = object_text(m, container, "name");
    struct str service = object_text(m, json_get(meta, "annotations"), "pyroscope.io/service_name");
    if (!service.n)
        service = str_from(
            arena_printf(m->arena, "%.*s/%.*s", (int)space.n, space.p, (int)name.n, name.p));
    put_kube_label(l, "service_name", service);
    put_kube_label(l, "namespace", space);
    put_kube_label(l, "pod", object_text(m, meta, "name"));
    put_kube_label(l, "container", name);
    if (w->profile)
        put_kube_label(l, "__profile_type__", str_from(w->profile));
    put_kube_label(l, "__profile_path__", w->path);
    put_kube_label(l, "__profile_path_prefix__", w->path_prefix);
    if (str_eq(w->scheme, STR("http")) || str_eq(w->scheme, STR("https")))
        put_kube_label(l, "__scheme__", w->scheme);
}

static void add_container_port(struct maker *m, struct json pod, const struct labels *pod_labels,
                               struct json container, struct json port, const struct wish *w)
{
    struct labels l = new_labels(m, pod_labels);
    struct str number = object_text(m, port, "containerPort");
    put_container_labels(m, &l, container);
    put_port_labels(m, &l, port);
    if (w) {
        put_wish(m, &l, w, pod, container);
        number = number.n ? number : w->port;
    }
    put_pod_metadata(m, &l, pod);
    add_kube_target(m, &l, join_port(m, object_text(m, json_get(pod, "status"), "podIP"), number));
}

static size_t count_ports(struct json containers)
{
    size_t n = 0;
    for (struct json_each i = json_each(containers); json_next(&i);)
        n += json_size(json_get(i.value, "ports"));
    return n;
}

// A target for each container and port. w: only for those that it names.
static void add_containers(struct maker *m, struct json pod, const struct labels *pod_labels,
                           const char *which, const struct wish *w)
{
    struct json containers = json_get(json_get(pod, "spec"), which), none = {0};
    size_t n_ports = count_ports(containers);
    for (struct json_each i = json_each(containers); json_next(&i);) {
        struct json ports = json_get(i.value, "ports");
        if (w && !n_ports) {
            // No port is declared: the annotation's, once.
            if (is_wanted_port(m, w, none, 0))
                add_container_port(m, pod, pod_labels, i.value, none, w);
            return;
        }
        if (!w && !json_size(ports))
            add_container_port(m, pod, pod_labels, i.value, none, w);
        for (struct json_each k = json_each(ports); json_next(&k);)
            if (!w || is_wanted_port(m, w, k.value, n_ports))
                add_container_port(m, pod, pod_labels, i.value, k.value, w);
    }
}

static struct str annotation_value(const struct maker *m, struct json annotations,
                                   const char *prefix, const char *type, const char *name)
{
    return object_text(m, annotations,
                       arena_printf(m->arena, "%s%s%s%s", prefix, type, *type ? "." : "", name));
}

static void add_wish(struct maker *m, struct json pod, const struct labels *l, const char *prefix,
                     const char *type)
{
    struct json annotations = json_get(json_get(pod, "metadata"), "annotations");
    if (!str_eq(annotation_value(m, annotations, prefix, type, "scrape"), STR("true")))
        return;
    struct wish w = {
        .profile = *type ? type : NULL,
        .port = annotation_value(m, annotations, prefix, type, "port"),
        .port_name = annotation_value(m, annotations, prefix, type, "port_name"),
        .scheme = annotation_value(m, annotations, prefix, type, "scheme"),
    };
    if (*type)
        w.path = annotation_value(m, annotations, prefix, type, "path");
    else
        w.path_prefix = annotation_value(m, annotations, prefix, type, "path_prefix");
    add_containers(m, pod, l, "containers", &w);
}

// Pods that run and ask for it.
static void add_wished(struct maker *m, struct json pod, const struct labels *l)
{
    static const char *const types[] = {"cpu", "memory", "goroutine", "block", "mutex", "fgprof"};
    struct str phase = object_text(m, json_get(pod, "status"), "phase");
    if (!str_eq(phase, STR("Running")))
        return;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        add_wish(m, pod, l, GRAFANA, types[i]);
    add_wish(m, pod, l, KILN, "");
}

static void add_pod(struct maker *m, struct json pod)
{
    // A pod that is starting has no address yet.
    if (!object_text(m, json_get(pod, "status"), "podIP").n)
        return;
    struct labels l = new_labels(m, NULL);
    put_pod_labels(m, &l, pod);
    if (m->d->annotations) {
        add_wished(m, pod, &l);
        return;
    }
    struct labels init = new_labels(m, &l);
    put_kube_label(&l, META "pod_container_init", STR("false"));
    put_kube_label(&init, META "pod_container_init", STR("true"));
    add_containers(m, pod, &l, "containers", NULL);
    add_containers(m, pod, &init, "initContainers", NULL);
}

// --- endpoint slices ---

static struct json find_kube_object(const struct maker *m, const struct kube_objects *objects,
                                    struct str space, struct str name)
{
    struct json root = {0};
    struct err e;
    if (!objects || !name.n)
        return root;
    const char *key =
        arena_printf(m->arena, "%.*s/%.*s", (int)space.n, space.p, (int)name.n, name.p);
    const struct kube_object *o = kube_object_find(objects, str_from(key));
    if (o && json_parse(m->arena, kube_object_json(o), &root, &e))
        root = (struct json){0};
    return root;
}

// Role endpointslice has names of its own; role endpoints has those of the older API.
static void put_slice_label(const struct maker *m, struct labels *l, const char *slice,
                            const char *endpoint, struct str value)
{
    const char *name = m->d->role == KUBE_ROLE_SLICE ? slice : endpoint;
    if (name)
        put_kube_label(l, name, value);
}

static void put_slice_labels(const struct maker *m, struct labels *l, struct json slice)
{
    struct json meta = json_get(slice, "metadata"), labels = json_get(meta, "labels");
    struct str space = object_text(m, meta, "namespace");
    struct str service = object_text(m, labels, "kubernetes.io/service-name");
    put_kube_label(l, META "namespace", space);
    if (m->d->role == KUBE_ROLE_SLICE) {
        put_kube_label(l, META "endpointslice_name", object_text(m, meta, "name"));
        put_kube_label(l, META "endpointslice_address_type", object_text(m, slice, "addressType"));
        put_members(m, l, labels, META "endpointslice_label_", META "endpointslice_labelpresent_");
    } else {
        put_kube_label(l, META "endpoints_name", service);
    }
    struct json found = find_kube_object(m, m->view->services, space, service);
    if (!found.document)
        return;
    put_kube_label(l, META "service_name", service);
    meta = json_get(found, "metadata");
    put_members(m, l, json_get(meta, "labels"), META "service_label_",
                META "service_labelpresent_");
    put_members(m, l, json_get(meta, "annotations"), META "service_annotation_",
                META "service_annotationpresent_");
}

static void put_slice_port(const struct maker *m, struct labels *l, struct json port)
{
    put_slice_label(m, l, META "endpointslice_port_name", META "endpoint_port_name",
                    object_text(m, port, "name"));
    put_slice_label(m, l, META "endpointslice_port_protocol", META "endpoint_port_protocol",
                    object_text(m, port, "protocol"));
    put_slice_label(m, l, META "endpointslice_port", NULL, object_text(m, port, "port"));
    put_slice_label(m, l, META "endpointslice_port_app_protocol", NULL,
                    object_text(m, port, "appProtocol"));
}

static void put_endpoint(const struct maker *m, struct labels *l, struct json endpoint)
{
    struct json conditions = json_get(endpoint, "conditions");
    struct json target = json_get(endpoint, "targetRef");
    struct str ready = object_text(m, conditions, "ready");
    // The API says that an unknown readiness counts as ready.
    put_slice_label(m, l, META "endpointslice_endpoint_conditions_ready", META "endpoint_ready",
                    ready.n || m->d->role == KUBE_ROLE_SLICE ? ready : STR("true"));
    put_slice_label(m, l, META "endpointslice_endpoint_conditions_serving", NULL,
                    object_text(m, conditions, "serving"));
    put_slice_label(m, l, META "endpointslice_endpoint_conditions_terminating", NULL,
                    object_text(m, conditions, "terminating"));
    put_slice_label(m, l, META "endpointslice_endpoint_hostname", META "endpoint_hostname",
                    object_text(m, endpoint, "hostname"));
    put_slice_label(m, l, META "endpointslice_endpoint_node_name", META "endpoint_node_name",
                    object_text(m, endpoint, "nodeName"));
    put_slice_label(m, l, META "endpointslice_endpoint_zone", NULL,
                    object_text(m, endpoint, "zone"));
    put_slice_label(m, l, META "endpointslice_address_target_kind",
                    META "endpoint_address_target_kind", object_text(m, target, "kind"));
    put_slice_label(m, l, META "endpointslice_address_target_name",
                    META "endpoint_address_target_name", object_text(m, target, "name"));
}

// The container of a pod that declares the port of a service.
static void put_container_of_port(const struct maker *m, struct labels *l, struct json pod,
                                  struct str number)
{
    for (struct json_each i = json_each(json_get(json_get(pod, "spec"), "containers"));
         json_next(&i);)
        for (struct json_each k = json_each(json_get(i.value, "ports")); json_next(&k);)
            if (number.n && str_eq(object_text(m, k.value, "containerPort"), number)) {
                put_container_labels(m, l, i.value);
                put_port_labels(m, l, k.value);
                return;
            }
}

static void add_endpoint(struct maker *m, struct json endpoint, struct json ports, struct json pod,
                         const struct labels *slice)
{
    struct json none = {0};
    struct labels base = new_labels(m, slice);
    put_endpoint(m, &base, endpoint);
    if (pod.document)
        put_pod_labels(m, &base, pod);
    for (struct json_each i = json_each(json_get(endpoint, "addresses")); json_next(&i);) {
        struct str host = json_string(i.value, m->arena);
        struct json_each k = json_each(ports);
        bool more = json_next(&k), portless = !more;
        for (; host.n && m->n < TARGETS_MAX && (more || portless); more = json_next(&k)) {
            struct json port = portless ? none : k.value;
            struct str number = object_text(m, port, "port");
            struct labels l = new_labels(m, &base);
            put_slice_port(m, &l, port);
            if (pod.document) {
                put_container_of_port(m, &l, pod, number);
                put_pod_metadata(m, &l, pod);
            }
            add_kube_target(m, &l, join_port(m, host, number));
            portless = false;
        }
    }
}

static void add_slice(struct maker *m, struct json slice)
{
    struct labels l = new_labels(m, NULL);
    struct str space = object_text(m, json_get(slice, "metadata"), "namespace");
    put_slice_labels(m, &l, slice);
    for (struct json_each i = json_each(json_get(slice, "endpoints")); json_next(&i);) {
        struct json target = json_get(i.value, "targetRef"), pod = {0};
        struct str its = object_text(m, target, "namespace");
        if (json_is(json_get(target, "kind"), "Pod"))
            pod = find_kube_object(m, m->view->pods, its.n ? its : space,
                                   object_text(m, target, "name"));
        add_endpoint(m, i.value, json_get(slice, "ports"), pod, &l);
    }
}

struct target_group *kube_targets(const struct kube_discovery *d, const struct kube_view *view,
                                  struct str text, struct arena *arena, size_t *n)
{
    struct maker m = {.d = d, .view = view, .arena = arena};
    struct json root;
    struct err e;
    *n = 0;
    if (json_parse(arena, text, &root, &e))
        return NULL;
    if (d->role == KUBE_ROLE_POD)
        add_pod(&m, root);
    else
        add_slice(&m, root);
    *n = m.n;
    return m.groups;
}
