// The symbolizer on this very program, and on a profile of it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "model/builder.h"
#include "symbol/addr2line.h"
#include "symbol/symbol_profile.h"

__attribute__((noinline, noclone)) int known_function(int x)
{
    __asm__ volatile("" : "+r"(x));
    return x + 1;
}

static char self[4096];

// Where this program is mapped: the segment with addr.
static bool find_mapping(uintptr_t addr, uint64_t *start, uint64_t *limit, uint64_t *offset)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char *line = NULL;
    size_t cap = 0;
    bool found = false;
    while (!found && getline(&line, &cap, maps) > 0) {
        char *p = line;
        *start = strtoull(p, &p, 16);
        *limit = strtoull(p + 1, &p, 16);
        *offset = strtoull(p + 6, &p, 16);
        found = addr >= *start && addr < *limit;
    }
    free(line);
    fclose(maps);
    return found;
}

static uint64_t known_vaddr(struct symbol_file *file)
{
    uint64_t start, limit, offset, vaddr;
    struct err e;
    uintptr_t addr = (uintptr_t)known_function;
    assert_true(find_mapping(addr, &start, &limit, &offset));
    struct elf_mapping mapping = {.start = start, .limit = limit, .offset = offset};
    assert_int_equal(elf_vaddr(symbol_elf(file), &mapping, addr, &vaddr, &e), 0);
    return vaddr;
}

static void it_knows_itself(void **state)
{
    struct err e;
    struct symbol_file *file = symbol_open(self, NULL, &e);
    assert_non_null(file);
    struct symbol_frame f[SYMBOL_FRAMES_MAX];
    assert_int_equal(symbol_lookup(file, known_vaddr(file), f, SYMBOL_FRAMES_MAX), 1);
    assert_string_equal(f[0].name, "known_function");
    assert_ptr_equal(f[0].shown, f[0].name);
    assert_false(f[0].is_inlined);
    if (symbol_debug_path(file)) {
        assert_non_null(strstr(f[0].file, "test_symbol.c"));
        assert_true(f[0].line > 0);
    }
    assert_int_equal(symbol_lookup(file, UINT64_MAX - 5, f, SYMBOL_FRAMES_MAX), 0);
    assert_int_equal(symbol_lookup(file, known_vaddr(file), f, 0), 0);
    symbol_release(file);
    assert_int_equal(symbol_lookup(file, known_vaddr(file), f, SYMBOL_FRAMES_MAX), 1);
    symbol_free(file);
    symbol_free(NULL);
    assert_null(symbol_open("/nonexistent", NULL, &e));
}

// The answers are the same from a mapped file and from one that is read piece by piece.
static void views_answer_as_maps_do(void **state)
{
    struct err e;
    struct symbol_options own = {.own_process = true};
    struct symbol_file *files[] = {symbol_open(self, NULL, &e), symbol_open(self, &own, &e)};
    size_t n;
    uint64_t *at = symbol_boundaries(files[1], &n);
    for (size_t i = 0; i < n; i++) {
        struct symbol_frame f[2][SYMBOL_FRAMES_MAX];
        int found[2];
        for (int k = 0; k < 2; k++)
            found[k] = symbol_lookup(files[k], at[i], f[k], SYMBOL_FRAMES_MAX);
        assert_int_equal(found[0], found[1]);
        for (int k = 0; k < found[0]; k++) {
            assert_int_equal(f[0][k].line, f[1][k].line);
            assert_int_equal(!f[0][k].file, !f[1][k].file);
            if (f[0][k].file)
                assert_string_equal(f[0][k].file, f[1][k].file);
            assert_int_equal(!f[0][k].name, !f[1][k].name);
            if (f[0][k].name)
                assert_string_equal(f[0][k].name, f[1][k].name);
        }
    }
    free(at);
    symbol_free(files[0]);
    symbol_free(files[1]);
}

struct seen {
    size_t n, most, order[3];
    bool named[3];
};

static bool each(void *ctx, size_t i, const struct symbol_frame *frames, int n)
{
    struct seen *s = ctx;
    s->named[i] = n == 1 && frames[0].name && strcmp(frames[0].name, "known_function") == 0;
    s->order[s->n++] = i;
    return s->n < s->most;
}

static void many_are_asked_in_order(void **state)
{
    struct err e;
    struct symbol_file *file = symbol_open(self, NULL, &e);
    uint64_t at = known_vaddr(file), addrs[] = {UINT64_MAX, at, 1};
    struct seen s = {.most = 3}, first = {.most = 1};
    assert_int_equal(symbol_lookup_many(file, addrs, 3, each, &first, &e), 0);
    assert_int_equal(first.n, 1); // it wanted no more
    assert_int_equal(symbol_lookup_many(file, addrs, 3, each, &s, &e), 0);
    assert_int_equal(s.n, 3);
    assert_int_equal(s.order[0], 2);
    assert_int_equal(s.order[2], 0);
    assert_true(s.named[1]);
    assert_false(s.named[0]);
    symbol_free(file);
}

static void it_answers_as_addr2line(void **state)
{
    struct err e;
    struct symbol_options options = {.symbols_only = true, .no_debug_files = true};
    struct symbol_file *file = symbol_open(self, &options, &e);
    struct addr2line_options all = {.addresses = true, .functions = true, .inlines = true};
    struct out out;
    out_init_memory(&out, 1 << 16);
    char address[32];
    snprintf(address, sizeof address, "%llx\n", (unsigned long long)known_vaddr(file));
    addr2line_answer(file, &all, str_from(address), &out);
    addr2line_answer(file, &all, STR("0xfffffffffffffff0"), &out);
    out_char(&out, '\0');
    assert_non_null(strstr(out.p, "\nknown_function\n??:?\n"));
    assert_non_null(strstr(out.p, "0xfffffffffffffff0\n??\n??:0\n"));
    out_fini(&out);
    symbol_free(file);
}

struct notes {
    char text[4096];
};

static void take_note(void *ctx, const char *text)
{
    struct notes *n = ctx;
    size_t used = strlen(n->text);
    snprintf(n->text + used, sizeof n->text - used, "%s", text);
}

static struct model_profile *bare_profile(struct arena *arena, const char *file, const char *id)
{
    struct model_builder b;
    model_build(&b, arena);
    model_build_type(&b, STR("cpu"), STR("nanoseconds"));
    struct model_mapping m = {0};
    assert_true(find_mapping((uintptr_t)known_function, &m.start, &m.limit, &m.offset));
    m.file = model_build_string(&b, str_from(file));
    m.build_id = model_build_string(&b, str_from(id));
    uint32_t mapping = model_build_mapping(&b, m);
    uint32_t l = model_build_location(&b, mapping, (uintptr_t)known_function, NULL, 0);
    int64_t value = 1;
    model_build_sample(&b, &l, 1, &value);
    return b.p;
}

static void a_profile_gets_names(void **state)
{
    struct arena *arena = arena_new(0);
    struct notes notes = {""};
    struct symbol_profile_options o = {
        .binary_path = "/nonexistent", .note = take_note, .note_ctx = &notes};
    struct err e;
    struct model_profile *p = bare_profile(arena, self, "");
    struct model_profile *q = symbol_symbolize(p, &o, arena, &e);
    assert_non_null(q);
    assert_string_equal(notes.text, "");
    assert_true(q->mappings[0].has_functions && q->mappings[0].has_inline_frames);
    assert_int_equal(q->locations[0].n_lines, 1);
    const struct model_function *f = &q->functions[q->lines[q->locations[0].first_line].function];
    assert_true(str_eq(model_str(q, f->name), STR("known_function")));
    assert_int_equal(f->system_name, f->name);
    // The one that it came from is as it was.
    assert_int_equal(p->locations[0].n_lines, 0);
    assert_false(p->mappings[0].has_functions);
    // What has names is left alone.
    assert_ptr_not_equal(q, symbol_symbolize(q, &o, arena, &e));
    assert_int_equal(model_check(q, &e), 0);
    arena_free(arena);
}

static void what_is_missing_is_told(void **state)
{
    struct arena *arena = arena_new(0);
    struct notes notes = {""};
    struct symbol_profile_options o = {
        .binary_path = "/nonexistent", .note = take_note, .note_ctx = &notes};
    struct err e;
    struct model_profile *q =
        symbol_symbolize(bare_profile(arena, "/no/such/binary", ""), &o, arena, &e);
    assert_int_equal(q->locations[0].n_lines, 0);
    assert_non_null(strstr(notes.text, "Local symbolization failed for binary: stat /no/such/binary"
                                       ": no such file or directory"));
    assert_non_null(strstr(notes.text, "PPROF_BINARY_PATH"));
    notes.text[0] = '\0';
    symbol_symbolize(bare_profile(arena, "[vdso]", ""), &o, arena, &e);
    assert_string_equal(notes.text, "");
    char id[2 * ELF_BUILD_ID_MAX + 1];
    struct elf *elf = elf_open(self, 0, &e);
    if (elf_build_id_text(elf, id)) {
        symbol_symbolize(bare_profile(arena, self, "abcdef"), &o, arena, &e);
        assert_non_null(strstr(notes.text, "build ID mismatch"));
    }
    elf_free(elf);
    arena_free(arena);
}

static void binaries_are_searched_for(void **state)
{
    struct arena *arena = arena_new(0);
    struct err e;
    char directory[4200];
    snprintf(directory, sizeof directory, "/nonexistent:%s", self);
    *strrchr(directory, '/') = '\0';
    char moved[4200];
    snprintf(moved, sizeof moved, "/elsewhere/%s", strrchr(self, '/') + 1);
    struct symbol_profile_options o = {.binary_path = directory};
    struct model_profile *q = symbol_locate(bare_profile(arena, moved, ""), &o, arena, &e);
    assert_true(str_ends(model_str(q, q->mappings[0].file), str_from(strrchr(self, '/'))));
    assert_false(str_starts(model_str(q, q->mappings[0].file), STR("/elsewhere")));
    o.executable = "/given";
    q = symbol_locate(bare_profile(arena, moved, ""), &o, arena, &e);
    assert_true(str_eq(model_str(q, q->mappings[0].file), STR("/given")));
    arena_free(arena);
}

static void running_out_of_memory_is_an_error(void **state)
{
    struct symbol_profile_options o = {.binary_path = "/nonexistent"};
    struct err e;
    struct arena *source = arena_new(0);
    struct model_profile *p = bare_profile(source, self, "");
    bool failed = false;
    for (size_t limit = 1 << 10; limit < 1 << 22; limit *= 2) {
        struct arena *arena = arena_new(limit);
        failed |= arena && symbol_symbolize(p, &o, arena, &e) == NULL;
        arena_free(arena);
    }
    (void)failed;
    arena_free(source);
}

static void names_only(void **state)
{
    struct arena *arena = arena_new(0);
    struct model_builder b;
    struct err e;
    model_build(&b, arena);
    model_build_type(&b, STR("cpu"), STR("nanoseconds"));
    uint32_t mangled = model_build_string(&b, STR("_ZN3foo3bar17h05af221e174051e9E"));
    uint32_t shown = model_build_string(&b, STR("kept"));
    model_build_function(&b, mangled, mangled, 0, 0);
    model_build_function(&b, shown, mangled, 0, 0);
    struct model_profile *q = symbol_demangle(b.p, DEMANGLE_DEFAULT, false, NULL, arena, &e);
    assert_true(str_eq(model_str(q, q->functions[0].name), STR("foo::bar")));
    assert_true(str_eq(model_str(q, q->functions[1].name), STR("kept")));
    assert_int_equal(q->functions[0].system_name, mangled);
    q = symbol_demangle(b.p, DEMANGLE_DEFAULT, true, NULL, arena, &e);
    assert_true(str_eq(model_str(q, q->functions[1].name), STR("foo::bar")));
    q = symbol_demangle(q, DEMANGLE_NONE, true, NULL, arena, &e);
    assert_int_equal(q->functions[0].name, mangled);
    arena_free(arena);
}

int main(void)
{
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return 1;
    self[n] = '\0';
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_knows_itself),
        cmocka_unit_test(views_answer_as_maps_do),
        cmocka_unit_test(many_are_asked_in_order),
        cmocka_unit_test(it_answers_as_addr2line),
        cmocka_unit_test(a_profile_gets_names),
        cmocka_unit_test(what_is_missing_is_told),
        cmocka_unit_test(binaries_are_searched_for),
        cmocka_unit_test(running_out_of_memory_is_an_error),
        cmocka_unit_test(names_only),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
