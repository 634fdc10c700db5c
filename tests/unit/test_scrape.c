// Targets out of a configuration and out of what discovery answers.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/out.h"
#include "server/scrape_discover.h"

static struct err e;

static struct server_config *read_config(const char *text)
{
    char name[] = "/tmp/kiln-test-scrape-XXXXXX";
    int fd = mkstemp(name);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    e.message[0] = 0;
    struct server_config *c = server_config_read(name, &e);
    unlink(name);
    return c;
}

// The targets of the first job; groups: what discovery found, NULL: those of the configuration.
static struct scrape_targets find_targets(const struct server_config *c, const char *groups,
                                          struct arena *arena)
{
    struct scrape_targets targets = {0};
    struct scrape_job job;
    struct target_group *found = c->scrapes[0].groups;
    size_t n = c->scrapes[0].n_groups;
    assert_int_equal(scrape_job_init(&job, &c->scrapes[0], arena, &e), 0);
    if (groups)
        assert_int_equal(scrape_read_groups("x", str_from(groups), arena, &found, &n, &e), 0);
    scrape_add_groups(&job, found, n, groups != NULL, &targets);
    return targets;
}

#define ONE_PROFILE "profiling_config: {pprof_config: {cpu: {path: /p}}}"
#define JOB "scrape_configs: [{job_name: j, " ONE_PROFILE ", "

static void tenant_of(const char *config, const char *groups, const char *tenant)
{
    struct server_config *c = read_config(config);
    struct arena *arena = arena_new(0);
    if (!c)
        fail_msg("%s", e.message);
    struct scrape_targets t = find_targets(c, groups, arena);
    assert_int_equal(t.n, tenant != NULL);
    if (tenant && !str_eq(t.items[0].tenant, str_from(tenant)))
        fail_msg("%s: tenant %.*s", config, (int)t.items[0].tenant.n, t.items[0].tenant.p);
    for (size_t i = 0; t.n && i < t.items[0].n_labels; i++)
        assert_false(str_starts(t.items[0].labels[i].name, STR("__")));
    assert_int_equal(t.unusable, tenant == NULL);
    arena_free(arena);
    server_config_free(c);
}

static void tenants(void **state)
{
    static const char with_label[] = "[{targets: [a], labels: {__tenant_id__: x}}]";
    static const char plain[] = "[{targets: [a]}]";
    tenant_of(JOB "static_configs: [{targets: [a]}]}]", NULL, "anonymous");
    tenant_of(JOB "tenant: t, static_configs: [{targets: [a]}]}]", NULL, "t");
    tenant_of(JOB "static_configs: [{targets: [a], labels: {__tenant_id__: x}}]}]", NULL, "x");
    tenant_of(JOB "tenant: t, static_configs: [{targets: [a], labels: {__tenant_id__: x}}]}]", NULL,
              "x");
    tenant_of(JOB "tenant: t}]", plain, "t");
    tenant_of(JOB "}]", with_label, "x");
    // Whoever answers discovery does not choose among tenants of others.
    tenant_of(JOB "tenant: t}]", with_label, "t");
    tenant_of(JOB
              "tenant: t, relabel_configs: [{source_labels: [k], target_label: __tenant_id__}]}]",
              "[{targets: [a], labels: {k: y}}]", "y");
    tenant_of(JOB "}]", "[{targets: [a], labels: {__tenant_id__: ../x}}]", NULL);
    tenant_of(JOB "}]", "[{targets: [a], labels: {__scheme__: file}}]", NULL);
    tenant_of(JOB "}]", "[{targets: [a/b]}]", NULL);
    tenant_of(JOB "}]", "[{targets: ['u:p@a']}]", NULL);
    tenant_of(JOB "}]", "[{targets: ['a b']}]", NULL);
    tenant_of(JOB "}]", "[{targets: [\"a\\r\\nX: y\"]}]", NULL);
}

static void refused(const char *config, const char *words)
{
    struct server_config *c = read_config(config);
    if (c || !strstr(e.message, words))
        fail_msg("%s: %s", config, c ? "accepted" : e.message);
}

static void configurations(void **state)
{
    refused(JOB "scrape_interval: 99999999999d}]", "scrape_interval");
    refused(JOB "scrape_interval: 106751d}]", "scrape_interval");
    refused(JOB "scrape_interval: 0s}]", "scrape_interval");
    refused(JOB "scrape_timeout: 100000d}]", "scrape_timeout");
    refused(JOB "tenant: a/b}]", "tenant");
    refused(JOB "target_limit: 4294967296}]", "target_limit");
    refused(JOB "target_limit: 0}]", "target_limit");
    refused(JOB "http_sd_configs: [{url: 'file:///x'}]}]", "url");
    refused(JOB "http_sd_configs: [{url: 'http://x', refresh_interval: 0s}]}]", "refresh_interval");
    refused(JOB "http_sd_configs: [{refresh_interval: 1s}]}]", "url");
    refused(JOB "kubernetes_sd_configs: [{role: pod}]}]", "KUBERNETES_SERVICE_HOST");
#define CLUSTER JOB "kubernetes_sd_configs: [{api_server: 'https://k', "
    refused(CLUSTER "role: node}]}]", "unknown role");
    refused(CLUSTER "role: endpoints, annotations: true}]}]", "annotations");
    refused(CLUSTER "namespaces: {names: ['a/b']}}]}]", "namespace");
    refused(CLUSTER "selectors: [{role: node, label: a}]}]}]", "selectors");
    refused(CLUSTER "basic_auth: {username: u}, bearer_token: t}]}]", "authorization");
    refused(JOB "kubernetes_sd_configs: [{api_server: 'ftp://k'}]}]", "api_server");
    refused(JOB "basic_auth: {username: u}, bearer_token: t}]", "authorization");
    refused(JOB "authorization: {credentials: a, credentials_file: b}}]", "secret");
    refused(JOB "authorization: {credentials: \"a\\nX: y\"}}]", "control");
    struct server_config *c =
        read_config(JOB "bearer_token: t, http_sd_configs: [{url: 'http://x', basic_auth: "
                        "{username: u, password: p}, tls_config: {ca_file: f}}]}]");
    assert_non_null(c);
    const struct scrape_config *s = &c->scrapes[0];
    assert_true(str_eq(s->auth.type, STR("Bearer")) && str_eq(s->auth.credentials, STR("t")));
    assert_true(!s->auth.user.n && !s->auth.ca_file.n);
    assert_true(str_eq(s->urls[0].auth.user, STR("u")) && !s->urls[0].auth.credentials.n);
    assert_true(str_eq(s->urls[0].auth.ca_file, STR("f")));
    server_config_free(c);
}

static void discovery_is_bounded(void **state)
{
    struct arena *arena = arena_new(64 << 20);
    struct target_group *groups;
    size_t n;
    static const char *const bad[] = {
        "[&a {targets: [x]}, *a]",
        "[{targets: &a [x]}]",
        "[{targets: [&a x]}]",
        "[[[[[[[[[[[[]]]]]]]]]]]]",
        "{targets: [x]}",
        "[{targets: [x], unknown: 1}]",
        "[{targets: {a: b}}]",
        "<html>",
        "[{",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        e.message[0] = 0;
        if (!scrape_read_groups("x", str_from(bad[i]), arena, &groups, &n, &e) || !e.message[0])
            fail_msg("%s is accepted", bad[i]);
    }
    assert_int_equal(scrape_read_groups("x", STR(""), arena, &groups, &n, &e), 0);
    assert_int_equal(n, 0);
    // More targets than the limit, and more labels than anybody needs.
    struct server_config *c = read_config(JOB "target_limit: 2}]");
    struct scrape_targets t = find_targets(c, "[{targets: [a, b, c, d, e]}]", arena);
    assert_int_equal(t.n, 2);
    assert_non_null(strstr(t.why.message, "target_limit"));
    struct out many;
    out_init_memory(&many, 1 << 20);
    out_text(&many, "[{targets: [a], labels: {");
    for (int i = 0; i < 10000; i++)
        out_printf(&many, "l%d: x,", i);
    out_write(&many, "}}]", 4);
    t = find_targets(c, many.p, arena);
    assert_int_equal(t.n, 0);
    assert_non_null(strstr(t.why.message, "labels"));
    out_fini(&many);
    server_config_free(c);
    arena_free(arena);
}

// What libyaml takes to load an answer counts, until it is loaded.
static void discovery_memory(void **state)
{
    struct budget budget = {.account = {.owner = "discovery", .limit = 8 << 20}};
    struct target_group *groups;
    size_t n;
    struct out text;
    out_init_memory(&text, 1 << 20);
    out_text(&text, "[{targets: [");
    for (int i = 0; i < 100000; i++)
        out_text(&text, "0,");
    out_text(&text, "]}]");
    struct arena *arena = arena_new_in(&budget, 0);
    assert_int_equal(scrape_read_groups("x", out_result(&text), arena, &groups, &n, &e), -1);
    assert_non_null(strstr(e.message, "the limit of discovery"));
    arena_free(arena);
    assert_int_equal(budget.account.held, 0);
    arena = arena_new_in(&budget, 0);
    assert_int_equal(scrape_read_groups("x", STR("[{targets: [a]}]"), arena, &groups, &n, &e), 0);
    assert_int_equal(budget.account.held, arena_size(arena));
    arena_free(arena);
    // A target takes hundreds of bytes, not thousands.
    struct server_config *c = read_config(JOB "}]");
    arena = arena_new(0);
    text.n = 0;
    out_text(&text, "[{targets: [");
    for (int i = 0; i < 5000; i++)
        out_printf(&text, "host%d,", i);
    out_write(&text, "]}]", 4);
    assert_int_equal(find_targets(c, text.p, arena).n, 5000);
    assert_true(arena_size(arena) < 5000 * 2048);
    arena_free(arena);
    server_config_free(c);
    out_fini(&text);
}

// A rule that would backtrack for hours drops the target instead.
static void slow_rules(void **state)
{
    struct server_config *c = read_config(
        JOB "relabel_configs: [{source_labels: [k], regex: '(a|aa)+', action: drop}]}]");
    struct arena *arena = arena_new(0);
    assert_non_null(c);
    struct scrape_targets t = find_targets(
        c,
        "[{targets: [x], labels: {k: 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!'}}, "
        "{targets: [y]}]",
        arena);
    assert_int_equal(t.n, 1);
    assert_int_equal(t.unusable, 1);
    assert_non_null(strstr(t.why.message, "too long"));
    arena_free(arena);
    server_config_free(c);
}

// The labels of the first target after the rules, as NAME=VALUE, sorted; "dropped".
static void relabeled(const char *labels, const char *rules, const char *expected)
{
    struct arena *arena = arena_new(0);
    const char *config = arena_printf(arena, JOB "relabel_configs: [%s]}]", rules);
    const char *groups = arena_printf(arena, "[{targets: [a:1], labels: {%s}}]", labels);
    struct server_config *c = read_config(config);
    if (!c)
        fail_msg("%s: %s", rules, e.message);
    struct scrape_targets t = find_targets(c, groups, arena);
    struct out out;
    out_init_arena(&out, arena);
    for (size_t i = 0; t.n && i < t.items[0].n_labels; i++) {
        const struct store_label *l = &t.items[0].labels[i];
        if (!str_eq(l->name, STR("job")) && !str_eq(l->name, STR("instance")) &&
            !str_eq(l->name, STR("service_name")))
            out_printf(&out, "%s%.*s=%.*s", out.n ? " " : "", (int)l->name.n, l->name.p,
                       (int)l->value.n, l->value.p);
    }
    if (!t.n)
        out_text(&out, "dropped");
    out_char(&out, '\0');
    if (strcmp(out.p, expected) != 0)
        fail_msg("%s with {%s}: {%s}, expected {%s}", rules, labels, out.p, expected);
    arena_free(arena);
    server_config_free(c);
}

// Prometheus' documentation of relabel_config, sentence by sentence.
static void relabeling(void **state)
{
    // Defaults: separator ;, regex (.*), replacement $1, action replace.
    relabeled("x: p, y: q", "{source_labels: [x, y], target_label: z}", "x=p y=q z=p;q");
    relabeled("x: p, y: q", "{source_labels: [x, y], separator: '', target_label: z}",
              "x=p y=q z=pq");
    relabeled("x: p", "{source_labels: [x, none], target_label: z}", "x=p z=p;");
    relabeled("x: p", "{target_label: z, replacement: q}", "x=p z=q");
    // An expression matches the whole value.
    relabeled("x: abc", "{source_labels: [x], regex: b, target_label: z, replacement: q}", "x=abc");
    relabeled("x: abc", "{source_labels: [x], regex: '.b.', target_label: z, replacement: q}",
              "x=abc z=q");
    relabeled("x: abc", "{source_labels: [x], regex: 'a|abc', target_label: z}", "x=abc");
    relabeled("x: \"p\\nq\"", "{source_labels: [x], regex: 'p.q', action: drop}", "dropped");
    // Groups, in the replacement and in the name.
    relabeled("x: a-b",
              "{source_labels: [x], regex: '(.)-(.)', target_label: '${2}_z', "
              "replacement: '$2${1}x$$'}",
              "x=a-b b_z=bax$");
    relabeled("x: a-b",
              "{source_labels: [x], regex: '(?P<one>.)-.', target_label: z, "
              "replacement: '${one}$3'}",
              "x=a-b z=a");
    // An empty value removes the label.
    relabeled("x: a, z: b", "{source_labels: [x], regex: a, target_label: z, replacement: ''}",
              "x=a");
    relabeled("x: a", "{source_labels: [x], regex: a, action: keep}", "x=a");
    relabeled("x: b", "{source_labels: [x], regex: a, action: keep}", "dropped");
    relabeled("x: b", "{source_labels: [none], regex: '', action: keep}", "x=b");
    relabeled("x: a", "{source_labels: [x], regex: a, action: drop}", "dropped");
    relabeled("x: b", "{source_labels: [x], regex: a, action: drop}", "x=b");
    relabeled("x: a, y: a", "{source_labels: [x], target_label: y, action: keepequal}", "x=a y=a");
    relabeled("x: a, y: b", "{source_labels: [x], target_label: y, action: keepequal}", "dropped");
    relabeled("x: a", "{source_labels: [none], target_label: none2, action: keepequal}", "x=a");
    relabeled("x: a, y: a", "{source_labels: [x], target_label: y, action: dropequal}", "dropped");
    relabeled("x: a, y: b", "{source_labels: [x], target_label: y, action: dropequal}", "x=a y=b");
    relabeled("__meta_a: p, __meta_b: q", "{regex: __meta_(.+), action: labelmap}", "a=p b=q");
    relabeled("aa: p", "{regex: a(.), replacement: 'x_$1', action: labelmap}", "aa=p x_a=p");
    relabeled("a1: p, b: q", "{regex: 'a.', action: labeldrop}", "b=q");
    relabeled("a1: p, b: q", "{regex: 'a.|__.*', action: labelkeep}", "a1=p");
    relabeled("x: aBÄ", "{source_labels: [x], target_label: x, action: uppercase}", "x=ABÄ");
    relabeled("x: aBÄ", "{source_labels: [x], target_label: x, action: lowercase}", "x=abÄ");
    relabeled("x: a", "{source_labels: [x], target_label: z, modulus: 1, action: hashmod}",
              "x=a z=0");
    // In order: a rule sees what those before it made.
    relabeled("x: a",
              "{source_labels: [x], target_label: y}, {source_labels: [y], regex: a, action: drop}",
              "dropped");
    refused(JOB "relabel_configs: [{action: keepequal, source_labels: [x]}]}]", "target_label");
    refused(JOB "relabel_configs: [{action: other}]}]", "unknown action");
}

// Labels that choose profiles and paths, as those of annotated pods do.
static void chosen_profiles(void **state)
{
    static const char two[] = "scrape_configs: [{job_name: j, profiling_config: {path_prefix: /x, "
                              "pprof_config: {process_cpu: {path: /p}, memory: {path: /m}}}}]";
    static const struct {
        const char *labels, *urls;
    } cases[] = {
        {"a: b", "http://a:1/x/p http://a:1/x/m "},
        {"__profile_type__: cpu", "http://a:1/x/p "},
        {"__profile_type__: memory, __profile_path__: '/heap?a=b'", "http://a:1/x/heap?a=b "},
        {"__profile_type__: goroutine", ""},
        {"__profile_path_prefix__: /ops", "http://a:1/ops/p http://a:1/ops/m "},
        {"__profile_path__: 'p'", ""},
        {"__profile_path__: '/p q'", ""},
        {"__profile_path__: '/p#q'", ""},
        {"__profile_path_prefix__: \"/p\\r\\nX: y\"", ""},
    };
    struct server_config *c = read_config(two);
    assert_non_null(c);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena *arena = arena_new(0);
        struct scrape_targets t = find_targets(
            c, arena_printf(arena, "[{targets: ['a:1'], labels: {%s}}]", cases[i].labels), arena);
        struct out out;
        out_init_arena(&out, arena);
        for (size_t k = 0; k < t.n; k++)
            out_printf(&out, "%s ", t.items[k].url);
        out_char(&out, '\0');
        assert_string_equal(out.p, cases[i].urls);
        arena_free(arena);
    }
    server_config_free(c);
}

static void shown_urls(void **state)
{
    struct arena *arena = arena_new(0);
    assert_string_equal(scrape_shown_url("http://u:p@h:1/x@y", arena), "http://h:1/x@y");
    assert_string_equal(scrape_shown_url("http://h/x?a@b", arena), "http://h/x?a@b");
    assert_string_equal(scrape_shown_url("http://u:p@p@h", arena), "http://h");
    assert_string_equal(scrape_shown_url("nothing", arena), "nothing");
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tenants),    cmocka_unit_test(configurations),
        cmocka_unit_test(shown_urls), cmocka_unit_test(discovery_is_bounded),
        cmocka_unit_test(slow_rules), cmocka_unit_test(discovery_memory),
        cmocka_unit_test(relabeling), cmocka_unit_test(chosen_profiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
