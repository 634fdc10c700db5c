#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "symbol/jitdump.h"
#include "arena_fixture.h"

enum { LOAD, MOVE, DEBUG_INFO, CLOSE, UNWINDING };

static uint8_t file[1 << 20];
static size_t n_file;
static struct jit_name names[8];

static void put(const void *p, size_t n)
{
    assert_true(n <= sizeof file - n_file);
    memcpy(file + n_file, p, n);
    n_file += n;
}

static void put_u32(uint32_t v)
{
    put(&v, sizeof v);
}

static void put_u64(uint64_t v)
{
    put(&v, sizeof v);
}

static void put_text(const char *text)
{
    put(text, strlen(text) + 1);
}

static int set_up(void **state)
{
    memset(names, 0, sizeof names);
    n_file = 0;
    put_u32(0x4A695444);
    put_u32(1);
    put_u32(40);
    put_u32(62);
    put_u32(0);
    put_u32(123);
    put_u64(1);
    put_u64(0);
    return make_arena(state);
}

static void put_head(uint32_t kind, size_t size)
{
    put_u32(kind);
    put_u32((uint32_t)(16 + size));
    put_u64(5);
}

static void put_load(uint64_t address, uint64_t size, uint64_t index, const char *name)
{
    uint8_t code[64] = {0x90};
    put_head(LOAD, 40 + strlen(name) + 1 + sizeof code);
    put_u32(123);
    put_u32(124);
    put_u64(address);
    put_u64(address);
    put_u64(size);
    put_u64(index);
    put_text(name);
    put(code, sizeof code);
}

static void put_move(uint64_t from, uint64_t to, uint64_t size, uint64_t index)
{
    put_head(MOVE, 48);
    put_u32(123);
    put_u32(124);
    put_u64(to);
    put_u64(from);
    put_u64(to);
    put_u64(size);
    put_u64(index);
}

static void put_line(uint64_t address, uint32_t line, const char *name)
{
    put_u64(address);
    put_u32(line);
    put_u32(0);
    put_text(name);
}

static size_t read_file(void *ctx, uint64_t offset, void *to, size_t n)
{
    if (offset >= n_file)
        return 0;
    n = n < n_file - offset ? n : n_file - (size_t)offset;
    memcpy(to, file + offset, n);
    return n;
}

static bool read_names(size_t n)
{
    return jitdump_read(read_file, NULL, names, n, arena);
}

static void assert_name(size_t i, const char *name, const char *source, uint32_t line)
{
    assert_int_equal(names[i].name.n, strlen(name));
    assert_memory_equal(names[i].name.p ? names[i].name.p : "", name, strlen(name));
    assert_int_equal(names[i].file.n, strlen(source));
    assert_memory_equal(names[i].file.p ? names[i].file.p : "", source, strlen(source));
    assert_int_equal(names[i].line, line);
}

static void names_by_address(void **state)
{
    put_load(0x1000, 0x10, 0, "first");
    put_head(UNWINDING, 24);
    put_u64(0);
    put_u64(0);
    put_u64(0);
    put_head(DEBUG_INFO, 16 + 3 * 16 + strlen("a.js") + 1 + 2 + strlen("b.js") + 1);
    put_u64(0x2000);
    put_u64(3);
    put_line(0x2000, 7, "a.js");
    put_line(0x2008, 8, "\xff");
    put_line(0x2010, 9, "b.js");
    put_load(0x2000, 0x20, 1, "second");
    put_load(0x1008, 1, 2, "replaced");
    put_head(99, 8);
    put_u64(0);
    static const uint64_t at[] = {0xfff, 0x1000, 0x1008, 0x2000, 0x200f, 0x201f, 0x2020};
    for (size_t i = 0; i < 7; i++)
        names[i].address = at[i];
    assert_true(read_names(7));
    assert_name(0, "", "", 0);
    assert_name(1, "first", "", 0);
    assert_name(2, "replaced", "", 0);
    assert_name(3, "second", "a.js", 7);
    assert_name(4, "second", "a.js", 8);
    assert_name(5, "second", "b.js", 9);
    assert_name(6, "", "", 0);
}

// Lines belong to the code that is loaded next, and to nothing else.
static void lines_of_other_code(void **state)
{
    put_load(0x1000, 0x100, 0, "first");
    put_head(DEBUG_INFO, 16 + 16 + 5);
    put_u64(0x1010);
    put_u64(1);
    put_line(0x1010, 7, "a.js");
    put_load(0x3000, 0x10, 1, "second");
    names[0].address = 0x1020;
    names[1].address = 0x3000;
    assert_true(read_names(2));
    assert_name(0, "first", "", 0);
    assert_name(1, "second", "", 0);
}

static void code_that_moves(void **state)
{
    put_load(0x1000, 0x10, 4, "mover");
    put_load(0x5000, 0x10, 5, "stays");
    put_move(0x1000, 0x2000, 0x10, 4);
    put_move(0x2000, 0x3000, 0x10, 4);
    put_move(0x9000, 0x4000, 0x10, 77); // was never loaded
    names[0].address = 0x1001;
    names[1].address = 0x2002;
    names[2].address = 0x3003;
    names[3].address = 0x4000;
    names[4].address = 0x5000;
    assert_true(read_names(5));
    assert_name(0, "mover", "", 0);
    assert_name(1, "mover", "", 0);
    assert_name(2, "mover", "", 0);
    assert_name(3, "", "", 0);
    assert_name(4, "stays", "", 0);
}

static void long_names_are_cut(void **state)
{
    char text[5000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    put_load(0x1000, 0x10, 0, text);
    put_head(DEBUG_INFO, 16 + 2 * 16 + sizeof text + 2);
    put_u64(0x2000);
    put_u64(2);
    put_line(0x2000, 1, text);
    put_line(0x2001, 2, "b");
    put_load(0x2000, 0x10, 1, "next");
    names[0].address = 0x1000;
    names[1].address = 0x2000;
    names[2].address = 0x2001;
    assert_true(read_names(3));
    assert_int_equal(names[0].name.n, JIT_NAME_MAX);
    assert_int_equal(names[1].file.n, JIT_NAME_MAX);
    assert_name(2, "next", "b", 2);
}

// A file that is being written ends anywhere; what came before counts.
static void files_cut_short(void **state)
{
    put_load(0x1000, 0x10, 0, "first");
    size_t whole = n_file;
    put_head(DEBUG_INFO, 16 + 16 + 5);
    put_u64(0x2000);
    put_u64(1000);
    put_line(0x2000, 7, "a.js");
    put_load(0x2000, 0x10, 1, "second");
    put_move(0x2000, 0x1000, 0x10, 1);
    for (size_t all = n_file; n_file > 0; n_file--) {
        memset(names, 0, sizeof names);
        names[0].address = 0x1000;
        names[1].address = 0x2000;
        assert_true(read_names(2) == (n_file >= 40));
        if (n_file >= whole && n_file < all)
            assert_name(0, "first", "", 0);
        if (n_file == all)
            assert_name(0, "second", "", 0);
    }
}

static void other_files(void **state)
{
    file[0] ^= 1;
    assert_false(read_names(1));
    file[0] ^= 1;
    file[4] = 2; // a later version
    assert_false(read_names(1));
    file[4] = 1;
    file[8] = 39;
    assert_false(read_names(1));
    file[8] = 40;
    put_u32(LOAD);
    put_u32(3); // shorter than its head
    put_u64(0);
    assert_true(read_names(1));
}

// The same address again and again, and lines of code that nobody asks for.
static void memory_for_the_last_names_only(void **state)
{
    enum { RECORDS = 3000 };
    char name[64], source[64];
    names[0].address = 0x1008;
    for (int i = 0; i < RECORDS; i++) {
        uint64_t address = i % 2 ? 0x1000 : 0x100000;
        snprintf(name, sizeof name, "function %d, which was compiled again", i);
        snprintf(source, sizeof source, "a file with the number %d.js", i);
        put_head(DEBUG_INFO, 16 + 16 + strlen(source) + 1);
        put_u64(address);
        put_u64(1);
        put_line(address, (uint32_t)i, source);
        put_load(address, 0x10, (uint64_t)i, name);
    }
    // As much as a file with two of them needs.
    struct arena *other = arena_new(0);
    struct jit_name one = {.address = 0x1008};
    size_t all = n_file;
    n_file = 40 + (all - 40) / (RECORDS / 2);
    assert_true(jitdump_read(read_file, NULL, &one, 1, other));
    n_file = all;
    assert_true(read_names(1));
    assert_name(0, name, source, RECORDS - 1);
    assert_int_equal(arena_size(arena), arena_size(other));
    arena_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_by_address, set_up, free_arena),
        cmocka_unit_test_setup_teardown(lines_of_other_code, set_up, free_arena),
        cmocka_unit_test_setup_teardown(code_that_moves, set_up, free_arena),
        cmocka_unit_test_setup_teardown(long_names_are_cut, set_up, free_arena),
        cmocka_unit_test_setup_teardown(files_cut_short, set_up, free_arena),
        cmocka_unit_test_setup_teardown(other_files, set_up, free_arena),
        cmocka_unit_test_setup_teardown(memory_for_the_last_names_only, set_up, free_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
