#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "report/graph.h"
#include "stacks.h"
#include "arena_fixture.h"

static struct report *report_of(struct model_builder *b, enum report_format format)
{
    struct report *r = arena_alloc(arena, sizeof *r);
    *r = (struct report){.p = b->p, .arena = arena};
    r->o.format = format;
    r->o.ratio = 1;
    r->o.unit = STR("count");
    r->o.output_unit = STR("minimum");
    r->total = b->p->n_types ? report_total(b->p, 0, false) : 0;
    return r;
}

// "name flat cum" for each node shown, then "src -> dst weight", with ~ for a residual edge
// and + for an inlined call.
static char *dump(struct graph *g)
{
    struct out out;
    out_init_memory(&out, 1 << 20);
    for (size_t i = 0; i < g->n_selected; i++) {
        const struct node *n = &g->nodes[g->selected[i]];
        out_str(&out, n->name);
        out_printf(&out, " %lld %lld\n", (long long)node_flat(n), (long long)node_cum(n));
    }
    for (size_t i = 0; i < g->n_selected; i++) {
        size_t n;
        uint32_t *edges = graph_sorted_out(g, g->selected[i], &n);
        for (size_t k = 0; k < n; k++) {
            const struct edge *e = &g->edges[edges[k]];
            out_str(&out, node_printable_name(g, &g->nodes[e->src].info));
            out_printf(&out, " %s%s> ", e->residual ? "~" : "-", e->is_inline ? "+" : "");
            out_str(&out, node_printable_name(g, &g->nodes[e->dst].info));
            out_printf(&out, " %lld\n", (long long)e->weight);
        }
    }
    char *text = arena_copy(arena, out.p, out.n);
    out_fini(&out);
    return text;
}

static void shares_are_added_up(void **state)
{
    struct model_builder *b = stacks_new(arena);
    stacks_add1(b, "main;f", 1);
    stacks_add1(b, "main;g", 2);
    stacks_add1(b, "main;g;f", 4);
    stacks_add1(b, "main", 8);
    stacks_add1(b, "zero", 0);
    stacks_add1(b, "", 100);
    assert_string_equal(dump(graph_new_trimmed(report_of(b, REPORT_TREE))), "main 8 15\n"
                                                                            "f 5 5\n"
                                                                            "g 2 6\n"
                                                                            "main -> g 6\n"
                                                                            "main -> f 1\n"
                                                                            "g -> f 4\n");
}

// A function counts once for a sample, however often it stands in the stack; so does an edge.
static void recursion_counts_once(void **state)
{
    struct model_builder *b = stacks_new(arena);
    stacks_add1(b, "f;f;f", 1);
    stacks_add1(b, "f;g;f;g", 2);
    assert_string_equal(dump(graph_new_trimmed(report_of(b, REPORT_TREE))), "g 2 2\n"
                                                                            "f 1 3\n"
                                                                            "g -> f 2\n"
                                                                            "f -> g 2\n");
}

static void recursion_through_inlined_calls(void **state)
{
    struct model_builder *b = stacks_new(arena);
    stacks_add1(b, "f+f;f+g+f", 3);
    assert_string_equal(dump(graph_new_trimmed(report_of(b, REPORT_TREE))), "f 3 3\n"
                                                                            "g 0 3\n"
                                                                            "f -+> g 3\n"
                                                                            "g -+> f 3\n");
}

// What a trimmed node connected is connected by a residual edge.
static void trimming_leaves_residual_edges(void **state)
{
    struct model_builder *b = stacks_new(arena);
    stacks_add1(b, "main;a;b;c", 10);
    stacks_add1(b, "main;c", 1);
    struct report *r = report_of(b, REPORT_TREE);
    r->o.node_count = 2;
    r->o.cum_sort = true;
    struct graph *g = graph_new_trimmed(r);
    assert_string_equal(dump(g), "c 11 11\nmain 0 11\nmain ~> c 11\n");
    assert_int_equal(g->n_original, 4);
}

static void light_nodes_and_edges_are_dropped(void **state)
{
    struct model_builder *b = stacks_new(arena);
    stacks_add1(b, "main;a", 90);
    stacks_add1(b, "main;light;a", 4);
    stacks_add1(b, "main;b", 3);
    stacks_add1(b, "main;a;b", 3);
    struct report *r = report_of(b, REPORT_TREE);
    r->o.node_fraction = 0.05; // 5 of 100
    r->o.edge_fraction = 0.04;
    struct graph *g = graph_new_trimmed(r);
    assert_string_equal(dump(g), "a 94 97\nb 6 6\nmain 0 100\nmain ~> a 97\n");
    assert_int_equal(g->n_dropped_nodes, 1);
    assert_int_equal(g->n_dropped_edges, 2);
}

// Nodes stand in the order of their absolute values. What cancels out is no node, but, as in
// google/pprof, still one end of an edge.
static void negative_values(void **state)
{
    struct model_builder *b = stacks_new(arena);
    stacks_add1(b, "main;more", 10);
    stacks_add1(b, "main;less", -20);
    stacks_add1(b, "main;same", 5);
    stacks_add1(b, "main;same", -5);
    struct report *r = report_of(b, REPORT_TREE);
    assert_int_equal(r->total, 40);
    assert_string_equal(dump(graph_new_trimmed(r)), "less -20 -20\n"
                                                    "more 10 10\n"
                                                    "main 0 -10\n"
                                                    "main -> less -20\n"
                                                    "main -> more 10\n"
                                                    "main -> same 0\n");
    r->o.drop_negative = true;
    assert_string_equal(dump(graph_new_trimmed(r)), "more 10 10\n");
}

static void rows_tell_what_is_inlined(void **state)
{
    struct model_builder *b = stacks_new(arena);
    stacks_add1(b, "main;a+always", 8);
    stacks_add1(b, "main;a+sometimes", 4);
    stacks_add1(b, "main;sometimes", 2);
    stacks_add1(b, "main;never", 1);
    struct report_rows rows;
    struct err e = {.message = ""};
    assert_int_equal(report_text_rows(report_of(b, REPORT_TEXT), &rows, &e), 0);
    static const char *const want[][2] = {{"always", "(inline)"},
                                          {"sometimes", "(partial-inline)"},
                                          {"never", ""},
                                          {"a", ""},
                                          {"main", ""}};
    assert_int_equal(rows.n, 5);
    for (size_t i = 0; i < rows.n; i++) {
        assert_true(str_eq(rows.rows[i].name, str_from(want[i][0])));
        assert_string_equal(rows.rows[i].inline_label, want[i][1]);
    }
}

// A table and a tree say the same about inlined calls, trimmed or not, though a table only
// counts the edges it must.
static void tables_and_trees_agree(void **state)
{
    struct model_builder *b = stacks_new(arena);
    uint64_t seed = 7;
    for (int i = 0; i < 400; i++) {
        char text[200] = "main";
        for (int k = 0; k < 8; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            size_t n = strlen(text);
            snprintf(text + n, sizeof text - n, "%cf%d", seed >> 60 < 6 ? '+' : ';',
                     (int)(seed >> 40 & 7));
        }
        stacks_add1(b, text, 1 + (int64_t)(seed >> 50 & 15));
    }
    for (int count = 0; count < 9; count++) {
        struct report *r = report_of(b, REPORT_TEXT), *t = report_of(b, REPORT_TREE);
        r->o.node_count = t->o.node_count = count;
        struct graph *few = graph_new_trimmed(r), *all = graph_new_trimmed(t);
        assert_int_equal(few->n_selected, all->n_selected);
        for (size_t i = 0; i < few->n_selected; i++) {
            uint32_t node = few->selected[i];
            assert_int_equal(node, all->selected[i]);
            bool inlined[2] = {false, false}, called[2] = {false, false};
            struct graph *graphs[2] = {few, all};
            for (int k = 0; k < 2; k++) {
                struct graph *g = graphs[k];
                for (uint32_t e = g->in_first[node]; e < g->in_first[node + 1]; e++) {
                    inlined[k] |= g->edges[g->in[e]].is_inline;
                    called[k] |= !g->edges[g->in[e]].is_inline;
                }
            }
            assert_int_equal(inlined[0], inlined[1]);
            if (inlined[0])
                assert_int_equal(called[0], called[1]);
        }
    }
}

// Edges around a few nodes are those of the whole graph.
static void peeking_sees_the_same_edges(void **state)
{
    struct model_builder *b = stacks_new(arena);
    uint64_t seed = 11;
    for (int i = 0; i < 300; i++) {
        char text[200] = "main";
        for (int k = 0; k < 6; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            size_t n = strlen(text);
            snprintf(text + n, sizeof text - n, "%cf%d", seed >> 60 < 6 ? '+' : ';',
                     (int)(seed >> 40 & 7));
        }
        stacks_add1(b, text, 1 + (int64_t)(seed >> 50 & 15));
    }
    struct graph *all = graph_new_trimmed(report_of(b, REPORT_TREE));
    for (uint32_t node = 0; node < all->n_nodes; node++) {
        struct graph *g = graph_new_trimmed(report_of(b, REPORT_TREE));
        bool *interest = arena_array(arena, g->n_nodes + 1, sizeof *interest);
        interest[node] = true;
        graph_connect_around(g, interest);
        graph_index_edges(g);
        for (int in = 0; in < 2; in++) {
            size_t n, m;
            uint32_t *x = in ? graph_sorted_in(all, node, &n) : graph_sorted_out(all, node, &n);
            uint32_t *y = in ? graph_sorted_in(g, node, &m) : graph_sorted_out(g, node, &m);
            assert_int_equal(n, m);
            for (size_t i = 0; i < n; i++) {
                const struct edge *e = &all->edges[x[i]], *f = &g->edges[y[i]];
                assert_int_equal(e->src, f->src);
                assert_int_equal(e->dst, f->dst);
                assert_int_equal(e->weight, f->weight);
                assert_int_equal(e->is_inline, f->is_inline);
            }
        }
    }
}

// In a tree a function is one node for each path to it.
static void call_trees_keep_paths_apart(void **state)
{
    struct model_builder *b = stacks_new(arena);
    stacks_add1(b, "main;a;f", 4);
    stacks_add1(b, "main;b;f", 2);
    stacks_add1(b, "main;a;f;f", 1);
    struct report *r = report_of(b, REPORT_CALLGRIND);
    r->o.call_tree = true;
    assert_string_equal(dump(graph_new_trimmed(r)), "f 4 5\n"
                                                    "f 2 2\n"
                                                    "f 1 1\n"
                                                    "a 0 5\n"
                                                    "b 0 2\n"
                                                    "main 0 7\n"
                                                    "f -> f 1\n"
                                                    "a -> f 5\n"
                                                    "b -> f 2\n"
                                                    "main -> a 5\n"
                                                    "main -> b 2\n");
}

static void trimmed_call_trees(void **state)
{
    struct model_builder *b = stacks_new(arena);
    stacks_add1(b, "main;a;light;f", 90);
    stacks_add1(b, "main;other", 2);
    struct report *r = report_of(b, REPORT_CALLGRIND);
    r->o.call_tree = true;
    r->o.node_count = 2;
    r->o.node_fraction = 0.1;
    r->o.cum_sort = true;
    struct graph *g = graph_new_trimmed(r);
    assert_string_equal(dump(g), "main 0 92\na 0 90\nmain -> a 90\n");
    assert_int_equal(g->n_dropped_nodes, 1);
}

// What is taken out of the middle of a path is bridged.
static void bridged_call_trees(void **state)
{
    struct model_builder *b = stacks_new(arena);
    stacks_add1(b, "main;a;light;f", 90);
    struct report *r = report_of(b, REPORT_CALLGRIND);
    r->o.call_tree = true;
    r->o.node_count = 2;
    assert_string_equal(dump(graph_new_trimmed(r)), "f 90 90\na 0 90\na ~> f 90\n");
}

static void what_is_just_heavy_enough_stays(void **state)
{
    struct model_builder *b = stacks_new(arena);
    stacks_add1(b, "main;a", 95);
    stacks_add1(b, "main;b", 5);
    struct report *r = report_of(b, REPORT_TREE);
    r->o.node_fraction = r->o.edge_fraction = 0.05;
    assert_string_equal(dump(graph_new_trimmed(r)),
                        "a 95 95\nb 5 5\nmain 0 100\nmain -> a 95\nmain -> b 5\n");
}

// In a picture a residual edge goes when there is another way, unless it is the heaviest.
static void redundant_edges_are_dropped(void **state)
{
    struct model_builder *b = stacks_new(arena);
    stacks_add1(b, "main;x;b", 1);
    stacks_add1(b, "main;a;b;a;b", 50);
    stacks_add1(b, "main;a", 50);
    struct report *r = report_of(b, REPORT_DOT);
    r->o.node_fraction = 0.02;
    assert_string_equal(dump(graph_new_trimmed(r)), "a 50 100\n"
                                                    "b 51 51\n"
                                                    "main 0 101\n"
                                                    "a -> b 50\n"
                                                    "b -> a 50\n"
                                                    "main -> a 100\n");
    for (int i = 0; i < 60; i++) {
        char text[32];
        snprintf(text, sizeof text, "main;x%d;b", i);
        stacks_add1(b, text, 1);
    }
    r = report_of(b, REPORT_DOT);
    r->o.node_fraction = 0.02;
    assert_non_null(strstr(dump(graph_new_trimmed(r)), "main ~> b 61\n"));
}

// Looking for another way in a circle ends.
static void circles_are_walked_once(void **state)
{
    struct model_builder *b = stacks_new(arena);
    for (int i = 0; i < 50; i++) {
        char text[64];
        snprintf(text, sizeof text, "main;x%d;b;c;d;b;c;b", i);
        stacks_add1(b, text, 1);
    }
    struct report *r = report_of(b, REPORT_DOT);
    r->o.node_fraction = 0.1;
    assert_non_null(strstr(dump(graph_new_trimmed(r)), "main ~> b 50\n"));
}

// The unit suits the smallest value, unless that is dwarfed by the whole.
static void units_are_selected(void **state)
{
    static const struct {
        int64_t small, large;
        const char *unit;
    } cases[] = {
        {5, 2000, "ms"},    {20, 1500, "ms"},  {20, 3000, "s"}, {3, 4, "ms"},
        {1, 7200000, "ms"}, {2000, 3000, "s"}, {0, 90, "ms"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_builder *b = stacks_new(arena);
        stacks_add1(b, "small", cases[i].small);
        stacks_add1(b, "large", cases[i].large);
        struct report *r = report_of(b, REPORT_TREE);
        r->o.unit = STR("ms");
        graph_select_unit(graph_new_trimmed(r));
        if (!str_eq(r->o.output_unit, str_from(cases[i].unit)))
            fail_msg("%lld of %lld: %.*s", (long long)cases[i].small, (long long)cases[i].large,
                     (int)r->o.output_unit.n, r->o.output_unit.p);
    }
}

static void means_are_divided(void **state)
{
    struct model_builder *b = stacks_new(arena);
    model_build_type(b, STR("space"), STR("bytes"));
    stacks_add(b, "main;f", (int64_t[]){2, 100});
    stacks_add(b, "main;g", (int64_t[]){3, 90});
    stacks_add(b, "main;f", (int64_t[]){0, 7}); // no count: divided by nothing
    struct report *r = report_of(b, REPORT_TREE);
    r->o.type = 1;
    r->o.mean = true;
    // The edges' weights are sums: each report divides them as it needs to.
    assert_string_equal(dump(graph_new_trimmed(r)), "f 53 53\n"
                                                    "g 30 30\n"
                                                    "main 0 39\n"
                                                    "main -> f 107\n"
                                                    "main -> g 90\n");
    assert_int_equal(report_total(b->p, 1, true), 197 / 5);
}

static void frames_without_names(void **state)
{
    struct model_builder *b = stacks_new(arena);
    struct model_mapping m = {.file = model_build_string(b, STR("/lib/libx.so"))};
    uint32_t mapping = model_build_mapping(b, m);
    uint32_t frames[3] = {model_build_location(b, mapping, 0x1234, NULL, 0),
                          model_build_location(b, MODEL_NONE, 0x99, NULL, 0),
                          stacks_frame(b, STR("main@./x/../m.c#7"), mapping, 0)};
    model_build_sample(b, frames, 3, (int64_t[]){1});
    assert_string_equal(dump(graph_new_trimmed(report_of(b, REPORT_TREE))),
                        "0000000000001234 [libx.so] 1 1\n"
                        "0000000000000099 <unknown> 0 1\n"
                        "main m.c:7 0 1\n"
                        "0000000000000099 <unknown> -> 0000000000001234 [libx.so] 1\n"
                        "main m.c:7 -> 0000000000000099 <unknown> 1\n");
}

// A base's share is what percentages refer to.
static void totals(void **state)
{
    struct model_builder *b = stacks_new(arena);
    stacks_add1(b, "f", 10);
    stacks_add1(b, "g", -30);
    assert_int_equal(report_total(b->p, 0, false), 40);
    model_build_label(b, STR("pprof::base"), STR("true"));
    stacks_add1(b, "f", -7);
    assert_int_equal(report_total(b->p, 0, false), 7);
}

// Two nodes that read alike. pprof asks which has more below it only where it builds a tree.
static void a_table_ignores_call_tree(void **state)
{
    struct model_builder *b = stacks_new(arena);
    int64_t ten = 10, twenty = 20;
    uint32_t name = model_build_string(b, STR("f")), file = model_build_string(b, STR("a.c"));
    uint32_t both = model_build_string(b, STR("f a.c:11"));
    uint32_t f = model_build_function(b, name, name, file, 1);
    uint32_t odd = model_build_function(b, both, both, 0, 0);
    uint32_t first =
        model_build_location(b, MODEL_NONE, 0, &(struct model_line){.function = f, .line = 11}, 1);
    uint32_t second =
        model_build_location(b, MODEL_NONE, 0, &(struct model_line){.function = odd}, 1);
    uint32_t leaf = model_build_named_location(b, STR("g"));
    model_build_sample(b, &first, 1, &ten);
    model_build_sample(b, &second, 1, &ten);
    model_build_sample(b, (uint32_t[]){leaf, second}, 2, &twenty);
    struct report *r = report_of(b, REPORT_TEXT);
    char *without = dump(graph_new_trimmed(r));
    r->o.call_tree = true;
    assert_string_equal(dump(graph_new_trimmed(r)), without);
    assert_non_null(strstr(without, "f a.c:11 10 10\nf a.c:11 10 30\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_added_up),
        cmocka_unit_test(recursion_counts_once),
        cmocka_unit_test(recursion_through_inlined_calls),
        cmocka_unit_test(trimming_leaves_residual_edges),
        cmocka_unit_test(light_nodes_and_edges_are_dropped),
        cmocka_unit_test(negative_values),
        cmocka_unit_test(rows_tell_what_is_inlined),
        cmocka_unit_test(tables_and_trees_agree),
        cmocka_unit_test(peeking_sees_the_same_edges),
        cmocka_unit_test(call_trees_keep_paths_apart),
        cmocka_unit_test(trimmed_call_trees),
        cmocka_unit_test(a_table_ignores_call_tree),
        cmocka_unit_test(bridged_call_trees),
        cmocka_unit_test(what_is_just_heavy_enough_stays),
        cmocka_unit_test(redundant_edges_are_dropped),
        cmocka_unit_test(circles_are_walked_once),
        cmocka_unit_test(units_are_selected),
        cmocka_unit_test(means_are_divided),
        cmocka_unit_test(frames_without_names),
        cmocka_unit_test(totals),
    };
    return cmocka_run_group_tests(tests, make_arena, free_arena);
}
