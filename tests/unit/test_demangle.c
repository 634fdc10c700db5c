#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "symbol/demangle.h"

static void expect(char *text, const char *wanted)
{
    if (!wanted) {
        assert_null(text);
        return;
    }
    assert_non_null(text);
    assert_string_equal(text, wanted);
    free(text);
}

static void rust_legacy(void **state)
{
    static const char *const names[][2] = {
        {"_ZN3foo3bar17h05af221e174051e9E", "foo::bar"},
        {"_ZN4core3ptr42drop_in_place$LT$alloc..string..String$GT$17h05af221e174051e9E",
         "core::ptr::drop_in_place<alloc::string::String>"},
        {"_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar17h930b"
         "740aa94f1d3aE",
         "<Test + 'static as foo::Bar<Test>>::bar"},
        {"_ZN3foo17h05af221e174051e9E.llvm.A5310EB9", "foo"},
        {"_ZN3foo17h05af221e174051e9E.cold.1", "foo.cold.1"},
        {"_ZN13test$u20$test4foobE", "test test::foob"},
        {"_ZN9$u1f980$xE", "\xf0\x9f\xa6\x80x"},
        {"_ZN4$RF$E", "&"},
        {"_ZN3fooEv", NULL},
        {"_ZN3foo", NULL},
        {"_ZN99999999999999999999999fooE", NULL},
        {"main", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        expect(demangle_rust(names[i][0]), names[i][1]);
}

static void rust_v0(void **state)
{
    static const char *const names[][2] = {
        {"_RNvC6_123foo3bar", "123foo::bar"},
        {"_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y",
         "utf8_idents::\xe1\x83\xa1\xe1\x83\x90\xe1\x83\xad\xe1\x83\x9b\xe1\x83\x94\xe1\x83\x9a\xe1"
         "\x83\x90\xe1\x83\x93_\xe1\x83\x92\xe1\x83\x94\xe1\x83\x9b\xe1\x83\xa0\xe1\x83\x98\xe1\x83"
         "\x94\xe1\x83\x9a\xe1\x83\x98_\xe1\x83\xa1\xe1\x83\x90\xe1\x83\x93\xe1\x83\x98\xe1\x83\x9a"
         "\xe1\x83\x98"},
        {"_RNCNCNgCs6DXkGYLi8lr_2cc5spawn00B5_", "cc::spawn::{closure#0}::{closure#0}"},
        {"_RINvMs5_NtNtCsgEmfK2I1SDS_4core3fmt8buildersNtB6_9DebugList7entriesRmINtNtNtBa_5slice4it"
         "er4ItermEECsjrHSEGnQ3l9_3std",
         "<core::fmt::builders::DebugList>::entries::<&u32, core::slice::iter::Iter<u32>>"},
        {"_RIC0KRe616263_E", "::<\"abc\">"},
        {"_RIC0KVC3fooS1xj1_EE", "::<{foo { x: 1 }}>"},
        {"_RIC0Kc27_E", "::<'\\''>"},
        {"_RIC0FUKCEuE", "::<unsafe extern \"C\" fn()>"},
        {"_RNvC1a1b.llvm.1234", "a::b"},
        {"_RNvC1a1b.cold", "a::b.cold"},
        {"_RNvC1a1bx", NULL},
        {"_RNvC1a9b", NULL},
        {"_R", NULL},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        expect(demangle_rust(names[i][0]), names[i][1]);
}

// Doubling by references back ends at the size limit, nesting at the depth limit.
static void bombs_are_defused(void **state)
{
    char name[2048] = "_RMC0";
    size_t n = strlen(name), tuple = n - 2;
    memcpy(name + n, "TTTTTTp", 7);
    n += 7;
    for (int i = 0; i < 40; i++) { // each tuple again in a tuple
        char part[8] = "B0_E";
        part[1] = (char)('0' + (int)(tuple > 9 ? 9 : tuple));
        memcpy(name + n, part, 4);
        n += 4;
    }
    free(demangle_rust(name));
    char deep[1500] = "_RMC0";
    memset(deep + 5, 'S', 1200);
    deep[1205] = 'e';
    expect(demangle_rust(deep), NULL);
}

static void cxx_names_are_simplified(void **state)
{
    static const struct {
        const char *whole, *neither, *templates;
    } names[] = {
        {"std::vector<int, std::allocator<int> >::push_back(int&&)", "std::vector::push_back",
         "std::vector<int, std::allocator<int> >::push_back"},
        {"foo(int)::{lambda(int)#1}::operator()(int) const", "foo::{lambda(int)#1}::operator()",
         "foo::{lambda(int)#1}::operator()"},
        {"(anonymous namespace)::f(std::map<int, char>)", "(anonymous namespace)::f",
         "(anonymous namespace)::f"},
        {"operator<< <char>(std::ostream&, char)", "operator<<", "operator<< <char>"},
        {"a::operator->() const", "a::operator->", "a::operator->"},
        {"f<(a<b>)1, &(g(int))>(int)", "f", "f<(a<b>)1, &(g(int))>"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        expect(demangle_simplify(names[i].whole, false, false), names[i].neither);
        expect(demangle_simplify(names[i].whole, false, true), names[i].templates);
    }
    expect(demangle_simplify("main", false, false), NULL);
    expect(demangle_simplify("broken<", false, false), NULL);
}

static char *fake_cxx(const char *name, bool parameters)
{
    if (strncmp(name, "_Z", 2) != 0)
        return NULL;
    return strdup(parameters ? "void f<int>(int) [clone .cold]" : "f<int>");
}

static void modes(void **state)
{
    expect(demangle("_Z1f", DEMANGLE_DEFAULT, fake_cxx), "f");
    expect(demangle("_Z1f", DEMANGLE_TEMPLATES, fake_cxx), "f<int>");
    expect(demangle("_Z1f", DEMANGLE_FULL, fake_cxx), "void f<int>(int)");
    expect(demangle("_Z1f", DEMANGLE_NONE, fake_cxx), NULL);
    expect(demangle("__Z1f", DEMANGLE_DEFAULT, fake_cxx), "f");
    expect(demangle("_Z1f", DEMANGLE_DEFAULT, NULL), NULL);
    expect(demangle("main", DEMANGLE_DEFAULT, fake_cxx), NULL);
    // Rust by its hash, although it looks like C++.
    expect(demangle("_ZN3foo3bar17h05af221e174051e9E", DEMANGLE_DEFAULT, fake_cxx), "foo::bar");
    expect(demangle("_ZN3foo3barE", DEMANGLE_TEMPLATES, fake_cxx), "f<int>");
    // Demangled before it came.
    expect(demangle("swap<a::b>", DEMANGLE_DEFAULT, NULL), "swap");
    expect(demangle("a::f(int)", DEMANGLE_TEMPLATES, NULL), "a::f");
    expect(demangle("a::f(int)", DEMANGLE_FULL, NULL), NULL);
    expect(demangle("java.<init>", DEMANGLE_DEFAULT, NULL), NULL);
    expect(demangle("foo.(*Bar[...]).Method", DEMANGLE_DEFAULT, NULL), NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rust_legacy),
        cmocka_unit_test(rust_v0),
        cmocka_unit_test(bombs_are_defused),
        cmocka_unit_test(cxx_names_are_simplified),
        cmocka_unit_test(modes),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
