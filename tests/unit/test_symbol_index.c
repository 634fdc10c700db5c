// The prepared index of this very program answers as the program's own symbols do.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "symbol/symbol_index.h"
#include "symbol/symbol_index_format.h"

static char self[4096];

static bool same_text(const char *a, const char *b)
{
    return (!a && !b) || (a && b && strcmp(a, b) == 0);
}

static void write_self(struct symbol_file *file, struct out *out)
{
    struct err e;
    out_init_memory(out, 64 << 20);
    assert_int_equal(symbol_index_write(file, out, &e), 0);
    assert_int_equal(out->error, 0);
}

static void answers_are_the_same(void **state)
{
    struct err e;
    struct out out;
    struct symbol_file *file = symbol_open(self, NULL, &e);
    write_self(file, &out);
    struct symbol_index *index =
        symbol_index_open_bytes((struct bytes){(const uint8_t *)out.p, out.n, NULL}, "made", &e);
    assert_non_null(index);
    uint8_t id[ELF_BUILD_ID_MAX];
    assert_int_equal(symbol_index_build_id(index).n, elf_build_id(symbol_elf(file), id));
    const struct elf_section *text = elf_find(symbol_elf(file), ".text");
    struct symbol_frame a[SYMBOL_FRAMES_MAX], b[SYMBOL_FRAMES_MAX];
    // A hundred thousand of them, also where a sanitizer's run-time is part of the program.
    for (uint64_t at = text->addr; at < text->addr + text->size; at += 3 + text->size / 100000) {
        int n = symbol_lookup(file, at, a, SYMBOL_FRAMES_MAX);
        assert_int_equal(symbol_index_lookup(index, at, b, SYMBOL_FRAMES_MAX), n);
        for (int i = 0; i < n; i++) {
            assert_true(same_text(a[i].name, b[i].name));
            assert_true(same_text(a[i].file, b[i].file));
            assert_int_equal(a[i].line, b[i].line);
            assert_int_equal(a[i].column, b[i].column);
            assert_int_equal(a[i].start_line, b[i].start_line);
            assert_int_equal(a[i].is_inlined, b[i].is_inlined);
        }
    }
    assert_int_equal(symbol_index_lookup(index, 0, b, 1), 0);
    assert_int_equal(symbol_index_lookup(index, UINT64_MAX, b, 1), 0);
    symbol_index_free(index);
    symbol_index_free(NULL);
    symbol_free(file);
    out_fini(&out);
}

static void damage_does_no_harm(void **state)
{
    struct err e;
    struct out out;
    struct symbol_file *file = symbol_open(self, NULL, &e);
    write_self(file, &out);
    const struct elf_section *text = elf_find(symbol_elf(file), ".text");
    struct symbol_frame f[SYMBOL_FRAMES_MAX];
    for (size_t cut = 0; cut < out.n; cut += out.n / 97 + 1) {
        struct bytes part = {(const uint8_t *)out.p, cut, NULL};
        assert_null(symbol_index_open_bytes(part, "cut", &e));
    }
    uint32_t seed = 1;
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 50; i++) {
            seed = seed * 1664525 + 1013904223;
            out.p[sizeof(struct index_header) + seed % (out.n - sizeof(struct index_header))] ^=
                (char)(seed >> 24);
        }
        struct symbol_index *index =
            symbol_index_open_bytes((struct bytes){(const uint8_t *)out.p, out.n, NULL}, "bad", &e);
        assert_non_null(index);
        for (uint64_t at = text->addr; at < text->addr + text->size; at += text->size / 50 + 1)
            assert_true(symbol_index_lookup(index, at, f, 8) <= 8);
        symbol_index_free(index);
    }
    symbol_free(file);
    out_fini(&out);
}

static void what_is_no_index_is_refused(void **state)
{
    struct err e;
    assert_null(symbol_index_open(self, &e));
    assert_non_null(strstr(e.message, "not a symbol index"));
    assert_null(symbol_index_open("/nonexistent", &e));
    struct index_header h = {.version = 99};
    memcpy(h.magic, INDEX_MAGIC, sizeof h.magic);
    assert_null(symbol_index_open_bytes((struct bytes){(uint8_t *)&h, sizeof h, NULL}, "new", &e));
    assert_non_null(strstr(e.message, "version 99"));
}

int main(void)
{
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return 1;
    self[n] = '\0';
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_the_same),
        cmocka_unit_test(damage_does_no_harm),
        cmocka_unit_test(what_is_no_index_is_refused),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
