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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
