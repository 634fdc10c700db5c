// What receivers of alerts are sent: valid JSON whatever names there are, the same labels each
// time.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "codec/json_read.h"
#include "server/alert_message.h"

#define MINUTE (INT64_C(60) * 1000000000)
#define T (INT64_C(1790000000) * 1000000000)

static struct alert_receiver receiver = {.name = STR("team"), .interval = MINUTE};
static struct alert_sender sender = {.external_url = "https://kiln.example.com/x",
                                     .receiver = &receiver,
                                     .tenant = STR("one"),
                                     .now = T + 60 * MINUTE};
static struct stats_marker deploy = {T - MINUTE, STR("version=2")};

static struct changes_alert make(int64_t id, const char *service, struct str function)
{
    return (struct changes_alert){
        .id = id,
        .open = true,
        .service = str_from(service),
        .entry = {.id = id,
                  .service = str_from(service),
                  .type = STR("process_cpu:cpu:nanoseconds:cpu:nanoseconds"),
                  .entry = {.verdict = STATS_LASTING,
                            .measured = function.n ? STATS_SELF : STATS_SERVICE,
                            .function = function,
                            .time = T,
                            .low = T - MINUTE,
                            .high = T + MINUTE,
                            .before = function.n ? 0.05 : 2e9,
                            .after = function.n ? 0.09 : 3e9,
                            .cost = 5e8,
                            .marker = &deploy,
                            .sides = {{T - 60 * MINUTE, T}, {T, T + 60 * MINUTE}}}},
    };
}

static struct json parse(struct str text, struct arena *arena)
{
    struct json root;
    struct err e = {""};
    if (json_parse(arena, text, &root, &e))
        fail_msg("%s in %.*s", e.message, (int)text.n, text.p);
    return root;
}

static void assert_member(struct json object, const char *key, const char *want)
{
    if (!json_is(json_get(object, key), want)) {
        struct str got = json_text(json_get(object, key));
        fail_msg("%s: want %s, got %.*s", key, want, (int)got.n, got.p);
    }
}

static struct json item(struct json list, size_t at)
{
    struct json_each i = json_each(list);
    do
        assert_true(json_next(&i));
    while (at--);
    return i.value;
}

static void list_of_an_alertmanager(void **state)
{
    struct arena *arena = arena_new(0);
    struct changes_alert alerts[] = {make(7, "shop", STR("json_parse")), make(8, "shop", STR(""))};
    struct str body;
    struct err e = {""};
    for (size_t i = 0; i < 2; i++)
        alert_describe(&sender, &alerts[i], arena);
    alerts[1].open = false;
    assert_int_equal(alert_write_list(&sender, alerts, 2, arena, &body, &e), 0);
    struct json root = parse(body, arena), first = item(root, 0),
                labels = json_get(first, "labels");
    assert_int_equal(json_size(root), 2);
    static const char *const want[][2] = {
        {"alertname", "KilnChange"},
        {"change_id", "7"},
        {"direction", "increase"},
        {"function", "json_parse"},
        {"measured", "self"},
        {"service_name", "shop"},
        {"severity", "warning"},
        {"tenant", "one"},
        {"profile_type", "process_cpu:cpu:nanoseconds:cpu:nanoseconds"}};
    assert_int_equal(json_size(labels), sizeof want / sizeof *want);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_member(labels, want[i][0], want[i][1]);
    struct json annotations = json_get(first, "annotations");
    assert_member(annotations, "summary", "shop: json_parse costs +0.5 cores");
    assert_member(annotations, "cost", "+0.5 cores");
    assert_member(annotations, "deploy", "version=2");
    assert_member(annotations, "changes_url", "https://kiln.example.com/x/changes?service=shop");
    assert_member(annotations, "description",
                  "Since 2026-09-21T14:13:20.000Z (95 % interval: 2026-09-21T14:12:20.000Z to "
                  "2026-09-21T14:14:20.000Z) json_parse takes 9% instead of 5% "
                  "(process_cpu:cpu:nanoseconds:cpu:nanoseconds). Deploy: version=2.");
    assert_member(first, "startsAt", "2026-09-21T14:13:20.000Z");
    assert_member(first, "endsAt", "2026-09-21T15:17:20.000Z"); // four intervals from now on
    assert_member(first, "generatorURL",
                  "https://kiln.example.com/x/diff?query=%7Bservice_name%3D%22shop%22%7D&type="
                  "process_cpu%3Acpu%3Ananoseconds%3Acpu%3Ananoseconds&left_from=1789996400000"
                  "&left_until=1790000000000&from=1790000000000&until=1790003600000");
    assert_int_equal(json_kind(json_get(json_get(item(root, 1), "labels"), "function")),
                     JSON_ABSENT);
    assert_member(item(root, 1), "endsAt", "2026-09-21T15:13:20.000Z");
    arena_free(arena);
}

// Only CPU time is measured in cores: a second of waiting is no core.
static void other_times_are_no_cores(void **state)
{
    struct arena *arena = arena_new(0);
    static const char *const types[] = {"wall:wall:nanoseconds:wall:nanoseconds",
                                        "mutex:delay:nanoseconds:contentions:count",
                                        "offcpu:offcpu:nanoseconds:offcpu:nanoseconds"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct changes_alert alert = make(7, "shop", STR(""));
        struct str body;
        struct err e = {""};
        alert.entry.type = str_from(types[i]);
        alert_describe(&sender, &alert, arena);
        assert_int_equal(alert_write_list(&sender, &alert, 1, arena, &body, &e), 0);
        struct json annotations = json_get(item(parse(body, arena), 0), "annotations");
        assert_member(annotations, "cost", "+500ms/s");
        assert_member(annotations, "description",
                      arena_printf(arena,
                                   "Since 2026-09-21T14:13:20.000Z (95 %% interval: "
                                   "2026-09-21T14:12:20.000Z to 2026-09-21T14:14:20.000Z) the "
                                   "whole service takes 3s/s instead of 2s/s (%s). Deploy: "
                                   "version=2.",
                                   types[i]));
    }
    arena_free(arena);
}

static void group_of_a_webhook(void **state)
{
    struct arena *arena = arena_new(0);
    struct changes_alert alerts[] = {make(7, "shop", STR("a")), make(8, "shop", STR("b"))};
    struct str body;
    struct err e = {""};
    for (size_t i = 0; i < 2; i++)
        alert_describe(&sender, &alerts[i], arena);
    alerts[1].open = false;
    assert_int_equal(alert_write_group(&sender, alerts, 2, 0, arena, &body, &e), 0);
    struct json root = parse(body, arena), list = json_get(root, "alerts");
    assert_member(root, "version", "4");
    assert_member(root, "status", "firing");
    assert_member(root, "receiver", "team");
    assert_member(root, "externalURL", "https://kiln.example.com/x");
    assert_member(root, "groupKey",
                  "{}:{alertname=\"KilnChange\", service_name=\"shop\", tenant=\"one\"}");
    assert_int_equal(json_size(json_get(root, "groupLabels")), 3);
    assert_int_equal(json_size(json_get(root, "commonLabels")), 7); // not function, change_id
    assert_member(json_get(root, "commonLabels"), "severity", "warning");
    assert_int_equal(json_size(json_get(root, "commonAnnotations")), 3);
    assert_member(item(list, 0), "status", "firing");
    assert_member(item(list, 0), "endsAt", "0001-01-01T00:00:00Z");
    assert_member(item(list, 1), "status", "resolved");
    assert_member(item(list, 1), "endsAt", "2026-09-21T15:13:20.000Z");
    struct str prints[2];
    for (size_t i = 0; i < 2; i++) {
        prints[i] = json_string(json_get(item(list, i), "fingerprint"), arena);
        assert_int_equal(prints[i].n, 16);
    }
    assert_false(str_eq(prints[0], prints[1]));
    // Nothing open is left, or more than was sent.
    alerts[0].open = false;
    assert_int_equal(alert_write_group(&sender, alerts, 2, 0, arena, &body, &e), 0);
    assert_member(parse(body, arena), "status", "resolved");
    assert_int_equal(alert_write_group(&sender, alerts, 2, 3, arena, &body, &e), 0);
    assert_member(parse(body, arena), "status", "firing");
    arena_free(arena);
}

static void odd_names(void **state)
{
    static const char bad[] = "q\"\\\n\t\xff\xc3\0z{}";
    struct arena *arena = arena_new(0);
    char *huge = arena_alloc(arena, 70000);
    memset(huge, 'x', 70000);
    for (int i = 0; i < 70000; i += 2)
        memcpy(huge + i, "\xc3\xa4", 2);
    struct str names[] = {{bad, sizeof bad - 1}, {huge, 70000}, {huge + 1, 69999}, STR("\x7f")};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct changes_alert alert = make(1, "s\"\xff", names[i]);
        struct str body;
        struct err e = {""};
        alert_describe(&sender, &alert, arena);
        assert_int_equal(alert_write_list(&sender, &alert, 1, arena, &body, &e), 0);
        assert_true(body.n < 10000);
        struct json labels = json_get(item(parse(body, arena), 0), "labels");
        assert_true(json_string(json_get(labels, "function"), arena).n > 0);
        assert_int_equal(alert_write_group(&sender, &alert, 1, 0, arena, &body, &e), 0);
        parse(body, arena);
        for (size_t k = 0; k < body.n; k++)
            assert_true((unsigned char)body.p[k] >= ' ');
    }
    arena_free(arena);
}

static void labels_of_the_receiver(void **state)
{
    struct arena *arena = arena_new(0);
    struct store_label more[] = {{STR("severity"), STR("page")}, {STR("team"), STR("x")}};
    struct alert_receiver other = receiver;
    struct alert_sender s = sender;
    other.labels = more;
    other.n_labels = 2;
    s.receiver = &other;
    struct changes_alert alert = make(1, "shop", STR("f"));
    alert.entry.entry.cost = -1e9;
    struct str body;
    struct err e;
    alert_describe(&s, &alert, arena);
    assert_int_equal(alert_write_list(&s, &alert, 1, arena, &body, &e), 0);
    struct json labels = json_get(item(parse(body, arena), 0), "labels");
    assert_member(labels, "severity", "page");
    assert_member(labels, "team", "x");
    assert_member(labels, "direction", "decrease");
    arena_free(arena);
}

// A clock that goes back makes neither the beginning nor the end implausible.
static void clock_that_goes_back(void **state)
{
    struct arena *arena = arena_new(0);
    struct alert_sender s = sender;
    struct changes_alert alert = make(1, "shop", STR("f"));
    struct str body;
    struct err e;
    alert_describe(&s, &alert, arena);
    s.now = T - 1000 * MINUTE;
    alert.open = false;
    assert_int_equal(alert_write_list(&s, &alert, 1, arena, &body, &e), 0);
    assert_member(item(parse(body, arena), 0), "endsAt", "2026-09-21T14:13:20.000Z");
    alert.open = true;
    alert_describe(&s, &alert, arena);
    assert_int_equal(alert.starts, s.now);
    arena_free(arena);
}

static void damaged_texts(void **state)
{
    struct arena *arena = arena_new(0);
    static const char *const texts[] = {"", "{", "[]", "1", "{\"labels\":1}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct changes_alert alert = {.id = 5, .text = str_from(texts[i]), .service = STR("s")};
        struct str body;
        struct err e = {""};
        assert_int_equal(alert_write_list(&sender, &alert, 1, arena, &body, &e), STORE_CORRUPT);
        assert_non_null(strstr(e.message, "change 5"));
        assert_int_equal(alert_write_group(&sender, &alert, 1, 0, arena, &body, &e), STORE_CORRUPT);
    }
    arena_free(arena);
}

// printf '1790000000.{"a":1}' | openssl dgst -sha256 -hmac "open sesame"
static void signature(void **state)
{
    char header[ALERT_SIGNATURE_MAX];
    alert_sign(STR("open sesame"), 1790000000, STR("{\"a\":1}"), header);
    assert_string_equal(
        header, "X-Kiln-Signature: "
                "t=1790000000,v1=7a500a1c8e490e21f291567252b74f34db3d2372deb2ed0a9700ec1ce3508866");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list_of_an_alertmanager), cmocka_unit_test(other_times_are_no_cores),
        cmocka_unit_test(group_of_a_webhook),      cmocka_unit_test(odd_names),
        cmocka_unit_test(labels_of_the_receiver),  cmocka_unit_test(clock_that_goes_back),
        cmocka_unit_test(damaged_texts),           cmocka_unit_test(signature),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
