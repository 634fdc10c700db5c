#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "model/builder.h"
#include "query/query.h"
#include "arena_fixture.h"

// --- selectors ---

static void test_selectors(void **state)
{
    struct query_selector s;
    struct err e;
    assert_int_equal(
        query_selector(STR("{a=\"x\", b=~\"y.*\",c!='z' , d!~`\\d+`,}"), arena, &s, &e), 0);
    assert_int_equal(s.n, 4);
    assert_true(str_eq(s.matchers[0].name, STR("a")) && str_eq(s.matchers[0].value, STR("x")));
    assert_int_equal(s.matchers[2].op, STORE_NE);
    assert_true(str_eq(s.matchers[3].value, STR("\\d+")));
    // Anchored at both ends, alternatives too.
    assert_true(model_regex_match(s.matchers[1].regex, STR("yes")));
    assert_false(model_regex_match(s.matchers[1].regex, STR("eyes")));
    assert_int_equal(query_selector(STR("{a=~\"x|y\"}"), arena, &s, &e), 0);
    assert_false(model_regex_match(s.matchers[0].regex, STR("xz")));
    assert_false(model_regex_match(s.matchers[0].regex, STR("zy")));
    assert_true(model_regex_match(s.matchers[0].regex, STR("y")));
    const char *empty[] = {"{}", " { } ", "# all\n{ # of them\n} #"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(query_selector(str_from(empty[i]), arena, &s, &e), 0);
        assert_int_equal(s.n, 0);
    }
    assert_int_equal(query_selector(STR("{a=\"\\\"\\n\\x41\\u00e4\\101\"}"), arena, &s, &e), 0);
    assert_true(str_eq(s.matchers[0].value, STR("\"\nA\xc3\xa4"
                                                "A")));
    // Names: of the profile, before the braces or alone in quotes; of labels, in any quotes.
    assert_int_equal(
        query_selector(STR("a:b{'host.name'=\"x\",`on`!=\"y\", \"c\"}"), arena, &s, &e), 0);
    assert_int_equal(s.n, 4);
    assert_true(str_eq(s.matchers[0].name, STR("host.name")));
    assert_true(str_eq(s.matchers[2].name, STR("__name__")));
    assert_true(str_eq(s.matchers[2].value, STR("c")));
    assert_true(str_eq(s.matchers[3].name, STR("__name__")));
    assert_true(str_eq(s.matchers[3].value, STR("a:b")));
    // As in Prometheus: no label has this name, so that its value is empty.
    assert_int_equal(query_selector(STR("{\"\"!~\"x\"}"), arena, &s, &e), 0);
    assert_true(s.n == 1 && s.matchers[0].op == STORE_NRE && !s.matchers[0].name.n);
    assert_int_equal(query_selector(STR("sum"), arena, &s, &e), 0);
    assert_true(str_eq(s.matchers[0].value, STR("sum")));
    assert_int_equal(query_selector(STR("{a=~\"x.y\"}"), arena, &s, &e), 0);
    assert_true(model_regex_match(s.matchers[0].regex, STR("x\ny")));
}

static void test_wrong_selectors(void **state)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"{", "expected a label's name or '}' at byte 2"},
        {"{a", "expected =, !=, =~ or !~ at byte 3"},
        {"{a=x}", "expected a quoted value at byte 4, found 'x'"},
        {"{a=\"x}", "expected the quote that ends the value at byte 7"},
        {"{a=\"x\" b=\"y\"}", "expected ',' or '}' at byte 8"},
        {"{a=\"x\"} z", "expected the end at byte 9"},
        {"{=\"x\"}", "expected a label's name at byte 2"},
        {"{a==\"x\"}", "expected a quoted value at byte 4"},
        {"{a=\"\\q\"}", "byte 6, found 'q'"},
        {"{a=~\"(\"}", "parsing label a regexp"},
        {"{a=~\")(\"}", "parsing label a regexp"},
        {"{1a=\"x\"}", "expected a label's name at byte 2"},
        {"", "the selector is empty; {} selects everything"},
        {" # nothing", "the selector is empty"},
        {"a=\"x\"", "expected the end at byte 2"},
        {"{,}", "expected a label's name at byte 2"},
        {"{a=\"x\",,}", "expected a label's name at byte 8"},
        {"{a.b=\"x\"}", "expected =, !=, =~ or !~ at byte 3, found '.'"},
        {"{a=\"x\ny\"}", "expected the quote that ends the value, on the same line at byte 6"},
        {"{a=\"\\ud800\"}", "an escape"},
        {"On{}", "a name other than PromQL's keywords"},
        {"{a=\"x\"}[5m]", "expected the end at byte 8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct query_selector s;
        struct err e;
        assert_int_equal(query_selector(str_from(cases[i].text), arena, &s, &e), STORE_BAD_INPUT);
        if (!strstr(e.message, cases[i].error))
            fail_msg("%s: %s", cases[i].text, e.message);
    }
}

static void test_types(void **state)
{
    struct err e;
    // What is behind the fifth part is ignored.
    const char *right[][2] = {
        {"process_cpu:cpu:nanoseconds:cpu:nanoseconds",
         "process_cpu:cpu:nanoseconds:cpu:nanoseconds"},
        {"block:contentions:count::", "block:contentions:count::"},
        {"a:b:c:d:e:delta", "a:b:c:d:e"},
        {"::::", "::::"},
    };
    for (int i = 0; i < 4; i++) {
        struct str id = str_from(right[i][0]);
        assert_int_equal(query_type(&id, &e), 0);
        assert_true(str_eq(id, str_from(right[i][1])));
    }
    const char *wrong[] = {"", "a:b:c:d", "a:b:c:d:e:f:g", "a"};
    for (int i = 0; i < 4; i++)
        assert_int_equal(query_type(&(struct str){wrong[i], strlen(wrong[i])}, &e),
                         STORE_BAD_INPUT);
    const char *counts[][2] = {
        {"process_cpu:cpu:nanoseconds:cpu:nanoseconds",
         "process_cpu:samples:count:cpu:nanoseconds"},
        {"wall:wall:nanoseconds::", "wall:samples:count::"},
        {"process_cpu:samples:count::", "process_cpu:samples:count::"},
        {"memory:alloc_space:bytes:space:bytes", ""},
        {"nothing", ""},
    };
    for (int i = 0; i < 5; i++)
        assert_true(
            str_eq(query_count_type(str_from(counts[i][0]), arena), str_from(counts[i][1])));
}

// --- trees ---

// Stacks from text: `a;b 3\n`, root first; a name with a | has an inlined callee behind it.
static struct store_stacks *stacks(const char *text)
{
    struct model_builder *b = arena_alloc(arena, sizeof *b);
    model_build(b, arena);
    model_build_type(b, STR("cpu"), STR("nanoseconds"));
    struct store_stacks *s = arena_alloc(arena, sizeof *s);
    uint32_t *parent = arena_array(arena, 1000, 4), *location = arena_array(arena, 1000, 4);
    int64_t *self = arena_array(arena, 1000, 8);
    uint32_t n = 1;
    struct str rest = str_from(text), line;
    while (str_next_line(&rest, &line)) {
        size_t space = str_find(line, STR(" "), 0), at = 0;
        uint32_t node = 0;
        int64_t value;
        assert_true(str_to_i64(str_from_to(line, space + 1, line.n), &value));
        while (at < space) {
            size_t end = str_find(line, STR(";"), at);
            end = end < space ? end : space;
            struct str name = str_from_to(line, at, end);
            size_t bar = str_find(name, STR("|"), 0);
            uint32_t l;
            if (bar == SIZE_MAX) {
                l = model_build_named_location(b, name);
            } else {
                struct model_line lines[2];
                memset(lines, 0, sizeof lines);
                struct str names[2] = {str_from_to(name, bar + 1, name.n),
                                       str_from_to(name, 0, bar)};
                for (int i = 0; i < 2; i++)
                    lines[i].function =
                        model_build_function(b, model_build_string(b, names[i]), 0, 0, 0);
                l = model_build_location(b, MODEL_NONE, 0, lines, 2);
            }
            uint32_t child = 1;
            while (child < n && !(parent[child] == node && location[child] == l))
                child++;
            if (child == n) {
                parent[n] = node;
                location[n++] = l;
            }
            node = child;
            at = end + 1;
        }
        self[node] += value;
    }
    *s = (struct store_stacks){.n_nodes = n,
                               .parent = parent,
                               .location = location,
                               .self = self,
                               .symbols = b->p,
                               .n_profiles = 1};
    return s;
}

static struct query_tree *tree(const char *text)
{
    struct query_tree *t;
    struct err e;
    assert_int_equal(query_tree(stacks(text), NULL, 0, arena, &t, &e), 0);
    return t;
}

static char *shown(const struct query_tree *t)
{
    struct out out;
    out_init_arena(&out, arena);
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        uint32_t depth = 0;
        for (uint32_t at = i; at; at = t->parent[at])
            depth++;
        out_spaces(&out, depth);
        out_str(&out, t->names[t->name[i]]);
        out_printf(&out, " %lld %lld\n", (long long)t->total[i], (long long)t->self[i]);
    }
    out_char(&out, 0);
    return out.p;
}

static char *levels(const struct query_flame *f)
{
    struct out out;
    out_init_arena(&out, arena);
    for (size_t i = 0; i < f->n_names; i++) {
        out_str(&out, f->names[i]);
        out_char(&out, ' ');
    }
    for (size_t i = 0; i < f->n_levels; i++) {
        out_text(&out, "|");
        for (size_t j = 0; j < f->levels[i].n; j++)
            out_printf(&out, " %lld", (long long)f->levels[i].values[j]);
    }
    out_printf(&out, " = %lld %lld", (long long)f->total, (long long)f->max_self);
    out_char(&out, 0);
    return out.p;
}

static void test_trees(void **state)
{
    assert_string_equal(shown(tree("main;b 2\nmain;a;x 3\nmain 1\nmain|in;b 4\n")),
                        "total 10 0\n main 10 1\n  a 3 0\n   x 3 3\n  b 2 2\n  in 4 0\n   b 4 4\n");
    struct query_tree *t;
    struct err e;
    struct str keep[] = {STR("main"), STR("a")};
    struct store_stacks *s = stacks("main;b 2\nmain;a;x 3\nmain;a 4\nother 1\n");
    assert_int_equal(query_tree(s, keep, 2, arena, &t, &e), 0);
    assert_string_equal(shown(t), "total 7 0\n main 7 0\n  a 7 4\n   x 3 3\n");
    assert_string_equal(shown(tree("")), "total 0 0\n");
}

static void test_truncation(void **state)
{
    const char *text = "main;a;x 5\nmain;a;y 1\nmain;b 2\nmain;c 3\nmain;d;deep 4\n";
    // Seven nodes; the four largest totals are 15, 6, 5 and 4. The second cut counts "other" (5)
    // and takes d away, too.
    assert_string_equal(shown(query_truncate(tree(text), 4, arena)),
                        "total 15 0\n main 15 0\n  a 6 0\n   other 1 1\n   x 5 5\n  other 9 9\n");
    assert_string_equal(shown(query_truncate(tree(text), 8, arena)), shown(tree(text)));
    assert_string_equal(shown(query_truncate(tree(text), -1, arena)), shown(tree(text)));
}

static void test_flame(void **state)
{
    struct query_flame f;
    struct err e;
    assert_int_equal(query_flame(tree("main;b 2\nmain;a;x 3\nmain 1\nz;b 4\n"), 0, arena, &f, &e),
                     0);
    assert_string_equal(
        levels(&f), "total main a x b z | 0 10 0 0| 0 6 1 1 0 4 0 5| 1 3 0 2 0 2 2 4 0 4 4 4| 1 3 "
                    "3 3 = 10 4");
    assert_int_equal(query_flame(tree(""), 0, arena, &f, &e), 0);
    assert_string_equal(levels(&f), "total | 0 0 0 0 = 0 0");
}

static void test_diff(void **state)
{
    struct query_flame f;
    struct err e;
    assert_int_equal(
        query_diff(tree("main;a 3\nmain;b 2\n"), tree("main;b 5\nmain;c 1\n"), 0, arena, &f, &e),
        0);
    assert_string_equal(levels(&f),
                        "total main a b c | 0 5 0 0 6 0 0| 0 5 0 0 6 0 1| 0 3 3 0 0 0 2 0 "
                        "2 2 0 5 5 3 0 0 0 0 1 1 4 = 11 5");
    assert_int_equal(f.left_ticks, 5);
    assert_int_equal(f.right_ticks, 6);
    // Two nodes may stay: the root, which counts here, and main; the rest is one "other".
    assert_int_equal(
        query_diff(tree("main;a 3\nmain;b 2\n"), tree("main;b 5\nmain;c 1\n"), 2, arena, &f, &e),
        0);
    assert_string_equal(levels(&f),
                        "total main other | 0 5 0 0 6 0 0| 0 5 0 0 6 0 1| 0 5 5 0 6 6 2 = 11 6");
}

static void test_tree_bytes(void **state)
{
    struct out out;
    struct err e;
    out_init_arena(&out, arena);
    assert_int_equal(query_tree_bytes(tree("a;b 300\na 1\n"), -1, arena, &out, &e), 0);
    static const char expected[] = "\0\0\1\1a\1\1\1b\254\2\0";
    assert_int_equal(out.n, sizeof expected - 1);
    assert_memory_equal(out.p, expected, out.n);
}

static void test_pprof(void **state)
{
    struct model_profile *p;
    struct err e;
    struct store_stacks *s = stacks("main;a;x 5\nmain;a;y 1\nmain|in 2\n");
    assert_int_equal(query_profile(s, 0, 7, 8, arena, &p, &e), 0);
    assert_int_equal(p->n_samples, 3);
    assert_int_equal(p->time_nanos, 7);
    assert_int_equal(p->duration_nanos, 8);
    assert_int_equal(p->stack_len[0], 3);
    assert_int_equal(model_check(p, &e), 0);
    // Three may stay: main, a and x; y is the first that is cut and stays as the leaf, what has
    // nothing that stays is "other".
    assert_int_equal(query_profile(s, 3, 7, 8, arena, &p, &e), 0);
    int64_t others = 0, total = 0;
    for (size_t i = 0; i < p->n_samples; i++) {
        const struct model_location *l = &p->locations[p->stacks[i][0]];
        struct str name = model_str(p, p->functions[p->lines[l->first_line].function].name);
        others += str_eq(name, STR("other")) ? p->values[i] : 0;
        total += p->values[i];
    }
    assert_int_equal(others, 2);
    assert_int_equal(total, 8);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_arena, free_arena)
    const struct CMUnitTest tests[] = {
        TEST(test_selectors), TEST(test_wrong_selectors), TEST(test_types),
        TEST(test_trees),     TEST(test_truncation),      TEST(test_flame),
        TEST(test_diff),      TEST(test_tree_bytes),      TEST(test_pprof),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
