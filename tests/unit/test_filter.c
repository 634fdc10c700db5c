#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/transform.h"
#include "stacks.h"
#include "arena_fixture.h"

static struct model_regex *regex(const char *pattern)
{
    struct err e;
    if (!pattern)
        return NULL;
    struct model_regex *r = model_regex_new(arena, "test", str_from(pattern), &e);
    if (!r)
        fail_msg("%s", e.message);
    return r;
}

static struct model_profile *stacks(const char *const *lines)
{
    struct model_builder *b = stacks_new(arena);
    for (int64_t i = 1; *lines; lines++, i++)
        stacks_add1(b, *lines, i);
    return b->p;
}

#define STACKS(...) stacks((const char *const[]){__VA_ARGS__, NULL})

// Filters leave what they are given as it was.
static struct str before_bytes;

static struct model_profile *watched(struct model_profile *p)
{
    before_bytes = stacks_bytes(p, arena);
    return p;
}

static void assert_unchanged(const struct model_profile *p)
{
    struct str after = stacks_bytes(p, arena);
    assert_int_equal(before_bytes.n, after.n);
    assert_memory_equal(before_bytes.p, after.p, after.n);
}

// matched as digits: focus, ignore, hide, show.
static void frames_case(struct model_profile *p, const char *focus, const char *ignore,
                        const char *hide, const char *show, const char *matched, const char *want)
{
    bool m[4];
    watched(p);
    struct model_profile *to =
        model_filter_frames(p, regex(focus), regex(ignore), regex(hide), regex(show), m, arena);
    assert_string_equal(stacks_text(to, arena), want);
    char text[5] = {(char)('0' + m[0]), (char)('0' + m[1]), (char)('0' + m[2]), (char)('0' + m[3])};
    assert_string_equal(text, matched);
    assert_unchanged(p);
}

static void focus_and_ignore_choose_samples(void **state)
{
    struct model_profile *p = STACKS("main;f", "main;g", "main;f;g", "other", "");
    frames_case(p, NULL, NULL, NULL, NULL, "1000", stacks_text(p, arena));
    frames_case(p, "^f$", NULL, NULL, NULL, "1000", "main;f 1\nmain;f;g 3\n");
    // Without focus every sample with a frame is focused on.
    frames_case(p, NULL, "^f$", NULL, NULL, "1100", "main;g 2\nother 4\n");
    frames_case(p, "f", "g", NULL, NULL, "1100", "main;f 1\n");
    frames_case(p, "x", NULL, NULL, NULL, "0000", "");
    frames_case(p, NULL, "x", NULL, NULL, "1000", "main;f 1\nmain;g 2\nmain;f;g 3\nother 4\n");
    // A frame that is ignored is not one that focus matched.
    frames_case(p, "^f$", "^f$", NULL, NULL, "0100", "");
}

static void hide_and_show_choose_frames(void **state)
{
    struct model_profile *p = STACKS("main;f", "main;g", "main;f;g", "f");
    frames_case(p, NULL, NULL, "f", NULL, "1010", "main 1\nmain;g 2\nmain;g 3\n");
    frames_case(p, NULL, NULL, NULL, "f", "1001", "f 1\nf 3\nf 4\n");
    frames_case(p, NULL, NULL, "x", NULL, "1000", stacks_text(p, arena));
    frames_case(p, NULL, NULL, NULL, "x", "1000", "");
    frames_case(p, "g", NULL, "main", "f", "1011", "f 3\n");
    // hide is stronger than show.
    frames_case(p, NULL, NULL, "f", "f|main", "1011", "main 1\nmain 2\nmain 3\n");
}

// Inlined calls are judged one by one by hide and show, together by focus and ignore.
static void inlined_frames(void **state)
{
    struct model_profile *p = STACKS("main;a+b+c", "main;a+b");
    frames_case(p, "^c$", NULL, NULL, NULL, "1000", "main;a+b+c 1\n");
    frames_case(p, NULL, "^c$", NULL, NULL, "1100", "main;a+b 2\n");
    frames_case(p, NULL, NULL, "b", NULL, "1010", "main;a+c 1\nmain;a 2\n");
    frames_case(p, NULL, NULL, "[abc]$", NULL, "1010", "main 1\nmain 2\n");
    frames_case(p, NULL, NULL, NULL, "b|c", "1001", "b+c 1\nb 2\n");
    frames_case(p, NULL, NULL, "b", "b|c", "1011", "c 1\n");
}

static void file_names_count(void **state)
{
    struct model_profile *p = STACKS("main@app.c;f@lib.c", "main@app.c");
    frames_case(p, "lib", NULL, NULL, NULL, "1000", "main@app.c;f@lib.c 1\n");
    frames_case(p, NULL, NULL, "lib\\.c$", NULL, "1010", "main@app.c 1\nmain@app.c 2\n");
    frames_case(p, NULL, NULL, NULL, "lib", "1001", "f@lib.c 1\n");
}

// The name of the binary stands for all of its frames.
static void binaries_count(void **state)
{
    struct model_builder *b = stacks_new(arena);
    struct model_mapping lib = {.file = model_build_string(b, STR("/lib/libx.so"))};
    struct model_mapping app = {.file = model_build_string(b, STR("/bin/app"))};
    uint32_t in_lib = model_build_mapping(b, lib), in_app = model_build_mapping(b, app);
    uint32_t frames[2] = {stacks_frame(b, STR("f+g"), in_lib, 1),
                          stacks_frame(b, STR("main"), in_app, 2)};
    model_build_sample(b, frames, 2, (int64_t[]){1});
    model_build_sample(b, frames + 1, 1, (int64_t[]){2});
    frames_case(b->p, "libx", NULL, NULL, NULL, "1000", "main;f+g 1\n");
    frames_case(b->p, NULL, "libx", NULL, NULL, "1100", "main 2\n");
    frames_case(b->p, NULL, NULL, "libx", NULL, "1010", "main 1\nmain 2\n");
    frames_case(b->p, NULL, NULL, NULL, "libx", "1001", "f+g 1\n");
    bool matched;
    struct model_profile *p = model_show_from(b->p, regex("libx"), &matched, arena);
    assert_string_equal(stacks_text(p, arena), "f+g 1\n");
}

static void labels_stay_with_their_samples(void **state)
{
    struct model_builder *b = stacks_new(arena);
    stacks_add1(b, "main;f", 1);
    model_build_label(b, STR("k"), STR("v"));
    stacks_add1(b, "main;g", 2);
    frames_case(b->p, "g", NULL, "main", NULL, "1010", "g 2 {k=v}\n");
}

static void show_from_case(struct model_profile *p, const char *pattern, bool matched,
                           const char *want)
{
    bool m;
    watched(p);
    struct model_profile *to = model_show_from(p, regex(pattern), &m, arena);
    assert_string_equal(stacks_text(to, arena), want);
    assert_int_equal(m, matched);
    assert_unchanged(p);
}

static void show_from_cuts_the_callers(void **state)
{
    struct model_profile *p = STACKS("main;f;g", "main;g", "f;x;f;y", "main;o+f+i;z", "f");
    // The outermost match counts; an inlined caller of it goes as well.
    show_from_case(p, "^f$", true, "f;g 1\nf;x;f;y 3\nf+i;z 4\nf 5\n");
    show_from_case(p, "main", true, "main;f;g 1\nmain;g 2\nmain;o+f+i;z 4\n");
    show_from_case(p, "nothing", false, "");
}

static void prune_from_case(struct model_profile *p, const char *pattern, const char *want)
{
    watched(p);
    assert_string_equal(stacks_text(model_prune_from(p, regex(pattern), arena), arena), want);
    assert_unchanged(p);
}

static void prune_from_cuts_the_callees(void **state)
{
    struct model_profile *p = STACKS("main;f;g", "main;g", "f;x;f;y", "main;o+f+i;z", "f", "");
    // The innermost match counts and stays.
    prune_from_case(p, "^f$", "main;f 1\nmain;g 2\nf;x;f 3\nmain;o+f 4\nf 5\n 6\n");
    prune_from_case(p, "nothing", stacks_text(p, arena));
    // Names are compared without a leading dot and without their arguments.
    p = STACKS("main;.f(int);g", "main;ns::(anonymous namespace)::f(char);g",
               "main;c::operator()(int);g", "main;h(f)");
    prune_from_case(p, "^f$",
                    "main;.f(int) 1\nmain;ns::(anonymous namespace)::f(char);g 2\n"
                    "main;c::operator()(int);g 3\nmain;h(f) 4\n");
    prune_from_case(p, "f$",
                    "main;.f(int) 1\nmain;ns::(anonymous namespace)::f(char) 2\n"
                    "main;c::operator()(int);g 3\nmain;h(f) 4\n");
    prune_from_case(p, "operator\\(\\)$",
                    "main;.f(int);g 1\n"
                    "main;ns::(anonymous namespace)::f(char);g 2\n"
                    "main;c::operator()(int) 3\nmain;h(f) 4\n");
}

static void drop_case(struct model_profile *p, const char *drop, const char *keep, const char *want)
{
    p->drop_frames = model_intern(p->strings, str_from(drop));
    p->keep_frames = model_intern(p->strings, str_from(keep));
    watched(p);
    assert_string_equal(stacks_text(model_drop_uninteresting(p, arena), arena), want);
    assert_unchanged(p);
}

static void uninteresting_frames_are_dropped(void **state)
{
    struct model_profile *p =
        STACKS("main;malloc;inner", "malloc;main;free;x;malloc", "malloc", "main", "main;xmallocx");
    const char *all = stacks_text(p, arena);
    drop_case(p, "", "", all);
    // From the match on down, unless nothing of the user's stands above it; whole names only.
    drop_case(p, "malloc|free", "", "main 1\nmalloc;main 2\nmalloc 3\nmain 4\nmain;xmallocx 5\n");
    drop_case(p, "malloc|free", "malloc",
              "main;malloc;inner 1\nmalloc;main 2\nmalloc 3\nmain 4\nmain;xmallocx 5\n");
    drop_case(p, "malloc", "x",
              "main 1\nmalloc;main;free;x 2\nmalloc 3\nmain 4\nmain;xmallocx 5\n");
    // An expression that cannot be compiled drops nothing.
    drop_case(p, "(", "", all);
    drop_case(p, "malloc", "(", all);
}

static void uninteresting_inlined_frames(void **state)
{
    struct model_profile *p = STACKS("main;user+malloc+inner;deep", "main;malloc+user;deep",
                                     "main;malloc(int);x", "main;.malloc;x");
    // Where a part of a location is the user's it stays.
    drop_case(p, "malloc", "", "main;user 1\nmain 2\nmain 3\nmain 4\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(focus_and_ignore_choose_samples),
        cmocka_unit_test(hide_and_show_choose_frames),
        cmocka_unit_test(inlined_frames),
        cmocka_unit_test(file_names_count),
        cmocka_unit_test(binaries_count),
        cmocka_unit_test(labels_stay_with_their_samples),
        cmocka_unit_test(show_from_cuts_the_callers),
        cmocka_unit_test(prune_from_cuts_the_callees),
        cmocka_unit_test(uninteresting_frames_are_dropped),
        cmocka_unit_test(uninteresting_inlined_frames),
    };
    return cmocka_run_group_tests(tests, make_arena, free_arena);
}
