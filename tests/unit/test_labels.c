#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/transform.h"
#include "stacks.h"
#include "arena_fixture.h"

// "k=v" is a string label, "k:5kb" a numeric one.
static void sample(struct model_builder *b, const char *stack, int64_t value, const char *labels)
{
    struct str rest = str_from(labels);
    while (rest.n) {
        size_t end = str_find(rest, STR(" "), 0);
        struct str l = str_from_to(rest, 0, end == SIZE_MAX ? rest.n : end);
        rest = end == SIZE_MAX ? STR("") : str_from_to(rest, end + 1, rest.n);
        size_t at = 0;
        while (l.p[at] != '=' && l.p[at] != ':')
            at++;
        struct str key = str_from_to(l, 0, at), text = str_from_to(l, at + 1, l.n);
        if (l.p[at] == '=') {
            model_build_label(b, key, text);
            continue;
        }
        size_t digits = 0;
        while (digits < text.n && (text.p[digits] == '-' || (text.p[digits] & 0xf0) == 0x30))
            digits++;
        int64_t number;
        assert_true(str_to_i64(str_from_to(text, 0, digits), &number));
        model_build_number_label(b, key, number, str_from_to(text, digits, text.n));
    }
    stacks_add1(b, stack, value);
}

static struct model_profile *labelled(void)
{
    struct model_builder *b = stacks_new(arena);
    sample(b, "a", 1, "url=/x user=ann");
    sample(b, "b", 2, "url=/y user=bob");
    sample(b, "c", 3, "bytes:1024");
    sample(b, "d", 4, "bytes:2048 url=/x");
    sample(b, "e", 5, "");
    sample(b, "f", 6, "time:3ms time:5ms");
    sample(b, "g", 7, "url=/y url=/z");
    return b->p;
}

static char *letters(const struct model_profile *p)
{
    char *text = arena_alloc(arena, p->n_samples + 1);
    for (size_t i = 0; i < p->n_samples; i++)
        text[i] =
            model_str(
                p,
                p->functions[p->lines[p->locations[model_stack(p, i)[0]].first_line].function].name)
                .p[0];
    return text;
}

static struct model_tag_filter *tag_filter(const char *text)
{
    struct err e = {.message = ""};
    if (!text)
        return NULL;
    struct model_tag_filter *f = model_tag_filter_new(arena, "test", str_from(text), NULL, &e);
    if (!f)
        fail_msg("%s", e.message);
    return f;
}

static void tags_are_chosen(void **state)
{
    static const struct {
        const char *focus, *ignore, *want;
        bool focus_matched, ignore_matched;
    } cases[] = {
        {"/x", NULL, "ad", true, false},
        {"url:/x", NULL, "ad", true, false}, // without a key the text is key:value
        {"/x,ann", NULL, "a", true, false},  // all of them
        {"ann,bob", NULL, "", false, false},
        {"url=/x", NULL, "ad", true, false},
        {"url=ann", NULL, "", false, false},
        {"url=/x,/z", NULL, "adg", true, false}, // with a key any of them
        {"url=^/[xy]$", NULL, "abdg", true, false},
        {"nokey=/x", NULL, "", false, false},
        {NULL, "/x", "bcefg", true, true},
        {NULL, "nothing", "abcdefg", true, false},
        {"/", "user=ann", "bdg", true, true},
        {"", NULL, "abdg", true, false}, // an empty expression: any string label
        // Ranges of numbers.
        {"1kb", NULL, "c", true, false},
        {"1024", NULL, "", false, false}, // no unit is no bytes
        {"1024b", NULL, "c", true, false},
        {"1kb:", NULL, "cd", true, false},
        {":1kb", NULL, "c", true, false},
        {"2kb:4kb", NULL, "d", true, false},
        {"1025b:2mb", NULL, "d", true, false},
        {"4kb:2kb", NULL, "", false, false},
        {"bytes=1kb:", NULL, "cd", true, false},
        {"time=1kb:", NULL, "", false, false},
        {"time=4ms:", NULL, "f", true, false},
        {"6ms:", NULL, "", false, false},
        {"3000us", NULL, "f", true, false},
        {":1s", NULL, "f", true, false},
        {NULL, "1kb:", "abefg", true, true},
        // What looks like a range and is none.
        {"1kb:2ms", NULL, "", false, false},
        {"1kb:2kb:3kb", NULL, "", false, false},
        {"1.5kb:", NULL, "", false, false},
    };
    struct model_profile *p = labelled();
    const uint32_t *units = model_label_units(p, arena, NULL, NULL);
    struct str before = stacks_bytes(p, arena);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool focus, ignore;
        struct model_profile *to =
            model_filter_tags(p, tag_filter(cases[i].focus), tag_filter(cases[i].ignore), units,
                              &focus, &ignore, arena);
        if (strcmp(letters(to), cases[i].want) != 0)
            fail_msg("%s, -%s: %s, not %s", cases[i].focus, cases[i].ignore, letters(to),
                     cases[i].want);
        if (focus != cases[i].focus_matched || ignore != cases[i].ignore_matched)
            fail_msg("%s, -%s: matched %d %d", cases[i].focus, cases[i].ignore, focus, ignore);
    }
    struct str after = stacks_bytes(p, arena);
    assert_int_equal(before.n, after.n);
    assert_memory_equal(before.p, after.p, after.n);
}

static void a_profile_without_labels_is_filtered(void **state)
{
    struct model_builder *b = stacks_new(arena);
    stacks_add1(b, "a", 1);
    const uint32_t *units = model_label_units(b->p, arena, NULL, NULL);
    bool focus, ignore;
    assert_int_equal(
        model_filter_tags(b->p, tag_filter("x"), NULL, units, &focus, &ignore, arena)->n_samples,
        0);
    assert_int_equal(
        model_filter_tags(b->p, tag_filter("1kb"), NULL, units, &focus, &ignore, arena)->n_samples,
        0);
    assert_int_equal(
        model_filter_tags(b->p, NULL, tag_filter("x"), units, &focus, &ignore, arena)->n_samples,
        1);
}

static void filters_tell_what_they_understood(void **state)
{
    bool range;
    struct err e = {.message = ""};
    assert_non_null(model_tag_filter_new(arena, "tagfocus", STR("k=1:2"), &range, &e));
    assert_true(range);
    assert_non_null(model_tag_filter_new(arena, "tagfocus", STR("k=x"), &range, &e));
    assert_false(range);
    static const char *const none[] = {"1kb:2ms", "1:2:3", "1kb:x", ":", "x:1", "1.5", "", "1 kb"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        assert_non_null(model_tag_filter_new(arena, "tagfocus", str_from(none[i]), &range, &e));
        assert_false(range);
    }
    assert_null(model_tag_filter_new(arena, "tagfocus", STR("k=x,("), &range, &e));
    assert_non_null(strstr(e.message, "parsing tagfocus regexp: "));
    // A number that does not fit is no number.
    assert_non_null(
        model_tag_filter_new(arena, "tagfocus", STR("99999999999999999999"), &range, &e));
    assert_false(range);
}

static struct model_regex *regex(const char *pattern)
{
    struct err e;
    return pattern ? model_regex_new(arena, "test", str_from(pattern), &e) : NULL;
}

static void keys_are_chosen(void **state)
{
    struct model_builder *b = stacks_new(arena);
    sample(b, "f", 1, "url=/x user=ann bytes:5 url=/y");
    sample(b, "g", 2, "");
    sample(b, "h", 3, "user=bob");
    static const struct {
        const char *show, *hide, *want;
        bool show_matched, hide_matched;
    } cases[] = {
        {"^u", NULL, "f 1 {url=/x, url=/y, user=ann}\ng 2\nh 3 {user=bob}\n", true, false},
        {NULL, "user", "f 1 {url=/x, url=/y, bytes=5}\ng 2\nh 3\n", true, true},
        {"u", "r$", "f 1 {url=/x, url=/y}\ng 2\nh 3\n", true, true},
        {"x", NULL, "f 1\ng 2\nh 3\n", false, false},
        {NULL, "x", "f 1 {url=/x, url=/y, user=ann, bytes=5}\ng 2\nh 3 {user=bob}\n", true, false},
    };
    struct str before = stacks_bytes(b->p, arena);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool show, hide;
        struct model_profile *p = model_filter_label_keys(
            b->p, regex(cases[i].show), regex(cases[i].hide), &show, &hide, arena);
        assert_string_equal(stacks_text(p, arena), cases[i].want);
        assert_int_equal(show, cases[i].show_matched);
        assert_int_equal(hide, cases[i].hide_matched);
    }
    struct str after = stacks_bytes(b->p, arena);
    assert_int_equal(before.n, after.n);
    assert_memory_equal(before.p, after.p, after.n);
}

static void labels_are_set_and_removed(void **state)
{
    struct model_builder *b = stacks_new(arena);
    sample(b, "f", 1, "a=1 m=old m=older z=1 m:5 n:6");
    sample(b, "g", 2, "");
    struct str before = stacks_bytes(b->p, arena);
    struct model_profile *p = model_set_label(b->p, STR("m"), STR("new"), arena);
    assert_string_equal(stacks_text(p, arena), "f 1 {a=1, m=new, z=1, m=5, n=6}\ng 2 {m=new}\n");
    p = model_set_label(b->p, STR("zz"), STR(""), arena);
    assert_string_equal(stacks_text(p, arena),
                        "f 1 {a=1, m=old, m=older, z=1, zz=, m=5, n=6}\ng 2 {zz=}\n");
    p = model_set_label(b->p, STR("m"), (struct str){NULL, 0}, arena);
    assert_string_equal(stacks_text(p, arena), "f 1 {a=1, z=1, m=5, n=6}\ng 2\n");
    struct str after = stacks_bytes(b->p, arena);
    assert_int_equal(before.n, after.n);
    assert_memory_equal(before.p, after.p, after.n);

    struct model_builder *c = stacks_new(arena);
    sample(c, "f", 1, "");
    p = model_set_label(c->p, STR("k"), STR("v"), arena);
    assert_string_equal(stacks_text(p, arena), "f 1 {k=v}\n");
    assert_string_equal(stacks_text(c->p, arena), "f 1\n");
    p = model_set_label(c->p, STR("k"), (struct str){NULL, 0}, arena);
    assert_string_equal(stacks_text(p, arena), "f 1\n");
}

static char conflicts[256];

static void note_conflict(void *context, struct str key, struct str used, struct str others)
{
    assert_ptr_equal(context, conflicts);
    size_t n = strlen(conflicts);
    snprintf(conflicts + n, sizeof conflicts - n, "%.*s: %.*s not %.*s; ", (int)key.n, key.p,
             (int)used.n, used.p, (int)others.n, others.p);
}

static void units_of_labels(void **state)
{
    struct model_builder *b = stacks_new(arena);
    sample(b, "f", 1, "a:1 request:1 alignment:1 b:1 c:1ms text=x");
    sample(b, "g", 1, "b:1kb request:1kb c:1us");
    sample(b, "h", 1, "b:1mb c:1us c:1hours c:1ms");
    struct model_profile *p = b->p;
    conflicts[0] = '\0';
    const uint32_t *units = model_label_units(p, arena, note_conflict, conflicts);
    static const char *const want[][2] = {
        {"a", "a"}, {"request", "kb"}, {"alignment", "bytes"}, {"b", "kb"}, {"c", "ms"},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        uint32_t unit = units[model_find_string(p->strings, str_from(want[i][0]))];
        assert_true(str_eq(model_str(p, unit), str_from(want[i][1])));
    }
    assert_int_equal(units[model_find_string(p->strings, STR("text"))], MODEL_NONE);
    assert_string_equal(conflicts, "c: ms not hours, us; b: kb not mb; ");
    assert_non_null(model_label_units(p, arena, NULL, NULL));
}

static void sizes_are_bytes(void **state)
{
    struct model_builder *b = stacks_new(arena);
    sample(b, "f", 1, "request:1 alignment:1 other:1");
    const uint32_t *units = model_label_units(b->p, arena, NULL, NULL);
    static const char *const want[][2] = {
        {"request", "bytes"}, {"alignment", "bytes"}, {"other", "other"}};
    for (size_t i = 0; i < 3; i++) {
        uint32_t unit = units[model_find_string(b->p->strings, str_from(want[i][0]))];
        assert_true(str_eq(model_str(b->p, unit), str_from(want[i][1])));
    }
}

// Conflicts are counted for the sets that samples have, in the order of the samples.
static void only_used_label_sets_count(void **state)
{
    struct model_builder *b = stacks_new(arena);
    sample(b, "f", 1, "a:1ms");
    sample(b, "g", 1, "a:1us");
    struct model_profile *p = model_select_samples(b->p, (bool[]){false, true}, arena);
    conflicts[0] = '\0';
    const uint32_t *units = model_label_units(p, arena, note_conflict, conflicts);
    uint32_t unit = units[model_find_string(p->strings, STR("a"))];
    assert_true(str_eq(model_str(p, unit), STR("us")));
    assert_string_equal(conflicts, "");
}

static void frames_case(struct model_profile *p, const char *root, const char *leaf,
                        const char *unit, bool root_matched, bool leaf_matched, const char *want)
{
    bool r, l;
    struct err e = {.message = ""};
    struct str before = stacks_bytes(p, arena);
    struct model_profile *to =
        model_add_label_frames(p, str_from(root), str_from(leaf), str_from(unit), &r, &l, arena);
    assert_string_equal(stacks_text(to, arena), want);
    assert_int_equal(r, root_matched);
    assert_int_equal(l, leaf_matched);
    assert_int_equal(model_check(to, &e), 0);
    struct str after = stacks_bytes(p, arena);
    assert_int_equal(before.n, after.n);
    assert_memory_equal(before.p, after.p, after.n);
}

static void labels_become_frames(void **state)
{
    struct model_builder *b = stacks_new(arena);
    sample(b, "main;f", 1, "k=v k=w n:2048bytes");
    sample(b, "main", 2, "");
    sample(b, "g", 3, "k=v k=w m:7");
    struct model_profile *p = b->p;
    frames_case(p, "k", "", "minimum", true, false,
                "v,w@k;main;f 1 {k=v, k=w, n=2048bytes}\n@k;main 2\nv,w@k;g 3 {k=v, k=w, m=7}\n");
    frames_case(p, "", "k", "minimum", false, true,
                "main;f;v,w@k 1 {k=v, k=w, n=2048bytes}\nmain;@k 2\ng;v,w@k 3 {k=v, k=w, m=7}\n");
    // The first of the root keys is the root, the last of the leaf keys the leaf.
    frames_case(p, "n,k", "k,m", "minimum", true, true,
                "2kB@n;v,w@k;main;f;v,w@k;@m 1 {k=v, k=w, n=2048bytes}\n"
                "@n;@k;main;@k;@m 2\n"
                "@n;v,w@k;g;v,w@k;7@m 3 {k=v, k=w, m=7}\n");
    frames_case(p, "n", "", "bytes", true, false,
                "2048B@n;main;f 1 {k=v, k=w, n=2048bytes}\n@n;main 2\n@n;g 3 {k=v, k=w, m=7}\n");
    // A number without a unit is given none.
    frames_case(p, "m", "", "bytes", true, false,
                "@m;main;f 1 {k=v, k=w, n=2048bytes}\n@m;main 2\n7@m;g 3 {k=v, k=w, m=7}\n");
    frames_case(p, "none", ",", "minimum", false, false,
                "@none;main;f 1 {k=v, k=w, n=2048bytes}\n@none;main 2\n"
                "@none;g 3 {k=v, k=w, m=7}\n");
    frames_case(p, "", "", "minimum", false, false, stacks_text(p, arena));
}

// One location for each distinct value, with ids above those there are.
static void label_frames_are_shared(void **state)
{
    struct model_builder *b = stacks_new(arena);
    for (int i = 0; i < 100; i++)
        sample(b, "main;f", 1, i % 2 ? "k=a" : "k=b");
    b->p->locations[0].id = 500;
    b->p->functions[0].id = 700;
    bool r, l;
    struct model_profile *p =
        model_add_label_frames(b->p, STR("k"), STR(""), STR("minimum"), &r, &l, arena);
    assert_int_equal(p->n_locations, 4);
    assert_int_equal(p->n_functions, 4);
    assert_int_equal(p->locations[2].id, 501);
    assert_int_equal(p->functions[3].id, 702);
    assert_int_equal(b->p->n_locations, 2);
}

static void frames_without_labels(void **state)
{
    struct model_builder *b = stacks_new(arena);
    stacks_add1(b, "main;f", 1);
    stacks_add1(b, "", 2);
    frames_case(b->p, "k", "l", "minimum", false, false, "@k;main;f;@l 1\n@k;@l 2\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tags_are_chosen),
        cmocka_unit_test(a_profile_without_labels_is_filtered),
        cmocka_unit_test(filters_tell_what_they_understood),
        cmocka_unit_test(keys_are_chosen),
        cmocka_unit_test(labels_are_set_and_removed),
        cmocka_unit_test(units_of_labels),
        cmocka_unit_test(sizes_are_bytes),
        cmocka_unit_test(only_used_label_sets_count),
        cmocka_unit_test(labels_become_frames),
        cmocka_unit_test(label_frames_are_shared),
        cmocka_unit_test(frames_without_labels),
    };
    return cmocka_run_group_tests(tests, make_arena, free_arena);
}
