#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "report/graph.h"
#include "arena_fixture.h"

// The expected texts are those of google/pprof and of Go's path/filepath.

// In storage of its exact size, so that a sanitizer sees reads past its end.
static struct str exactly(const char *text)
{
    size_t n = strlen(text);
    char *p = n ? arena_alloc(arena, n) : NULL;
    if (n)
        memcpy(p, text, n);
    return (struct str){n ? p : "", n};
}

static void expect(const char *what, struct str got, const char *want)
{
    if (!str_eq(got, str_from(want)))
        fail_msg("%s: `%.*s`, not `%s`", what, (int)got.n, got.p, want);
}

static void names_are_shortened(void **state)
{
    static const char *const cases[][2] = {
        {"", ""},
        {"main", "main"},
        {"main.main", "main.main"},
        {"github.com/a/b.F", "b.F"},
        {"github.com/a/b/v2.F", "b.F"},
        {"github.com/a/b/v2/c.F", "c.F"},
        {"github.com/a/b/v1.F", "v1.F"},
        {"github.com/a/b/v12.(*T).M", "b.(*T).M"},
        {"github.com/a/b/v0.F", "v0.F"},
        {"a/b.c/d.F.func1", "d.F.func1"},
        {"a/b", "a/b"},
        {"a/b.", "a/b."},
        {"a/.b", "a/.b"},
        {"net/http.(*conn).serve", "http.(*conn).serve"},
        {"path/to/pkg.Type[go.shape.int].M", "pkg.Type[go.shape.int].M"},
        {"example.com/foo.bar/baz.Qux", "baz.Qux"},
        {"-a/b.c", "b.c"},
        {"a b/c.d", "a b/c.d"},
        {"/a/b.c", "/a/b.c"},
        {"java.util.concurrent.ThreadPoolExecutor$Worker.run", "ThreadPoolExecutor$Worker.run"},
        {"java.lang.Foo.<init>", "Foo.<init>"},
        {"java.lang.Foo.bar(int)", "Foo.bar"},
        {"com.example.Foo.bar", "Foo.bar"},
        {"Foo.bar", "Foo.bar"},
        {"a.b.c", "a.b.c"},
        {"java.lang.Foo.Bar", "java.lang.Foo.Bar"},
        {"java.util.Foo.barBaz$1(x)", "Foo.barBaz$1"},
        {"java.lang.Foo", "java.lang.Foo"},
        {"jAva.x1.Foo.b", "Foo.b"},
        {"java.Foo.bar baz", "java.Foo.bar baz"},
        {"std::vector<int>::push_back", "std::vector<int>::push_back"},
        {"ns::Class::method", "Class::method"},
        {"a::b::Class::method<int>", "Class::method<int>"},
        {"a::b::Class::~Class", "Class::~Class"},
        {"a::Class::operator()", "Class::operator"},
        {"(anonymous namespace)::ns::Foo::bar", "Foo::bar"},
        {"(anonymous namespace)::foo", "foo"},
        {"foo::(anonymous namespace)::bar", "foo::(anonymous namespace)::bar"},
        {"a::b::c", "a::b::c"},
        {"a::B::C::d", "C::d"},
        {"_ns::_Class::_m", "_Class::_m"},
        {"a::B::c<d>::e<f>(g)", "B::c<d>::e<f>"},
        {"a::b::Foo<int>::bar", "a::b::Foo<int>::bar"},
        {"ns1::ns2::Class::Bar<int, std::map<a, b>>(int)", "Class::Bar<int, std::map<a, b>>"},
        {"a::B::9c", "a::B::9c"},
        {"a::_B::c", "_B::c"},
        {"Class::method", "Class::method"},
        {"::a::B::c", "::a::B::c"},
        {"a::B::", "a::B::"},
        {"a::B", "a::B"},
        {"1a::B::c", "1a::B::c"},
        {"a::B::c x", "B::c"},
        {"core::ops::function::FnOnce::call_once", "FnOnce::call_once"},
        {"<alloc::vec::Vec<T> as core::ops::Drop>::drop",
         "<alloc::vec::Vec<T> as core::ops::Drop>::drop"},
        {"tokio::runtime::Handle::block_on::h123", "Handle::block_on"},
        {"x\ny/z.w", "x\ny/z.w"},
        {"a/b.c\nd", "b.c"},
        {"a::B::c\n<d>", "B::c"},
        {"a/v2.b\n", "v2.b"},
        {"foo/v2x/b.C", "b.C"},
        {"foo/v2/v3.C", "v3.C"},
        {"v2/b.C", "b.C"},
        {"/v2.x", ".x"},
        {"foo/v2", "foo/v2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect(cases[i][0], name_shorten(arena, exactly(cases[i][0])), cases[i][1]);
}

// More directories and namespaces than a name has elsewhere.
static void long_names_are_shortened(void **state)
{
    struct out text;
    out_init_arena(&text, arena);
    for (int i = 0; i < 100; i++)
        out_text(&text, "ns::");
    out_text(&text, "Class::method");
    assert_true(str_ends(name_shorten(arena, out_result(&text)), STR("Class::method")));
    text.n = 0;
    for (int i = 0; i < 100; i++)
        out_text(&text, "dir/");
    out_text(&text, "pkg.Func");
    assert_true(str_ends(name_shorten(arena, out_result(&text)), STR("pkg.Func")));
}

static void paths_are_cleaned(void **state)
{
    static const char *const cases[][3] = {
        {"", ".", "."},
        {"/", "/", "/"},
        {"//", "/", "/"},
        {".", ".", "."},
        {"..", "..", ".."},
        {"../..", "../..", ".."},
        {"a", "a", "a"},
        {"a/", "a", "a"},
        {"a//b", "a/b", "b"},
        {"a/./b", "a/b", "b"},
        {"a/../b", "b", "b"},
        {"/a/../b", "/b", "b"},
        {"/..", "/", ".."},
        {"/../a", "/a", "a"},
        {"../a", "../a", "a"},
        {"a/../..", "..", ".."},
        {"a/../../b", "../b", "b"},
        {"a/b/../c/..", "a", ".."},
        {"./a", "a", "a"},
        {"/./a/", "/a", "a"},
        {"a/b/..", "a", ".."},
        {"...", "...", "..."},
        {"a/...", "a/...", "..."},
        {"a/.b", "a/.b", ".b"},
        {"a/..b", "a/..b", "..b"},
        {"..a", "..a", "..a"},
        {"/a/b/../../c", "/c", "c"},
        {"a/b/../../..", "..", ".."},
        {"/a//b///c/", "/a/b/c", "c"},
        {"a/./", "a", "."},
        {"../../a/../b", "../../b", "b"},
        {"/.", "/", "."},
        {"a\\b/../c", "c", "c"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        expect(cases[i][0], path_clean(arena, exactly(cases[i][0])), cases[i][1]);
        expect(cases[i][0], path_base(exactly(cases[i][0])), cases[i][2]);
    }
}

static void paths_are_trimmed(void **state)
{
    // path, trim_path, source_path, result
    static const char *const cases[][4] = {
        {"/usr/src/a.c", "", "", "/usr/src/a.c"},
        {"/proc/self/cwd/./a/b.c", "", "", "a/b.c"},
        {"/proc/self/cwd/a/b.c", "", "", "a/b.c"},
        {"/home/u/proj/src/a.c", "/home/u/proj", "", "src/a.c"},
        {"/home/u/proj/src/a.c", "/home/u/proj/", "", "src/a.c"},
        {"/home/u/project/src/a.c", "/home/u/proj", "", "/home/u/project/src/a.c"},
        {"/home/u/proj", "/home/u/proj", "", "/home/u/proj"},
        {"/home/u/proj/x", "/a:/home/u", "", "proj/x"},
        {"/home/u/proj/x", "/a:/home/u/proj:/home", "", "x"},
        {"/build/myproj/src/a.c", "", "/home/me/myproj", "src/a.c"},
        {"/build/myproj/myproj/a.c", "", "/home/me/myproj", "myproj/a.c"},
        {"myproj/src/a.c", "", "/home/me/myproj", "myproj/src/a.c"},
        {"/build/other/src/a.c", "", "/x/nope:/home/me/other", "src/a.c"},
        {"/build/myprojx/src/a.c", "", "/home/me/myproj", "/build/myprojx/src/a.c"},
        {"/proc/self/cwd/a.c", "/nope", "", "a.c"},
        {"/proc/self/cwd/a.c", "", "/nope", "a.c"},
        {"/proc/self/cwd/src/a.c", "/proc/self", "", "cwd/src/a.c"},
        {"a/b.c", "a", "", "b.c"},
        {"a/b.c", ":", "", "a/b.c"},
        {"/a/b.c", "/", "", "a/b.c"},
        {"", "/a", "", ""},
        {"/home/u/proj/a.c", "/home/u/proj//", "", "/home/u/proj/a.c"},
        {"/x/./a", "/x/.", "", "a"},
        {"/build/src/a", "", "src/", "a"},
        {"/build/src/a", "", "/", "/build/src/a"},
        {"/a//b", "", "", "/a//b"},
        {"/a/b", "x:", "", "a/b"},
        {"/build/src/a", "", ":", "/build/src/a"},
        {"/a/src/b", "/z", "/q/src", "/a/src/b"},
        {"/a/./b", "", "/", "/a/./b"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect(cases[i][0],
               path_trim(exactly(cases[i][0]), exactly(cases[i][1]), exactly(cases[i][2])),
               cases[i][3]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_shortened),
        cmocka_unit_test(long_names_are_shortened),
        cmocka_unit_test(paths_are_cleaned),
        cmocka_unit_test(paths_are_trimmed),
    };
    return cmocka_run_group_tests(tests, make_arena, free_arena);
}
