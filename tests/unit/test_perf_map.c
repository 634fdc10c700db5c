#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "symbol/perf_map.h"
#include "arena_fixture.h"

static struct jit_name names[8];

static int set_up(void **state)
{
    memset(names, 0, sizeof names);
    return make_arena(state);
}

// Reads text in pieces of so many bytes.
static void read_text(const char *text, size_t piece, size_t n)
{
    struct perf_map map;
    perf_map_begin(&map, names, n, arena);
    for (size_t at = 0, all = strlen(text); at < all; at += piece)
        perf_map_feed(&map, (const uint8_t *)text + at, all - at < piece ? all - at : piece);
    perf_map_end(&map);
}

static void assert_name(size_t i, const char *name)
{
    assert_int_equal(names[i].name.n, strlen(name));
    assert_memory_equal(names[i].name.p ? names[i].name.p : "", name, strlen(name));
}

static void names_by_address(void **state)
{
    static const char text[] = "1000 10 first\n"
                               "0x2000 0x20 Second::method(int) [jit]\r\n"
                               "not a line\n"
                               "\n"
                               "3000 0 empty\n"
                               "1008 1 replaced\n"
                               "ffffffffffffff00 ff last, no newline";
    for (size_t piece = 1; piece < 40; piece += 6) {
        memset(names, 0, sizeof names);
        names[0].address = 0xfff;
        names[1].address = 0x1000;
        names[2].address = 0x1008;
        names[3].address = 0x100f;
        names[4].address = 0x1010;
        names[5].address = 0x201f;
        names[6].address = 0x3000;
        names[7].address = UINT64_MAX - 1;
        read_text(text, piece, 8);
        assert_name(0, "");
        assert_name(1, "first");
        assert_name(2, "replaced");
        assert_name(3, "first");
        assert_name(4, "");
        assert_name(5, "Second::method(int) [jit]");
        assert_name(6, "");
        assert_name(7, "last, no newline");
    }
}

static void long_names_are_cut(void **state)
{
    size_t n = 100000;
    char *text = malloc(n + 1);
    memset(text, 'x', n);
    text[n] = '\0';
    memcpy(text, "10 10 ", 6);
    memcpy(text + n - 10, "\n20 1 next", 10);
    names[0].address = 0x10;
    names[1].address = 0x20;
    read_text(text, 4096, 2);
    free(text);
    assert_in_range(names[0].name.n, JIT_NAME_MAX, JIT_NAME_MAX + 64);
    assert_name(1, "next");
}

// Code is discarded and generated again at the same address, with new names each time.
static void memory_for_the_last_names_only(void **state)
{
    struct perf_map map;
    char line[128];
    names[0].address = 0x1000;
    names[1].address = 0x1800;
    perf_map_begin(&map, names, 2, arena);
    for (int i = 0; i < 100000; i++) {
        int n = snprintf(line, sizeof line, "1000 1000 trace number %d of a compiler\n", i);
        perf_map_feed(&map, (const uint8_t *)line, (size_t)n);
    }
    perf_map_end(&map);
    assert_name(0, "trace number 99999 of a compiler");
    assert_name(1, "trace number 99999 of a compiler");
    assert_true(arena_size(arena) < 1 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_by_address, set_up, free_arena),
        cmocka_unit_test_setup_teardown(long_names_are_cut, set_up, free_arena),
        cmocka_unit_test_setup_teardown(memory_for_the_last_names_only, set_up, free_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
