#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/ingest_name.h"
#include "server/scrape_discover.h"

static void names_with_labels(void **state)
{
    struct arena *arena = arena_new(0);
    struct ingest_name name;
    struct err e = {""};
    assert_int_equal(
        ingest_name_parse(STR(" my.app-1/x.cpu { a = 1 ,b.c=x y,a=2}"), arena, &name, &e), 0);
    assert_true(str_eq(name.app, STR("my.app-1/x.cpu")));
    assert_int_equal(name.n, 2);
    assert_true(str_eq(name.labels[0].value, STR("2")));
    assert_true(str_eq(name.labels[1].name, STR("b.c")));
    assert_true(str_eq(name.labels[1].value, STR("x y")));
    static const char *const wrong[] = {"", "{a=b}", "a b", "a{x y=1}", "a{=1}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(ingest_name_parse(str_from(wrong[i]), arena, &name, &e), -1);
    arena_free(arena);
}

static void times(void **state)
{
    const int64_t s = 1000000000, now = 1700000000 * s;
    int64_t time;
    const struct {
        const char *text;
        int64_t want;
    } cases[] = {
        {"1600000000", 1600000000 * s},
        {"1600000000123", 1600000000123 * (s / 1000)},
        {"1600000000123456", 1600000000123456 * 1000},
        {"1600000000123456789", 1600000000123456789},
        {"20200913", 1599955200 * s},
        {"now", now},
        {"now-1h", now - 3600 * s},
        {"now-1h30min", now - 5400 * s},
        {"now+2d", now + 172800 * s},
        {"now-1M", now - 2592000 * s},
        {"nonsense", now},
        {"now-300y", 1000000},
        {"now-60y", 1000000},
        {"9223372036854775807", INT64_MAX},
        {"00000000", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(ingest_time(str_from(cases[i].text), now, &time) && time == cases[i].want);
    static const char *const too_large[] = {"99999999999", "9999999999999999999",
                                            "9999999999999999", "99999999999999999999999",
                                            "now+300y"};
    for (size_t i = 0; i < sizeof too_large / sizeof *too_large; i++)
        assert_false(ingest_time(str_from(too_large[i]), now, &time));
}

static void types_by_suffix(void **state)
{
    struct str app = STR("a.b.alloc_space");
    const struct ingest_type *type = ingest_type(&app);
    assert_string_equal(type->metric, "memory");
    assert_true(str_eq(app, STR("a.b")));
    app = STR("plain");
    assert_string_equal(ingest_type(&app)->type, "cpu");
    app = STR("a.nothing");
    assert_null(ingest_type(&app));
}

static struct str relabelled(struct arena *arena, struct relabel_rule rule, struct str name,
                             bool *keep)
{
    struct store_label given[] = {{STR("__address__"), STR("10.0.0.1:6060")},
                                  {STR("job"), STR("Shop")}},
                       *labels = given;
    size_t n = 2;
    struct err e = {""};
    if (!rule.pattern.n)
        rule.pattern = STR("^(?:(.*))$");
    if (!rule.replacement.p)
        rule.replacement = STR("$1");
    rule.separator = STR(";");
    struct scrape_rules *rules = scrape_rules_new(&rule, 1, arena, &e);
    assert_non_null(rules);
    assert_int_equal(scrape_relabel(rules, &labels, &n, arena, keep, &e), 0);
    for (size_t i = 0; i < n; i++)
        if (str_eq(labels[i].name, name))
            return labels[i].value;
    return STR("");
}

static void relabelling(void **state)
{
    struct arena *arena = arena_new(0);
    struct str address = STR("__address__"), job = STR("job");
    struct str both[] = {job, address};
    bool keep;
    struct relabel_rule rule = {.source = both,
                                .n_source = 2,
                                .target = STR("x"),
                                .pattern = STR("^(?:(?P<j>.*);(.*):(\\d+))$"),
                                .replacement = STR("${j}-$2-$3-$$-$9")};
    assert_true(str_eq(relabelled(arena, rule, STR("x"), &keep), STR("Shop-10.0.0.1-6060-$-")));
    rule = (struct relabel_rule){
        .source = &job, .n_source = 1, .target = STR("x"), .action = RELABEL_LOWERCASE};
    assert_true(str_eq(relabelled(arena, rule, STR("x"), &keep), STR("shop")));
    rule = (struct relabel_rule){
        .source = &job, .n_source = 1, .pattern = STR("^(?:Sho)$"), .action = RELABEL_KEEP};
    relabelled(arena, rule, STR("x"), &keep);
    assert_false(keep); // anchored
    rule.action = RELABEL_DROP;
    relabelled(arena, rule, STR("x"), &keep);
    assert_true(keep);
    rule = (struct relabel_rule){
        .pattern = STR("^(?:j(.*))$"), .action = RELABEL_LABELMAP, .replacement = STR("k$1")};
    assert_true(str_eq(relabelled(arena, rule, STR("kob"), &keep), STR("Shop")));
    rule = (struct relabel_rule){.pattern = STR("^(?:job)$"), .action = RELABEL_LABELDROP};
    assert_true(str_eq(relabelled(arena, rule, job, &keep), STR("")));
    rule = (struct relabel_rule){.source = &address,
                                 .n_source = 1,
                                 .target = STR("shard"),
                                 .modulus = 1,
                                 .action = RELABEL_HASHMOD};
    assert_true(str_eq(relabelled(arena, rule, STR("shard"), &keep), STR("0")));
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_with_labels),
        cmocka_unit_test(times),
        cmocka_unit_test(types_by_suffix),
        cmocka_unit_test(relabelling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
