// Names that are kept: files are not opened again, and what takes the place of another is told
// apart from it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/names/names.h"
#include "agent/names/names_cache.h"
#include "agent/names/names_files.h"
#include "model/builder.h"

enum { MEMORY = 64 << 20 };

static const uint64_t start = UINT64_C(0x10000000), limit = UINT64_C(0x20000000);

struct library {
    const char *path, *function;
    uint64_t at; // of the function in the file
    char build_id[2 * ELF_BUILD_ID_MAX + 1];
};

static struct library one = {LIBRARY_ONE, "named_one", 0, ""},
                      two = {LIBRARY_TWO, "named_two", 0, ""};
static char folder[] = "/tmp/kiln-names-XXXXXX", path[64], away[64];

static void look_at(struct library *l)
{
    struct err e;
    Dl_info info;
    void *handle = dlopen(l->path, RTLD_NOW);
    assert_non_null(handle);
    void *symbol = dlsym(handle, l->function);
    assert_true(symbol && dladdr(symbol, &info));
    l->at = (uint64_t)((char *)symbol - (char *)info.dli_fbase);
    dlclose(handle);
    struct elf *elf = elf_open(l->path, ELF_IN_HOST, &e);
    assert_non_null(elf);
    l->build_id[elf_build_id_text(elf, l->build_id)] = '\0';
    assert_true(l->build_id[0] != '\0');
    elf_free(elf);
}

static void install(const struct library *l)
{
    char buffer[65536];
    ssize_t n;
    int from = open(l->path, O_RDONLY), to = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    assert_true(from >= 0 && to >= 0);
    while ((n = read(from, buffer, sizeof buffer)) > 0)
        assert_int_equal(write(to, buffer, (size_t)n), n);
    close(from);
    close(to);
}

static int set_up(void **state)
{
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/library.so", folder);
    snprintf(away, sizeof away, "%s/away.so", folder);
    look_at(&one);
    look_at(&two);
    return 0;
}

static int tear_down(void **state)
{
    unlink(path);
    unlink(away);
    return rmdir(folder);
}

// What the names are of n addresses from one on that begins the function of l, mapped at start +
// shift.
static struct model_profile *name(const struct library *l, bool build_id, uint64_t shift,
                                  uint64_t from, uint32_t n, struct arena *arena)
{
    struct model_builder b;
    struct err e;
    int64_t value = 1;
    model_build(&b, arena);
    model_build_type(&b, STR("cpu"), STR("nanoseconds"));
    uint32_t m = model_build_mapping(
        &b, (struct model_mapping){
                .start = start + shift,
                .limit = limit + shift,
                .file = model_build_string(&b, str_from(path)),
                .build_id = build_id ? model_build_string(&b, str_from(l->build_id)) : 0});
    for (uint32_t i = 0; i < n; i++) {
        uint32_t frame = model_build_location(&b, m, start + shift + l->at + from + i, NULL, 0);
        model_build_sample(&b, &frame, 1, &value);
    }
    struct model_profile *q = names_fill(b.p, MEMORY, arena, &e);
    assert_non_null(q);
    return q;
}

static void expect_at(const struct library *l, bool build_id, uint64_t shift, uint64_t from,
                      const char *want)
{
    struct arena *arena = arena_new(0);
    struct model_profile *q = name(l, build_id, shift, from, 1, arena);
    const struct model_location *at = &q->locations[0];
    if (!want) {
        assert_int_equal(at->n_lines, 0);
    } else {
        assert_int_equal(at->n_lines, 1);
        const struct model_line *line = &q->lines[at->first_line];
        struct str name = model_str(q, q->functions[line->function].name),
                   file = model_str(q, q->functions[line->function].filename);
        assert_true(str_eq(name, str_from(want)));
        assert_true(str_ends(file, STR("named.c")));
        assert_true(line->line > 3 && q->functions[line->function].start_line > 0);
        assert_true(q->mappings[0].has_functions && q->mappings[0].has_filenames &&
                    q->mappings[0].has_line_numbers);
    }
    arena_free(arena);
}

static void files_are_opened_once(void **state)
{
    install(&one);
    expect_at(&one, true, 0, 0, "named_one");
    assert_true(names_cache_memory() > 0);
    assert_int_equal(rename(path, away), 0);
    expect_at(&one, true, 0, 0, "named_one");
    // The file is needed for others.
    expect_at(&one, true, 0, 4, NULL);
    // That they are unknown is known as well.
    assert_int_equal(rename(away, path), 0);
    expect_at(&one, true, 0, 4, NULL);
    expect_at(&one, true, 0, 5, "named_one");
    // One function, whether its addresses are known or not.
    struct arena *arena = arena_new(0);
    assert_int_equal(name(&one, true, 0, 5, 8, arena)->n_functions, 1);
    arena_free(arena);
}

static void places_are_told_apart(void **state)
{
    install(&one);
    expect_at(&one, true, 0, 0, "named_one");
    assert_true(names_files_memory() > 0);
    install(&two);
    // The file that was kept is not that any more.
    expect_at(&one, true, 0, 14, NULL);
    // Another file at the same address, by its build id; the first one again; and elsewhere.
    expect_at(&two, true, 0, 0, "named_two");
    expect_at(&one, true, 0, 0, "named_one");
    expect_at(&two, true, 0x1000000, 0, "named_two");
    expect_at(&one, true, 0x1000000, 0, NULL);
}

static void files_without_build_id(void **state)
{
    install(&one);
    expect_at(&one, false, 0, 1, "named_one");
    expect_at(&one, false, 0, 1, "named_one");
    unlink(path);
    expect_at(&one, false, 0, 1, NULL);
    install(&two);
    expect_at(&two, false, 0, 1, "named_two");
}

static void children_know(void **state)
{
    install(&one);
    expect_at(&one, true, 0, 0, "named_one");
    unlink(path);
    pid_t child = fork();
    if (child == 0) {
        names_after_fork_in_child();
        expect_at(&one, true, 0, 0, "named_one");
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    expect_at(&one, true, 0, 0, "named_one");
}

static void memory_is_bounded(void **state)
{
    enum { MANY = 100000 };
    install(&one);
    for (uint64_t shift = 0; shift < 8; shift++) {
        struct arena *arena = arena_new(0);
        struct model_profile *q = name(&one, true, shift << 32, 0, MANY, arena);
        assert_int_equal(q->locations[0].n_lines, 1);
        assert_true(names_cache_memory() > 0 &&
                    names_cache_memory() <= NAMES_CACHE_BYTES + NAMES_FILES_BYTES);
        arena_free(arena);
    }
    unlink(path);
    // Where it was full, the last one stays.
    expect_at(&one, true, UINT64_C(7) << 32, 0, "named_one");
    expect_at(&one, true, 0, 0, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_opened_once),  cmocka_unit_test(places_are_told_apart),
        cmocka_unit_test(files_without_build_id), cmocka_unit_test(children_know),
        cmocka_unit_test(memory_is_bounded),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
