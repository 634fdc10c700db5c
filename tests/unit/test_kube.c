// Objects of Kubernetes: lists, events, and the targets that they become.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/out.h"
#include "server/kube_targets.h"

static struct err e;
static struct budget budget = {.account = {.owner = "discovery", .limit = 64 << 20}};
static char version[KUBE_VERSION_MAX];

#define META(name, version) \
    "{\"name\": \"" name "\", \"namespace\": \"shop\", \"resourceVersion\": \"" version "\"}"
#define POD(name, version) "{\"metadata\": " META(name, version) "}"

static enum kube_event event(struct kube_objects *o, const char *text)
{
    e.message[0] = 0;
    return kube_event_read(o, KUBE_PODS, str_from(text), version, &e);
}

static int page(struct kube_objects *o, const char *text, struct kube_page *p)
{
    e.message[0] = 0;
    return kube_page_read(o, KUBE_PODS, str_from(text), p, &e);
}

static void lists(void **state)
{
    struct kube_objects o = {.budget = &budget, .list = 1};
    struct kube_page p;
    assert_int_equal(page(&o,
                          "{\"metadata\": {\"resourceVersion\": \"7\", \"continue\": \"abc\"}, "
                          "\"items\": [" POD("a", "1") ", " POD("b", "2") "]}",
                          &p),
                     0);
    assert_string_equal(p.version, "7");
    assert_string_equal(p.more, "abc");
    free(p.more);
    assert_int_equal(o.n, 2);
    // The next list does not have b, and has a twice.
    o.list++;
    assert_int_equal(page(&o,
                          "{\"metadata\": {\"resourceVersion\": \"9\", \"continue\": \"\"}, "
                          "\"items\": [" POD("c", "8") ", " POD("a", "1") ", " POD("a", "1") "]}",
                          &p),
                     0);
    assert_null(p.more);
    kube_objects_sweep(&o);
    assert_int_equal(o.n, 2);
    assert_non_null(kube_object_find(&o, STR("shop/a")));
    assert_null(kube_object_find(&o, STR("shop/b")));
    static const char *const bad[] = {
        "",
        "{",
        "[]",
        "{\"metadata\": {\"resourceVersion\": \"7\"}}",
        "{\"metadata\": {}, \"items\": []}",
        "{\"metadata\": {\"resourceVersion\": 7}, \"items\": []}",
        "{\"metadata\": {\"resourceVersion\": \"7\"}, \"items\": [{\"metadata\": {}}]}",
        "{\"kind\": \"Status\", \"code\": 403}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (!page(&o, bad[i], &p) || !e.message[0])
            fail_msg("%s is accepted", bad[i]);
        free(p.more);
    }
    assert_int_equal(o.n, 2);
    // Go writes an empty list as null.
    assert_int_equal(page(&o, "{\"metadata\": {\"resourceVersion\": \"7\"}, \"items\": null}", &p),
                     0);
    kube_objects_free(&o);
    assert_int_equal(budget.account.held, 0);
}

static void watches(void **state)
{
    struct kube_objects o = {.budget = &budget, .list = 1};
    assert_int_equal(event(&o, "{\"type\": \"ADDED\", \"object\": " POD("a", "3") "}"),
                     KUBE_EVENT_CHANGE);
    assert_string_equal(version, "3");
    assert_int_equal(event(&o, "{\"type\": \"MODIFIED\", \"object\": " POD("a", "4") "}"),
                     KUBE_EVENT_CHANGE);
    assert_int_equal(o.n, 1);
    assert_int_equal(event(&o, "{\"type\": \"BOOKMARK\", \"object\": {\"kind\": \"Pod\", "
                               "\"metadata\": {\"resourceVersion\": \"50\"}}}"),
                     KUBE_EVENT_BOOKMARK);
    assert_string_equal(version, "50");
    assert_int_equal(event(&o, "{\"type\": \"DELETED\", \"object\": " POD("a", "51") "}"),
                     KUBE_EVENT_CHANGE);
    assert_int_equal(o.n, 0);
    // Deleted before it was seen.
    assert_int_equal(event(&o, "{\"type\": \"DELETED\", \"object\": " POD("z", "52") "}"),
                     KUBE_EVENT_CHANGE);
    assert_int_equal(event(&o, "{\"type\": \"ERROR\", \"object\": {\"kind\": \"Status\", "
                               "\"code\": 410, \"reason\": \"Expired\"}}"),
                     KUBE_EVENT_EXPIRED);
    assert_int_equal(event(&o, "{\"type\": \"ERROR\", \"object\": {\"kind\": \"Status\", "
                               "\"code\": 500, \"message\": \"etcd is away\"}}"),
                     KUBE_EVENT_FAILED);
    assert_non_null(strstr(e.message, "etcd is away"));
    static const char *const bad[] = {
        "",
        "{\"type\": \"ADDED\", \"object\": {\"metadata\": {\"na",
        "{\"type\": \"ADDED\"}",
        "{\"type\": \"ADDED\", \"object\": {\"metadata\": {\"resourceVersion\": \"1\"}}}",
        "{\"type\": \"OTHER\", \"object\": " POD("a", "3") "}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (event(&o, bad[i]) != KUBE_EVENT_INVALID || !e.message[0])
            fail_msg("%s is accepted", bad[i]);
    // The version to resume from is that of the last good event.
    assert_string_equal(version, "52");
    kube_objects_free(&o);
    assert_int_equal(budget.account.held, 0);
}

// Only what targets are made of is kept, and memory has a limit.
static void memory(void **state)
{
    struct budget small = {.account = {.owner = "discovery", .limit = 3 << 20}};
    struct kube_objects o = {.budget = &small, .list = 1};
    struct out text;
    out_init_memory(&text, 4 << 20);
    out_text(&text, "{\"type\": \"ADDED\", \"object\": {\"metadata\": {\"name\": \"a\", "
                    "\"resourceVersion\": \"1\", \"managedFields\": [\"");
    for (int i = 0; i < 100000; i++)
        out_text(&text, "field ");
    out_text(&text, "\"], \"annotations\": {\"short\": \"x\", "
                    "\"kubectl.kubernetes.io/last-applied-configuration\": \"");
    for (int i = 0; i < 1000; i++)
        out_text(&text, "field ");
    out_text(&text, "\"}}}}");
    assert_int_equal(kube_event_read(&o, KUBE_PODS, out_result(&text), version, &e),
                     KUBE_EVENT_CHANGE);
    assert_int_equal(o.n, 1);
    assert_true(small.account.held < 8192);
    struct str json = kube_object_json(kube_object_find(&o, STR("/a")));
    assert_true(str_find(json, STR("short"), 0) != SIZE_MAX);
    assert_true(str_find(json, STR("last-applied"), 0) == SIZE_MAX);
    for (int i = 0; i < 20000; i++) {
        text.n = 0;
        out_printf(&text, "{\"type\": \"ADDED\", \"object\": {\"metadata\": {\"name\": \"a%d\", ",
                   i);
        out_text(&text, "\"resourceVersion\": \"1\", \"uid\": \"01234567890123456789\"}}}");
        // Either what an event is read into has no room, or the object.
        e.message[0] = 0;
        if (kube_event_read(&o, KUBE_PODS, out_result(&text), version, &e) == KUBE_EVENT_INVALID) {
            assert_non_null(strstr(e.message, "memory limit"));
            break;
        }
        if (o.dropped)
            break;
    }
    assert_true(e.message[0] || o.dropped);
    assert_true(o.n > 1000);
    assert_true(small.account.held <= small.account.limit);
    kube_objects_free(&o);
    assert_int_equal(small.account.held, 0);
    out_fini(&text);
}

// --- targets ---

static struct arena *arena;
static struct kube_objects pods, slices, services;

static void put(struct kube_objects *o, enum kube_resource resource, const char *object)
{
    const char *line = arena_printf(arena, "{\"type\": \"ADDED\", \"object\": %s}", object);
    o->budget = &budget;
    if (kube_event_read(o, resource, str_from(line), version, &e) != KUBE_EVENT_CHANGE)
        fail_msg("%s: %s", object, e.message);
}

static struct target_group *targets_of(struct kube_discovery d, const char *key, size_t *n)
{
    const struct kube_view view = {&pods, &slices, &services};
    const struct kube_objects *all = d.role == KUBE_ROLE_POD ? &pods : &slices;
    const struct kube_object *o = kube_object_find(all, str_from(key));
    assert_non_null(o);
    return kube_targets(&d, &view, kube_object_json(o), arena, n);
}

static const char *label(const struct target_group *g, const char *name)
{
    for (size_t i = 0; i < g->n_labels; i++)
        if (str_eq(g->labels[i].name, str_from(name)))
            return arena_copy(arena, g->labels[i].value.p, g->labels[i].value.n);
    return "";
}

static int begin(void **state)
{
    arena = arena_new(0);
    pods = slices = services = (struct kube_objects){0};
    return 0;
}

static int end(void **state)
{
    kube_objects_free(&pods);
    kube_objects_free(&slices);
    kube_objects_free(&services);
    arena_free(arena);
    assert_int_equal(budget.account.held, 0);
    return 0;
}

#define CAR(annotations)                                                                     \
    "{\"metadata\": {\"name\": \"car-1\", \"namespace\": \"shop\", \"uid\": \"u\", "         \
    "\"resourceVersion\": \"1\", \"labels\": {\"app.kubernetes.io/name\": \"car\"}, "        \
    "\"annotations\": {" annotations                                                         \
    "}, \"ownerReferences\": [{\"kind\": \"X\", \"name\": \"y\"}, "                          \
    "{\"kind\": \"ReplicaSet\", \"name\": \"car-rs\", \"controller\": true}]}, "             \
    "\"spec\": {\"nodeName\": \"node-1\", \"initContainers\": [{\"name\": \"init\", "        \
    "\"image\": \"i:1\"}], \"containers\": [{\"name\": \"app\", \"image\": \"car:2\", "      \
    "\"ports\": [{\"name\": \"http\", \"containerPort\": 8080, \"protocol\": \"TCP\"}, "     \
    "{\"name\": \"pprof\", \"containerPort\": 6060, \"protocol\": \"TCP\"}]}, "              \
    "{\"name\": \"side\"}]}, \"status\": {\"phase\": \"Running\", \"podIP\": \"10.0.0.7\", " \
    "\"hostIP\": \"10.1.0.1\", \"conditions\": [{\"type\": \"Ready\", \"status\": \"True\"}]}}"

static void pod_targets(void **state)
{
    size_t n;
    put(&pods, KUBE_PODS, CAR("\"a/b.c\": \"x\""));
    struct target_group *g = targets_of((struct kube_discovery){0}, "shop/car-1", &n);
    assert_int_equal(n, 4);
    static const char *const addresses[] = {"10.0.0.7:8080", "10.0.0.7:6060", "10.0.0.7",
                                            "10.0.0.7"};
    for (size_t i = 0; i < n; i++)
        assert_true(str_eq(g[i].targets[0], str_from(addresses[i])));
    static const char *const expected[][2] = {
        {"__meta_kubernetes_namespace", "shop"},
        {"__meta_kubernetes_pod_name", "car-1"},
        {"__meta_kubernetes_pod_ip", "10.0.0.7"},
        {"__meta_kubernetes_pod_label_app_kubernetes_io_name", "car"},
        {"__meta_kubernetes_pod_labelpresent_app_kubernetes_io_name", "true"},
        {"__meta_kubernetes_pod_annotation_a_b_c", "x"},
        {"__meta_kubernetes_pod_annotationpresent_a_b_c", "true"},
        {"__meta_kubernetes_pod_container_init", "false"},
        {"__meta_kubernetes_pod_container_name", "app"},
        {"__meta_kubernetes_pod_container_image", "car:2"},
        {"__meta_kubernetes_pod_container_port_name", "pprof"},
        {"__meta_kubernetes_pod_container_port_number", "6060"},
        {"__meta_kubernetes_pod_container_port_protocol", "TCP"},
        {"__meta_kubernetes_pod_ready", "true"},
        {"__meta_kubernetes_pod_phase", "Running"},
        {"__meta_kubernetes_pod_node_name", "node-1"},
        {"__meta_kubernetes_pod_host_ip", "10.1.0.1"},
        {"__meta_kubernetes_pod_uid", "u"},
        {"__meta_kubernetes_pod_controller_kind", "ReplicaSet"},
        {"__meta_kubernetes_pod_controller_name", "car-rs"},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_string_equal(label(&g[1], expected[i][0]), expected[i][1]);
    assert_string_equal(label(&g[3], "__meta_kubernetes_pod_container_init"), "true");
    assert_string_equal(label(&g[3], "__meta_kubernetes_pod_container_name"), "init");
    // A pod without an address is not a target yet.
    put(&pods, KUBE_PODS, "{\"metadata\": " META("new", "2") ", \"spec\": {\"containers\": [{}]}}");
    targets_of((struct kube_discovery){0}, "shop/new", &n);
    assert_int_equal(n, 0);
}

// What annotations ask for: ADDRESS TYPE PATH PREFIX SCHEME of each target.
static void wishes(const char *pod, const char *expected)
{
    size_t n;
    struct out out;
    put(&pods, KUBE_PODS, pod);
    struct target_group *g =
        targets_of((struct kube_discovery){.annotations = true}, "shop/car-1", &n);
    out_init_arena(&out, arena);
    for (size_t i = 0; i < n; i++) {
        out_str(&out, g[i].targets[0]);
        out_printf(&out, " %s %s%s%s;", label(&g[i], "__profile_type__"),
                   label(&g[i], "__scheme__"), label(&g[i], "__profile_path_prefix__"),
                   label(&g[i], "__profile_path__"));
    }
    out_char(&out, '\0');
    assert_string_equal(out.p, expected);
}

#define CPU(name) "\"profiles.grafana.com/cpu." name "\": "
#define MEMORY(name) "\"profiles.grafana.com/memory." name "\": "

static void annotations(void **state)
{
    wishes(CAR("\"x\": \"y\""), "");
    wishes(CAR(CPU("scrape") "\"false\", " CPU("port") "\"6060\""), "");
    wishes(CAR(CPU("scrape") "\"true\", " CPU("port") "\"6060\""), "10.0.0.7:6060 cpu ;");
    wishes(CAR(CPU("scrape") "\"true\", " CPU("port_name") "\"http\", " CPU("port") "\"6060\""),
           "10.0.0.7:8080 cpu ;");
    wishes(
        CAR(CPU("scrape") "\"true\", " CPU("port") "\"6060\", " MEMORY(
            "scrape") "\"true\", " MEMORY("port") "\"8080\", " MEMORY("path") "\"/"
                                                                              "heap\","
                                                                              " " MEMORY(
                                                                                  "sc"
                                                                                  "he"
                                                                                  "m"
                                                                                  "e") "\"https\""),
        "10.0.0.7:6060 cpu ;10.0.0.7:8080 memory https/heap;");
    wishes(CAR(CPU("scrape") "\"true\", " CPU("port") "\"6060\", " CPU("scheme") "\"file\""),
           "10.0.0.7:6060 cpu ;");
    // Without a port, which of the two is unknown.
    wishes(CAR(CPU("scrape") "\"true\""), "");
    wishes(CAR("\"kiln.io/scrape\": \"true\", \"kiln.io/port_name\": \"pprof\", "
               "\"kiln.io/path_prefix\": \"/ops\""),
           "10.0.0.7:6060  /ops;");
    size_t n;
    struct target_group *g =
        targets_of((struct kube_discovery){.annotations = true}, "shop/car-1", &n);
    assert_string_equal(label(&g[0], "service_name"), "shop/app");
    assert_string_equal(label(&g[0], "pod"), "car-1");
    // A port that is none.
    wishes(
        "{\"metadata\": {\"name\": \"car-1\", \"namespace\": \"shop\", \"resourceVersion\": \"3\", "
        "\"annotations\": {" CPU("scrape") "\"true\", " CPU(
            "port") "\"80@evil\"}}, \"spec\": {\"containers\": [{\"name\": \"a\"}]}, "
                    "\"status\": {\"phase\": \"Running\", \"podIP\": \"10.0.0.7\"}}",
        "");
    // A container that declares no port, and one pod that has ended.
    wishes(
        "{\"metadata\": {\"name\": \"car-1\", \"namespace\": \"shop\", \"resourceVersion\": \"3\", "
        "\"annotations\": {" CPU("scrape") "\"true\", " CPU(
            "port") "\"7070\", \"pyroscope.io/service_name\": \"cars\"}}, "
                    "\"spec\": {\"containers\": [{\"name\": \"a\"}, {\"name\": \"b\"}]}, "
                    "\"status\": {\"phase\": \"Running\", \"podIP\": \"fd00::7\"}}",
        "[fd00::7]:7070 cpu ;");
    g = targets_of((struct kube_discovery){.annotations = true}, "shop/car-1", &n);
    assert_string_equal(label(&g[0], "service_name"), "cars");
    wishes(
        "{\"metadata\": {\"name\": \"car-1\", \"namespace\": \"shop\", \"resourceVersion\": \"4\", "
        "\"annotations\": {" CPU("scrape") "\"true\", " CPU(
            "port") "\"7070\"}}, \"spec\": {\"containers\": [{\"name\": \"a\"}]}, "
                    "\"status\": {\"phase\": \"Succeeded\", \"podIP\": \"10.0.0.7\"}}",
        "");
}

static const char car_slice[] =
    "{\"metadata\": {\"name\": \"car-x\", \"namespace\": \"shop\", \"resourceVersion\": \"1\", "
    "\"labels\": {\"kubernetes.io/service-name\": \"car\"}}, \"addressType\": \"IPv4\", "
    "\"endpoints\": [{\"addresses\": [\"10.0.0.7\"], \"conditions\": {\"ready\": true, "
    "\"serving\": true, \"terminating\": false}, \"nodeName\": \"node-1\", \"zone\": \"z\", "
    "\"targetRef\": {\"kind\": \"Pod\", \"namespace\": \"shop\", \"name\": \"car-1\"}}, "
    "{\"addresses\": [\"10.0.0.8\"], \"conditions\": {\"ready\": false}}], "
    "\"ports\": [{\"name\": \"pprof\", \"port\": 6060, \"protocol\": \"TCP\"}]}";

static void slice_targets(void **state)
{
    size_t n;
    put(&pods, KUBE_PODS, CAR("\"a\": \"b\""));
    put(&services, KUBE_SERVICES,
        "{\"metadata\": {\"name\": \"car\", \"namespace\": \"shop\", \"resourceVersion\": \"1\", "
        "\"labels\": {\"team\": \"cars\"}}}");
    put(&slices, KUBE_SLICES, car_slice);
    struct target_group *g =
        targets_of((struct kube_discovery){.role = KUBE_ROLE_SLICE}, "shop/car-x", &n);
    assert_int_equal(n, 2);
    assert_true(str_eq(g[0].targets[0], STR("10.0.0.7:6060")));
    static const char *const expected[][2] = {
        {"__meta_kubernetes_namespace", "shop"},
        {"__meta_kubernetes_endpointslice_name", "car-x"},
        {"__meta_kubernetes_endpointslice_address_type", "IPv4"},
        {"__meta_kubernetes_endpointslice_label_kubernetes_io_service_name", "car"},
        {"__meta_kubernetes_endpointslice_port_name", "pprof"},
        {"__meta_kubernetes_endpointslice_port", "6060"},
        {"__meta_kubernetes_endpointslice_port_protocol", "TCP"},
        {"__meta_kubernetes_endpointslice_endpoint_conditions_ready", "true"},
        {"__meta_kubernetes_endpointslice_endpoint_conditions_serving", "true"},
        {"__meta_kubernetes_endpointslice_endpoint_conditions_terminating", "false"},
        {"__meta_kubernetes_endpointslice_address_target_kind", "Pod"},
        {"__meta_kubernetes_endpointslice_address_target_name", "car-1"},
        {"__meta_kubernetes_service_name", "car"},
        {"__meta_kubernetes_service_label_team", "cars"},
        {"__meta_kubernetes_pod_name", "car-1"},
        {"__meta_kubernetes_pod_annotation_a", "b"},
        {"__meta_kubernetes_pod_container_name", "app"},
        {"__meta_kubernetes_pod_container_port_name", "pprof"},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_string_equal(label(&g[0], expected[i][0]), expected[i][1]);
    assert_string_equal(label(&g[1], "__meta_kubernetes_pod_name"), "");
    // The names of the older API.
    g = targets_of((struct kube_discovery){.role = KUBE_ROLE_ENDPOINTS}, "shop/car-x", &n);
    assert_int_equal(n, 2);
    assert_string_equal(label(&g[0], "__meta_kubernetes_endpoints_name"), "car");
    assert_string_equal(label(&g[0], "__meta_kubernetes_endpoint_port_name"), "pprof");
    assert_string_equal(label(&g[1], "__meta_kubernetes_endpoint_ready"), "false");
    assert_string_equal(label(&g[0], "__meta_kubernetes_endpointslice_name"), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists),
        cmocka_unit_test(watches),
        cmocka_unit_test(memory),
        cmocka_unit_test_setup_teardown(pod_targets, begin, end),
        cmocka_unit_test_setup_teardown(annotations, begin, end),
        cmocka_unit_test_setup_teardown(slice_targets, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
