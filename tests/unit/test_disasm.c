// What objdump prints, GNU's and LLVM's, and what happens with one that misbehaves.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "symbol/disasm.h"
#include "arena_fixture.h"

static char dir[] = "/tmp/kiln-disasm-XXXXXX";

#define assert_str(s, text) \
    assert_true(str_eq((s), str_from(text)) || (printf("%.*s\n", (int)(s).n, (s).p), false))

static void gnu_output(void **state)
{
    size_t n;
    struct disasm_inst *i = disasm_parse(STR("\n"
                                             "./prog:     file format elf64-x86-64\n"
                                             "\n\n"
                                             "Disassembly of section .text:\n"
                                             "\n"
                                             "0000000000001139 <main>:\n"
                                             "main():\n"
                                             "/src/a b.c:12 (discriminator 3)\n"
                                             "    1139:\tpush   %rbp\n"
                                             "    113a:\tmov    %rsp,%rbp\n"
                                             "/src/b.c:7\n"
                                             "    113d:\tcall   1030 <puts@plt>\n"
                                             "\t...\n"
                                             "    1150:\tret\n"),
                                         arena, &n);
    assert_int_equal(n, 4);
    assert_int_equal(i[0].addr, 0x1139);
    assert_str(i[0].text, "push   %rbp");
    assert_str(i[0].function, "main");
    assert_str(i[0].file, "/src/a b.c");
    assert_int_equal(i[0].line, 12);
    assert_str(i[2].file, "/src/b.c");
    assert_int_equal(i[2].line, 7);
    // A line that means nothing ends what was known.
    assert_int_equal(i[3].line, 0);
    assert_str(i[3].function, "");
}

static void llvm_output(void **state)
{
    size_t n;
    struct disasm_inst *i = disasm_parse(STR("prog:\tfile format elf64-x86-64\n\n"
                                             "Disassembly of section .text:\n\n"
                                             "0000000000001270 <ns::hash(int)>:\n"
                                             "; ns::hash(int)():\n"
                                             "; /src/a.cc:12\n"
                                             "    1270:      \ttestq\t%rsi, %rsi\n"
                                             "; /src/a.cc:99999999999\n"
                                             "    1273: je\t0x12a0 <hash+0x30>\n"
                                             "\n00000000000012a0 <bare>:\n"
                                             "    12a0: retq\n"),
                                         arena, &n);
    assert_int_equal(n, 3);
    assert_str(i[0].text, "testq\t%rsi, %rsi");
    assert_str(i[0].function, "ns::hash(int)");
    assert_int_equal(i[1].line, 12); // a number that cannot be: the one before stays
    assert_str(i[2].function, "<bare>");
}

static void odd_output(void **state)
{
    static const struct {
        const char *line, *function;
    } cases[] = {
        {"; main():", "main"},
        {";main():", "main"},
        {";  main():", ";  main"},
        {"Disassembly of section .text:", "isassembly of section .text"},
        {"abc:", ""},
        {"():", "()"},
        {"a() b():", "a() b"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[200];
        size_t n;
        snprintf(text, sizeof text, "%s\n 10: nop", cases[k].line);
        struct disasm_inst *i = disasm_parse(str_from(text), arena, &n);
        assert_int_equal(n, 1);
        assert_str(i[0].function, cases[k].function);
    }
    size_t n;
    disasm_parse(STR(""), arena, &n);
    assert_int_equal(n, 0);
    disasm_parse(STR("10:\n10: \n: x\n11111111111111111: nop\ng: nop\n"), arena, &n);
    assert_int_equal(n, 0);
}

static void versions(void **state)
{
    assert_int_equal(disasm_kind(STR("GNU objdump (GNU Binutils for Debian) 2.40\n")), 1);
    assert_int_equal(disasm_kind(STR("Debian LLVM version 14.0.6\n  Optimized build.\n")), 2);
    assert_int_equal(disasm_kind(STR("LLVM (http://llvm.org/):\n  LLVM version 8.0.0\n")), 2);
    assert_int_equal(disasm_kind(STR("  LLVM version 7.1.0\n")), 0);
    assert_int_equal(disasm_kind(STR("  LLVM version trunk r1\n")), 2);
    assert_int_equal(disasm_kind(STR("something else\n")), 0);
    assert_int_equal(disasm_kind(STR("")), 0);
}

static void put_script(const char *name, const char *text)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "w");
    fprintf(file, "#!/bin/sh\n%s\n", text);
    fclose(file);
    chmod(path, 0755);
}

static void a_tool_is_found_and_run(void **state)
{
    struct disasm_tool tool;
    char where[300], path[300];
    disasm_find(&tool, dir);
    assert_string_equal(tool.path, ""); // nothing there, and nowhere else is looked
    put_script("objdump", "[ \"$1\" = --version ] && { echo GNU objdump 2; exit; }\n"
                          "for last; do :; done; [ \"$last\" = bad ] && { echo 1: x; exit 3; }\n"
                          "[ \"$last\" = dead ] && kill -9 $$\n"
                          "echo \"  10: $*\"");
    disasm_find(&tool, dir);
    snprintf(path, sizeof path, "%s/objdump", dir);
    assert_string_equal(tool.path, path);
    assert_false(tool.is_llvm);
    snprintf(where, sizeof where, "nm:/bin,objdump:%s", dir);
    disasm_find(&tool, where);
    assert_string_equal(tool.path, path);
    snprintf(where, sizeof where, "nm:%s", dir);
    disasm_find(&tool, where);
    assert_string_equal(tool.path, "");
    put_script("llvm-objdump", "exit 1"); // one that does not work is passed over
    disasm_find(&tool, dir);
    assert_true(tool.is_llvm);

    struct disasm_range ranges[20];
    for (size_t i = 0; i < 20; i++)
        ranges[i] = (struct disasm_range){.binary = i == 7    ? "bad"
                                                    : i == 11 ? "dead"
                                                              : "good",
                                          .start = 0x10 * i,
                                          .end = 0x20,
                                          .intel_syntax = i == 3};
    ranges[5].error = "not wanted";
    disasm_run(&tool, ranges, 20, arena);
    for (size_t i = 0; i < 20; i++) {
        if (i == 5 || i == 7 || i == 11)
            continue;
        char text[400];
        snprintf(text, sizeof text,
                 "--disassemble --demangle --no-show-raw-insn --line-numbers "
                 "--start-address=0x%x --stop-address=0x20 %sgood",
                 (unsigned)(0x10 * i), i == 3 ? "-M intel " : "");
        assert_null(ranges[i].error);
        assert_int_equal(ranges[i].n, 1);
        assert_str(ranges[i].insts[0].text, text);
    }
    assert_string_equal(tool.path, path);
    assert_string_equal(ranges[5].error, "not wanted");
    assert_non_null(strstr(ranges[7].error, " bad]: exit status 3"));
    assert_non_null(strstr(ranges[11].error, " dead]: signal: Killed"));

    struct disasm_tool none = {.path = ""};
    ranges[0].error = NULL;
    disasm_run(&none, ranges, 1, arena);
    assert_string_equal(ranges[0].error, "cannot disasm: no objdump tool available");
}

static int make_dir(void **state)
{
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    return chdir(dir) || unlink("objdump") || unlink("llvm-objdump") || chdir("/") || rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(gnu_output, make_arena, free_arena),
        cmocka_unit_test_setup_teardown(llvm_output, make_arena, free_arena),
        cmocka_unit_test_setup_teardown(odd_output, make_arena, free_arena),
        cmocka_unit_test_setup_teardown(versions, make_arena, free_arena),
        cmocka_unit_test_setup_teardown(a_tool_is_found_and_run, make_arena, free_arena),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
