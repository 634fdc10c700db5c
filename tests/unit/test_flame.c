#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "model/blocks.h"
#include "model/builder.h"
#include "report/flame_internal.h"
#include "arena_fixture.h"

static void start(struct model_builder *b)
{
    model_build(b, arena);
    model_build_type(b, STR("cpu"), STR("nanoseconds"));
}

// "root;mid;leaf"
static void add(struct model_builder *b, const char *text, int64_t value)
{
    uint32_t frames[64], n = 0, leaf_first[64];
    while (*text) {
        size_t len = strcspn(text, ";");
        frames[n++] = model_build_named_location(b, (struct str){text, len});
        text += len + (text[len] == ';');
    }
    for (uint32_t i = 0; i < n; i++)
        leaf_first[i] = frames[n - 1 - i];
    model_build_sample(b, leaf_first, n, &value);
}

static struct report_flame *make(const struct model_profile *p, struct report_flame_options options)
{
    struct err e = {""};
    struct report_flame *f = report_flame_new(arena, p, &options, &e);
    if (!f)
        print_error("%s\n", e.message);
    assert_non_null(f);
    // What every tree keeps.
    for (uint32_t c = 0; c < f->n_columns; c++) {
        for (uint32_t i = 0; i < f->n_nodes; i++) {
            int64_t sum = f->self[i * f->n_columns + c];
            assert_true(sum >= 0);
            for (uint32_t k = i + 1; k < f->end[i]; k = f->end[k]) {
                assert_int_equal(f->parent[k], i);
                sum += f->total[k * f->n_columns + c];
            }
            assert_int_equal(f->total[i * f->n_columns + c], sum);
        }
    }
    assert_int_equal(f->end[0], f->n_nodes);
    return f;
}

// "all 10 0\n a 10 4\n  b 6 6\n": name, total, self.
static char *dump(const struct report_flame *f)
{
    struct out out;
    out_init_memory(&out, 1 << 20);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        out_spaces(&out, f->depth[i]);
        out_str(&out, f->frames[f->frame[i]].name);
        for (uint32_t c = 0; c < f->n_columns; c++) {
            out_printf(&out, " %lld", (long long)f->total[i * f->n_columns + c]);
            out_printf(&out, "/%lld", (long long)f->self[i * f->n_columns + c]);
        }
        if (f->flags[i] & REPORT_FLAME_INLINED)
            out_text(&out, " inlined");
        if (f->flags[i] & REPORT_FLAME_PARTLY)
            out_text(&out, " partly");
        out_char(&out, '\n');
    }
    char *text = arena_copy(arena, out.p, out.n);
    out_fini(&out);
    return text;
}

static void merges_stacks_and_sorts_by_name(void **state)
{
    (void)state;
    struct model_builder b;
    start(&b);
    add(&b, "main;z;x", 3);
    add(&b, "main;a", 5);
    add(&b, "main;z", 1);
    add(&b, "main;a;x", 2);
    add(&b, "main;z;x", 4);
    assert_string_equal(dump(make(b.p, (struct report_flame_options){0})), "all 15/0\n"
                                                                           " main 15/0\n"
                                                                           "  a 7/5\n"
                                                                           "   x 2/2\n"
                                                                           "  z 8/1\n"
                                                                           "   x 7/7\n");
}

static void reverses(void **state)
{
    (void)state;
    struct model_builder b;
    start(&b);
    add(&b, "main;z;x", 3);
    add(&b, "main;a;x", 2);
    add(&b, "main", 1);
    assert_string_equal(dump(make(b.p, (struct report_flame_options){.reverse = true})),
                        "all 6/0\n"
                        " main 1/1\n"
                        " x 5/0\n"
                        "  a 2/0\n"
                        "   main 2/2\n"
                        "  z 3/0\n"
                        "   main 3/3\n");
}

static void an_empty_profile_is_a_root(void **state)
{
    (void)state;
    struct model_builder b;
    start(&b);
    assert_string_equal(dump(make(b.p, (struct report_flame_options){0})), "all 0/0\n");
    add(&b, "", 7);
    assert_string_equal(dump(make(b.p, (struct report_flame_options){0})), "all 7/7\n");
}

static void small_branches_become_other(void **state)
{
    (void)state;
    struct model_builder b;
    start(&b);
    add(&b, "main;big", 90);
    add(&b, "main;s1;deep", 4);
    add(&b, "main;s2", 3);
    add(&b, "main", 3);
    struct report_flame *f = make(b.p, (struct report_flame_options){.min_share = 0.05});
    assert_string_equal(dump(f), "all 100/0\n"
                                 " main 100/3\n"
                                 "  big 90/90\n"
                                 "  other 7/7\n");
    assert_int_equal(f->merged, 2);
    assert_true(f->merged_share[0] > 0.0699 && f->merged_share[0] < 0.0701);
    assert_true(f->flags[3] & REPORT_FLAME_OTHER);
}

static void the_largest_nodes_survive_the_cap(void **state)
{
    (void)state;
    struct model_builder b;
    start(&b);
    for (int i = 0; i < 100; i++) {
        char text[64];
        snprintf(text, sizeof text, "main;f%02d;g%02d", i, i);
        add(&b, text, 1000 + i);
    }
    struct report_flame *f = make(b.p, (struct report_flame_options){.max_nodes = 6});
    // The root, main, and two pairs: a child is as large as its parent.
    assert_string_equal(dump(f), "all 104950/0\n"
                                 " main 104950/0\n"
                                 "  f98 1098/0\n"
                                 "   g98 1098/1098\n"
                                 "  f99 1099/0\n"
                                 "   g99 1099/1099\n"
                                 "  other 102753/102753\n");
    assert_int_equal(f->merged, 98);
}

static uint32_t function(struct model_builder *b, const char *name, const char *file, int64_t line)
{
    uint32_t id = model_build_string(b, str_from(name));
    return model_build_function(b, id, id, model_build_string(b, str_from(file)), line);
}

static void what_became_other_can_be_had_by_its_path(void **state)
{
    (void)state;
    struct model_builder b;
    start(&b);
    add(&b, "main;a;x", 500);
    add(&b, "main;a;y;z", 3);
    add(&b, "main;a;w", 2);
    add(&b, "main;a", 1);
    add(&b, "main;b;y", 7);
    struct report_flame_options options = {.min_share = 0.1};
    assert_string_equal(
        dump(make(b.p, options)),
        "all 513/0\n main 513/0\n  a 506/1\n   x 500/500\n   other 5/5\n  other 7/7\n");
    const struct str path[] = {STR("main"), STR("a")}, nowhere[] = {STR("main"), STR("c")};
    options = (struct report_flame_options){.path = path, .n_path = 2};
    assert_string_equal(dump(make(b.p, options)),
                        "all 506/1\n w 2/2\n x 500/500\n y 3/0\n  z 3/3\n");
    // Shares are of what is below.
    options.min_share = 0.005;
    assert_string_equal(dump(make(b.p, options)),
                        "all 506/1\n x 500/500\n y 3/0\n  z 3/3\n other 2/2\n");
    options.path = nowhere;
    assert_string_equal(dump(make(b.p, options)), "all 0/0\n");
    const struct str callers[] = {STR("y")};
    options = (struct report_flame_options){.path = callers, .n_path = 1, .reverse = true};
    assert_string_equal(dump(make(b.p, options)), "all 7/0\n b 7/0\n  main 7/7\n");
}

static void frames_are_files_lines_or_addresses(void **state)
{
    (void)state;
    struct model_builder b;
    start(&b);
    for (uint32_t i = 0; i < 2; i++) {
        struct model_line line = {.function = function(&b, "f", "x.c", 0), .line = 7 + i};
        uint32_t l = model_build_location(&b, MODEL_NONE, 0x10 + i, &line, 1);
        model_build_sample(&b, &l, 1, &(int64_t){i + 1});
    }
    const char *wanted[] = {
        [REPORT_FLAME_FUNCTIONS] = "all 3/0\n f 3/3\n",
        [REPORT_FLAME_FILES] = "all 3/0\n x.c 3/3\n",
        [REPORT_FLAME_LINES] = "all 3/0\n f x.c:7 1/1\n f x.c:8 2/2\n",
        [REPORT_FLAME_ADDRESSES] =
            "all 3/0\n 0000000000000010 f x.c:7 1/1\n 0000000000000011 f x.c:8 2/2\n",
    };
    for (unsigned by = 0; by < sizeof wanted / sizeof *wanted; by++)
        assert_string_equal(
            dump(make(b.p, (struct report_flame_options){.by = (enum report_flame_by)by})),
            wanted[by]);
}

static void inlined_lines_are_frames(void **state)
{
    (void)state;
    struct model_builder b;
    start(&b);
    uint32_t m = model_build_mapping(
        &b, (struct model_mapping){.file = model_build_string(&b, STR("/usr/bin/app")),
                                   .start = 0x1000,
                                   .limit = 0x9000});
    struct model_line lines[] = {{.function = function(&b, "inner", "a.c", 0), .line = 31},
                                 {.function = function(&b, "outer", "a.c", 12), .line = 14}};
    uint32_t both = model_build_location(&b, m, 0x2000, lines, 2);
    uint32_t alone = model_build_location(&b, m, 0x3000, lines, 1);
    uint32_t outer = model_build_location(&b, m, 0x4000, lines + 1, 1);
    model_build_sample(&b, (uint32_t[]){both}, 1, &(int64_t){2});
    struct report_flame *f = make(b.p, (struct report_flame_options){0});
    assert_string_equal(dump(f), "all 2/0\n outer 2/0\n  inner 2/2 inlined\n");
    const struct report_flame_frame *inner = &f->frames[f->frame[2]], *o = &f->frames[f->frame[1]];
    assert_true(str_eq(inner->module, STR("app")) && str_eq(inner->file, STR("a.c")));
    assert_int_equal(inner->line, 31);
    assert_int_equal(o->line, 12);

    // Once more, called for real.
    model_build_sample(&b, (uint32_t[]){alone, outer}, 2, &(int64_t){3});
    assert_string_equal(dump(make(b.p, (struct report_flame_options){0})),
                        "all 5/0\n outer 5/0\n  inner 5/5 partly\n");
    assert_string_equal(dump(make(b.p, (struct report_flame_options){.reverse = true})),
                        "all 5/0\n inner 5/0 partly\n  outer 5/5\n");
}

static void names_what_has_no_name(void **state)
{
    (void)state;
    struct model_builder b;
    start(&b);
    uint32_t app = model_build_mapping(
        &b, (struct model_mapping){.file = model_build_string(&b, STR("/usr/lib/libx.so")),
                                   .start = 0x7000,
                                   .limit = 0x9000,
                                   .offset = 0x100});
    uint32_t vdso = model_build_mapping(
        &b, (struct model_mapping){.file = model_build_string(&b, STR("[vdso]"))});
    uint32_t places[] = {
        model_build_location(&b, app, 0x7010, NULL, 0),
        model_build_location(&b, app, 0, NULL, 0),
        model_build_location(&b, vdso, 0, NULL, 0),
        model_build_location(&b, MODEL_NONE, 0xbeef, NULL, 0),
        model_build_location(&b, MODEL_NONE, 0, NULL, 0),
    };
    for (size_t i = 0; i < 5; i++)
        model_build_sample(&b, &places[i], 1, &(int64_t){1});
    assert_string_equal(dump(make(b.p, (struct report_flame_options){0})), "all 5/0\n"
                                                                           " 0xbeef 1/1\n"
                                                                           " <unknown> 1/1\n"
                                                                           " [libx.so] 1/1\n"
                                                                           " [libx.so] +0x110 1/1\n"
                                                                           " [vdso] 1/1\n");
}

static void negative_values_are_told_not_drawn(void **state)
{
    (void)state;
    struct model_builder b;
    start(&b);
    add(&b, "main;a", 5);
    add(&b, "main;b", -3);
    add(&b, "main;c", INT64_MIN);
    struct err e;
    struct report_flame_options options = {0};
    assert_null(report_flame_new(arena, b.p, &options, &e));
    b.p->n_samples = 2;
    struct report_flame *f = make(b.p, options);
    assert_string_equal(dump(f), "all 5/0\n main 5/0\n  a 5/5\n");
    assert_int_equal(f->types[0].negative, 3);
    char text[256];
    flame_omissions(f, &(struct report_flame_style){0}, text, sizeof text);
    assert_string_equal(text, "values below zero (-3ns) not drawn");
}

static void a_diff_has_left_and_right(void **state)
{
    (void)state;
    struct model_builder old, new;
    start(&old);
    add(&old, "main;gone", 10);
    add(&old, "main;same", 30);
    model_build(&new, arena);
    model_build_type(&new, STR("samples"), STR("count"));
    model_build_type(&new, STR("cpu"), STR("nanoseconds"));
    uint32_t same[] = {model_build_named_location(&new, STR("same")),
                       model_build_named_location(&new, STR("main"))};
    uint32_t more[] = {model_build_named_location(&new, STR("new")), same[1]};
    model_build_sample(&new, same, 2, (int64_t[]){3, 60});
    model_build_sample(&new, more, 2, (int64_t[]){1, 20});

    struct report_flame_options options = {.type = 1, .base = old.p};
    struct report_flame *f = make(new.p, options);
    assert_string_equal(dump(f), "all 40/0 80/0\n"
                                 " main 40/0 80/0\n"
                                 "  gone 10/10 0/0\n"
                                 "  new 0/0 20/20\n"
                                 "  same 30/30 60/60\n");
    assert_true(report_flame_weight(f, 4) == 90 && report_flame_change(f, 4) == 0.5);
    assert_true(report_flame_change(f, 2) == -1 && report_flame_change(f, 3) == 1);
    // Four samples on a side prove nothing, four hundred do.
    assert_int_equal(flame_colour(f, 2), 4);
    assert_int_equal(flame_colour(f, 3), 4);
    options.event_weights[0] = options.event_weights[1] = 0.1;
    f = make(new.p, options);
    assert_int_equal(flame_colour(f, 2), 0);
    assert_int_equal(flame_colour(f, 3), 8);

    options.normalize = true;
    f = make(new.p, options);
    assert_true(report_flame_weight(f, 4) == 120 && report_flame_change(f, 4) == 0);
    assert_int_equal(flame_colour(f, 4), 4);

    struct err e;
    options.type = 0;
    assert_null(report_flame_new(arena, new.p, &options, &e));
    assert_non_null(strstr(e.message, "no sample type 'samples'"));
}

static void several_types_share_a_tree(void **state)
{
    (void)state;
    struct model_builder b;
    start(&b);
    model_build_type(&b, STR("alloc"), STR("bytes"));
    uint32_t x = model_build_named_location(&b, STR("x")),
             y = model_build_named_location(&b, STR("y"));
    model_build_sample(&b, &x, 1, (int64_t[]){1000000, 0});
    model_build_sample(&b, &y, 1, (int64_t[]){1, 64});
    struct report_flame *f =
        make(b.p, (struct report_flame_options){.type = 1, .all_types = true, .min_share = 0.1});
    // y is nothing in one type, and all in the other.
    assert_string_equal(dump(f), "all 64/0 1000001/0\n x 0/0 1000000/1000000\n y 64/64 1/1\n");
    assert_true(str_eq(f->types[0].type, STR("alloc")) && str_eq(f->types[1].type, STR("cpu")));
}

static void functions_are_counted_once_per_stack(void **state)
{
    (void)state;
    struct model_builder b;
    start(&b);
    add(&b, "main;f;g;f", 5);
    for (int i = 0; i < 50; i++) {
        char text[64];
        snprintf(text, sizeof text, "main;caller%d;malloc", i);
        add(&b, text, 2);
    }
    struct report_flame *f =
        make(b.p, (struct report_flame_options){.functions = true, .min_share = 0.03});
    bool found = false;
    for (uint32_t i = 2; i < f->n_frames; i++) {
        if (str_eq(f->frames[i].name, STR("f"))) {
            assert_int_equal(f->frame_total[i], 5);
            assert_int_equal(f->frame_self[i], 5);
        }
        // In no node of the tree, and still the busiest function.
        if (str_eq(f->frames[i].name, STR("malloc"))) {
            found = true;
            assert_int_equal(f->frame_self[i], 100);
        }
    }
    assert_true(found);
}

static void the_tree_agrees_with_the_counts(void **state)
{
    (void)state;
    struct model_builder b;
    uint32_t seed = 12345;
    start(&b);
    for (int i = 0; i < 3000; i++) {
        char text[256];
        size_t at = 0;
        for (uint32_t k = 0, depth = 1 + i % 9; k < depth; k++) {
            seed = seed * 1664525 + 1013904223;
            at += (size_t)snprintf(text + at, sizeof text - at, "%sf%u", k ? ";" : "",
                                   (seed >> 16) % (2 + k * 3));
        }
        add(&b, text, 1 + i % 17);
    }
    for (int reverse = 0; reverse < 2; reverse++) {
        struct report_flame *f =
            make(b.p, (struct report_flame_options){
                          .functions = true, .reverse = reverse, .min_share = 1e-9});
        assert_int_equal(f->merged, 0);
        for (uint32_t frame = 2; frame < f->n_frames; frame++) {
            int64_t self = 0, total = 0;
            for (uint32_t i = 0; i < f->n_nodes; i++)
                if (f->frame[i] == frame)
                    self += reverse ? (f->depth[i] == 1 ? f->total[i] : 0) : f->self[i];
            for (uint32_t i = 0; i < f->n_nodes;) {
                total += f->frame[i] == frame ? f->total[i] : 0;
                i = f->frame[i] == frame ? f->end[i] : i + 1;
            }
            assert_int_equal(f->frame_self[frame], self);
            assert_int_equal(f->frame_total[frame], total);
        }
    }
}

static void deep_stacks_end_in_other(void **state)
{
    (void)state;
    struct model_builder b;
    start(&b);
    uint32_t f = model_build_named_location(&b, STR("recurse"));
    uint32_t *frames = calloc(100000, sizeof *frames);
    for (size_t i = 0; i < 100000; i++)
        frames[i] = f;
    model_build_sample(&b, frames, 100000, &(int64_t){1});
    free(frames);
    struct report_flame *tree = make(b.p, (struct report_flame_options){0});
    assert_int_equal(tree->max_depth, FLAME_MAX_DEPTH + 1);
    assert_true(tree->flags[tree->n_nodes - 1] & REPORT_FLAME_OTHER);
}

static char *write_all(const struct model_profile *p, struct report_flame_options options, int what,
                       size_t *n)
{
    struct report_flame *f = make(p, options);
    struct report_flame_style style = {.title = "</title><script>x</script>"};
    struct out out;
    struct err e;
    out_init_memory(&out, 64 << 20);
    if (what == 0)
        report_flame_svg(f, &style, &out);
    else if (what == 1)
        report_flame_html(f, &style, &out);
    else
        report_flame_term(f, &style, 80, 24, what == 2 ? REPORT_FLAME_PLAIN : REPORT_FLAME_256,
                          &out);
    assert_int_equal(out_finish(&out, &e), 0);
    char *text = arena_copy(arena, out.p, out.n);
    *n = out.n;
    out_fini(&out);
    return text;
}

static void the_order_of_samples_does_not_matter(void **state)
{
    (void)state;
    static const char *const texts[] = {"a;b;c", "a;b", "a;x;c", "q;b;c", "q", "a;b;c;d", "z;b"};
    struct model_builder one, two;
    start(&one);
    start(&two);
    for (int i = 0; i < 7; i++) {
        add(&one, texts[i], 10 + i % 3);
        add(&two, texts[6 - i], 10 + (6 - i) % 3);
    }
    for (int what = 0; what < 4; what++) {
        size_t n, m;
        struct report_flame_options options = {.max_nodes = 6};
        char *x = write_all(one.p, options, what, &n), *y = write_all(two.p, options, what, &m);
        assert_int_equal(n, m);
        assert_memory_equal(x, y, n);
    }
}

static void hostile_names_stay_text(void **state)
{
    (void)state;
    struct model_builder b;
    start(&b);
    add(&b, "</script><script>alert(1)</script>;]]><x>;a\"'&\x01\x1b[31m\xff\xc3(", 5);
    size_t n;
    for (int what = 0; what < 2; what++) {
        char *text = write_all(b.p, (struct report_flame_options){0}, what, &n);
        assert_int_equal(strlen(text), n);
        assert_null(strstr(text, "<script>alert"));
        assert_null(strstr(text, "<x>"));
        assert_null(strstr(text, "<script>x"));
        assert_null(memchr(text, 0x1b, n));
        assert_null(memchr(text, 0x01, n));
        assert_null(memchr(text, 0xff, n));
    }
    char *text = write_all(b.p, (struct report_flame_options){0}, 2, &n);
    assert_null(memchr(text, 0x1b, n));
    assert_null(memchr(text, 0xff, n));
}

static void text_fits_the_terminal(void **state)
{
    (void)state;
    struct model_builder b;
    start(&b);
    for (int i = 0; i < 30; i++) {
        char text[600];
        size_t at = 0;
        for (int k = 0; k < 5 + i; k++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%sframe%d_%d", k ? ";" : "", k,
                                   k > 12 ? i : 0);
        add(&b, text, 10 + i);
    }
    for (int colour = 2; colour < 4; colour++) {
        size_t n;
        char *text = write_all(b.p, (struct report_flame_options){0}, colour, &n);
        int rows = 0, columns = 0;
        for (size_t i = 0; i < n; i++) {
            if (text[i] == '\x1b') {
                while (text[i] != 'm')
                    i++;
            } else if (text[i] == '\n') {
                assert_in_range(columns, 0, 80);
                rows++;
                columns = 0;
            } else {
                columns++;
            }
        }
        assert_in_range(rows, 10, 24);
        assert_non_null(strstr(text, "deeper levels not shown"));
        assert_non_null(strstr(text, "below > frame0_0"));
    }
}

static void groups_and_short_names(void **state)
{
    (void)state;
    static const struct {
        const char *name, *module, *group;
        bool muted;
        const char *brief;
    } cases[] = {
        {"tokio::runtime::task::Harness<T,S>::poll", "app", "tokio", false, "Harness<T,S>::poll"},
        {"core::ptr::drop_in_place", "app", "core", true, "ptr::drop_in_place"},
        {"<alloc::vec::Vec<T> as core::iter::FromIterator<T>>::from_iter", "app", "alloc", true,
         "from_iter"},
        {"<T as serde::Serialize>::serialize", "app", "serde", false, "serialize"},
        {"<&mut axum::Router as tower::Service>::call", "app", "axum", false, "call"},
        {"app::main::{{closure}}", "app", "app", false, "app::main::{{closure}}"},
        {"app::api::order::{{closure}}::{{closure}}", "app", "app", false,
         "api::order::{{closure}}::{{closure}}"},
        {"void std::sort<int*>(int*, int*)", "app", "std", true, "std::sort<int*>(int*, int*)"},
        {"ns::Class::method(std::string const&) const", "app", "ns", false,
         "Class::method(std::string const&) const"},
        {"(anonymous namespace)::helper(int)", "app", "app", false,
         "(anonymous namespace)::helper(int)"},
        {"net/http.(*conn).serve", "app", "net/http", false, "http.(*conn).serve"},
        {"github.com/a/b.Func", "app", "github.com/a/b", false, "b.Func"},
        {"runtime.mallocgc", "app", "runtime", true, "runtime.mallocgc"},
        {"main.main.func1", "app", "main", false, "main.main.func1"},
        {"com.example.Service.handle", "", "com.example", false, "Service.handle"},
        {"java/lang/Thread.run", "", "java/lang", true, "Thread.run"},
        {"memcpy", "libc.so.6", "libc.so.6", true, "memcpy"},
        {"parse.part.0", "app", "app", false, NULL},
        {"do_syscall_64_[k]", "", "[kernel]", true, NULL},
        {"[dropped]", "", "", true, "[dropped]"},
        {"[libx.so] +0x10", "libx.so", "libx.so", false, "[libx.so] +0x10"},
        {"", "", "", false, ""},
        {"::", "app", "app", false, NULL},
        {"<", "app", "app", false, "<"},
        {"a::<b::", "app", "a", false, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str name = str_from(cases[i].name);
        struct flame_group_name group = flame_group_of(name, str_from(cases[i].module), false);
        if (!str_eq(group.name, str_from(cases[i].group)) || group.muted != cases[i].muted)
            fail_msg("%s: group '%.*s' muted %d", cases[i].name, (int)group.name.n, group.name.p,
                     group.muted);
        uint32_t at = flame_short_name(name);
        assert_true(at <= name.n);
        if (cases[i].brief && strcmp(cases[i].name + at, cases[i].brief) != 0)
            fail_msg("%s: short '%s'", cases[i].name, cases[i].name + at);
    }
}

static void percent_has_the_digits_that_matter(void **state)
{
    (void)state;
    static const struct {
        double share;
        const char *text;
    } cases[] = {{0, "0%"},          {1, "100%"},        {0.99999, "100%"},    {0.1234, "12.3%"},
                 {0.01234, "1.23%"}, {0.0005, "0.050%"}, {0.000001, "<0.001%"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[32];
        flame_percent(cases[i].share, text, sizeof text);
        assert_string_equal(text, cases[i].text);
    }
}

static double luminance(uint32_t rgb)
{
    double sum = 0;
    static const double weights[] = {0.2126, 0.7152, 0.0722};
    for (int i = 0; i < 3; i++) {
        double v = (rgb >> (16 - 8 * i) & 255) / 255.0;
        sum += weights[i] * (v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4));
    }
    return sum;
}

static void assert_contrast(uint32_t a, uint32_t b)
{
    double x = luminance(a), y = luminance(b);
    double ratio = x > y ? (x + 0.05) / (y + 0.05) : (y + 0.05) / (x + 0.05);
    if (ratio < 4.5)
        fail_msg("#%06x on #%06x: contrast %.2f", b, a, ratio);
}

static void text_on_boxes_can_be_read(void **state)
{
    (void)state;
    static const uint32_t text[] = {0x1b1f24, 0xf2f4f7};
    for (int theme = 0; theme < 2; theme++) {
        for (int i = 0; i < FLAME_COLOURS; i++)
            assert_contrast(flame_palette[theme][i], text[theme]);
        for (int i = 0; i < FLAME_DIFF_STEPS; i++)
            assert_contrast(flame_diff_palette[theme][i], text[theme]);
        for (int i = 0; i < FLAME_BLUE_STEPS; i++)
            assert_contrast(flame_blue_palette[theme][i], text[theme]);
    }
}

// Sixty functions below one of three callers; function 7 has `factor` times its value, in windows
// that are `uneven` for function 9. With windows, each value is spread over eight of them.
static struct model_profile *sixty(double factor, double uneven, bool windows, bool right)
{
    struct model_builder b;
    model_build(&b, arena);
    model_build_type(&b, STR("samples"), STR("count"));
    for (int w = 0; windows && w < 8; w++)
        model_build_type(&b, str_from(arena_printf(arena, "%s%d", MODEL_WINDOWS, w)), STR("count"));
    for (int i = 0; i < 60; i++) {
        char name[3][32];
        uint32_t frames[3];
        int64_t values[9] = {0};
        double load = right ? 1.5 : 1, n = (double)(400 + 37 * i) * load;
        n *= i == 7 ? factor : 1;
        snprintf(name[0], 32, "f%d", i);
        snprintf(name[1], 32, "caller%d", i % 3);
        snprintf(name[2], 32, "main");
        for (int k = 0; k < 3; k++)
            frames[k] = model_build_named_location(&b, str_from(name[k]));
        for (int w = 0; w < 8; w++) {
            // A fixed jitter of about the size of sampling noise.
            double jitter = sqrt(n / 8) * sin(i * 12.9898 + w * 78.233 + right * 37.7) * 1.2;
            double share = i == 9 ? (w < 4 ? 1 + uneven : 1 - uneven) : 1;
            values[1 + w] = (int64_t)fmax(0, n / 8 * share + jitter);
            values[0] += values[1 + w];
        }
        model_build_sample(&b, frames, 3, values);
    }
    return b.p;
}

static bool is_changed(const struct report_flame *f, const char *name)
{
    for (uint32_t i = 0; i < f->n_nodes; i++)
        if (str_eq(f->frames[f->frame[i]].name, str_from(name))) {
            bool gray = flame_colour(f, i) == FLAME_DIFF_STEPS / 2;
            assert_int_equal(gray, !f->changed[i]);
            if (f->frame_self && f->depth[i] == 3)
                assert_int_equal(f->frame_self_changed[f->frame[i]], f->changed[i]);
            return f->changed[i];
        }
    fail_msg("no node %s", name);
    return false;
}

static uint32_t count_changed(const struct report_flame *f)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->n_nodes; i++)
        n += f->changed[i];
    return n;
}

static void changes_within_noise_are_gray(void **state)
{
    struct report_flame_options o = {.base = sixty(1, 0, false, false), .functions = true};
    struct report_flame *f = make(sixty(1, 0, false, true), o);
    assert_int_equal(count_changed(f), 0);
    f = make(sixty(1.6, 0, false, true), o);
    assert_true(is_changed(f, "f7"));
    assert_false(is_changed(f, "f8"));
    assert_false(is_changed(f, "main"));
    struct out out;
    out_init_memory(&out, 1 << 20);
    report_flame_json(f, &(struct report_flame_style){0}, &out);
    struct str json = out_result(&out);
    assert_true(str_find(json, STR("\"marks\":[\""), 0) != SIZE_MAX);
    out_fini(&out);
    // From the leaves, and below a path, the same is found.
    o.reverse = true;
    f = make(sixty(1.6, 0, false, true), o);
    assert_true(is_changed(f, "f7"));
    assert_false(is_changed(f, "f8"));
    o = (struct report_flame_options){.base = o.base};
    o.path = (const struct str[]){STR("main"), STR("caller1")};
    o.n_path = 2;
    f = make(sixty(1.6, 0, false, true), o);
    assert_true(is_changed(f, "f7"));
    assert_false(is_changed(f, "f10"));
    // Without nodes of their own, functions are still told apart.
    o = (struct report_flame_options){.base = o.base, .functions = true, .max_nodes = 3};
    f = make(sixty(1.6, 0, false, true), o);
    for (uint32_t i = 2; i < f->n_frames; i++)
        assert_int_equal(f->frame_self_changed[i], str_eq(f->frames[i].name, STR("f7")));
}

// What differs between windows of one side is no change between the sides.
static void windows_tell_what_varies(void **state)
{
    struct model_profile *left = sixty(1, 0.9, true, false), *right = sixty(1.6, 0.9, true, true);
    for (int i = 0; i < 2; i++) { // 40 % more of what varies by 90 % between windows
        struct model_profile *p = i ? right : left;
        for (uint32_t c = 0; c < p->n_types; c++) {
            int64_t *v = &p->values[9 * p->n_types + c];
            *v = i ? *v * 140 / 100 : *v;
        }
    }
    struct report_flame_options o = {.base = left, .functions = true};
    struct report_flame *f = make(right, o);
    assert_int_equal(f->n_types, 1);
    assert_true(is_changed(f, "f7"));
    assert_false(is_changed(f, "f9"));
    // The same without windows.
    for (int i = 0; i < 2; i++) {
        struct model_profile *p = i ? right : left;
        for (size_t s = 0; s < p->n_samples; s++)
            p->values[s] = p->values[s * p->n_types];
        p->n_types = 1;
    }
    f = make(right, o);
    assert_true(is_changed(f, "f7"));
    assert_true(is_changed(f, "f9"));
}

// Columns that a file has in another order than a server sends them, and more of them.
static void windows_anywhere(void **state)
{
    struct model_profile *sides[2];
    for (int i = 0; i < 2; i++) {
        sides[i] = sixty(i ? 1.6 : 1, 0, true, i);
        for (uint32_t k = 1; k < 8; k++)
            sides[i]->types[k].type =
                model_intern(sides[i]->strings, str_from(arena_printf(arena, "other%u", k)));
    }
    struct report_flame *f = make(sides[1], (struct report_flame_options){.base = sides[0]});
    assert_true(is_changed(f, "f7"));
    assert_false(is_changed(f, "f9"));
}

// Beside one large sample, many small ones count, too.
static void small_samples_count_in_windows(void **state)
{
    enum { SMALL = 40000 };
    const int64_t large = INT64_C(1) << 50, all = large / 1024;
    struct model_profile *sides[2];
    for (int side = 0; side < 2; side++) {
        struct model_builder b;
        model_build(&b, arena);
        model_build_type(&b, STR("samples"), STR("count"));
        for (int w = 0; w < 4; w++)
            model_build_type(&b, str_from(arena_printf(arena, "%s%d", MODEL_WINDOWS, w)),
                             STR("count"));
        b.p->period_type = b.p->types[0];
        b.p->period = 1;
        uint32_t root = model_build_named_location(&b, STR("main"));
        // As many, in small and in large pieces.
        int pieces = side ? SMALL : 20;
        for (int i = 0; i <= pieces; i++) {
            char name[16];
            snprintf(name, sizeof name, "f%d", i ? 1 + i % 20 : 0);
            uint32_t stack[] = {model_build_named_location(&b, str_from(name)), root};
            int64_t part = i ? all / pieces : large, values[5] = {4 * part, part, part, part, part};
            model_build_weighed_sample(&b, stack, 2, values, (double)part * 1e7);
        }
        sides[side] = b.p;
    }
    struct report_flame *f =
        make(sides[1], (struct report_flame_options){.base = sides[0], .functions = true});
    for (uint32_t i = 2; i < f->n_frames; i++)
        if (str_eq(f->frames[i].name, STR("main")))
            assert_false(f->frame_total_changed[i]);
}

// Memory in use is compared with itself, not with the rest, also where it is not the first type.
static void memory_in_use_does_not_depend_on_load(void **state)
{
    struct model_profile *sides[2];
    for (int side = 0; side < 2; side++) {
        struct model_builder b;
        model_build(&b, arena);
        model_build_type(&b, STR("alloc_objects"), STR("count"));
        model_build_type(&b, STR("inuse_objects"), STR("count"));
        for (int i = 0; i < 30; i++) {
            char name[8];
            snprintf(name, sizeof name, "f%d", i);
            uint32_t frame = model_build_named_location(&b, str_from(name));
            int64_t n = 1000 + 10 * i;
            model_build_sample(&b, &frame, 1, (const int64_t[]){n, side ? 2 * n : n});
        }
        sides[side] = b.p;
    }
    struct report_flame *f =
        make(sides[1], (struct report_flame_options){.base = sides[0], .all_types = true});
    assert_int_equal(f->n_types, 2);
    assert_true(f->noise[1].scale == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(merges_stacks_and_sorts_by_name, make_arena, free_arena),
        cmocka_unit_test_setup_teardown(reverses, make_arena, free_arena),
        cmocka_unit_test_setup_teardown(an_empty_profile_is_a_root, make_arena, free_arena),
        cmocka_unit_test_setup_teardown(small_branches_become_other, make_arena, free_arena),
        cmocka_unit_test_setup_teardown(the_largest_nodes_survive_the_cap, make_arena, free_arena),
        cmocka_unit_test_setup_teardown(what_became_other_can_be_had_by_its_path, make_arena,
                                        free_arena),
        cmocka_unit_test_setup_teardown(frames_are_files_lines_or_addresses, make_arena,
                                        free_arena),
        cmocka_unit_test_setup_teardown(inlined_lines_are_frames, make_arena, free_arena),
        cmocka_unit_test_setup_teardown(names_what_has_no_name, make_arena, free_arena),
        cmocka_unit_test_setup_teardown(negative_values_are_told_not_drawn, make_arena, free_arena),
        cmocka_unit_test_setup_teardown(a_diff_has_left_and_right, make_arena, free_arena),
        cmocka_unit_test_setup_teardown(changes_within_noise_are_gray, make_arena, free_arena),
        cmocka_unit_test_setup_teardown(windows_tell_what_varies, make_arena, free_arena),
        cmocka_unit_test_setup_teardown(windows_anywhere, make_arena, free_arena),
        cmocka_unit_test_setup_teardown(small_samples_count_in_windows, make_arena, free_arena),
        cmocka_unit_test_setup_teardown(memory_in_use_does_not_depend_on_load, make_arena,
                                        free_arena),
        cmocka_unit_test_setup_teardown(several_types_share_a_tree, make_arena, free_arena),
        cmocka_unit_test_setup_teardown(functions_are_counted_once_per_stack, make_arena,
                                        free_arena),
        cmocka_unit_test_setup_teardown(the_tree_agrees_with_the_counts, make_arena, free_arena),
        cmocka_unit_test_setup_teardown(deep_stacks_end_in_other, make_arena, free_arena),
        cmocka_unit_test_setup_teardown(the_order_of_samples_does_not_matter, make_arena,
                                        free_arena),
        cmocka_unit_test_setup_teardown(hostile_names_stay_text, make_arena, free_arena),
        cmocka_unit_test_setup_teardown(text_fits_the_terminal, make_arena, free_arena),
        cmocka_unit_test_setup_teardown(groups_and_short_names, make_arena, free_arena),
        cmocka_unit_test(text_on_boxes_can_be_read),
        cmocka_unit_test_setup_teardown(percent_has_the_digits_that_matter, make_arena, free_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
