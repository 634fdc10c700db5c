// The reader of the memory map: src/process/maps.c.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "process/maps.h"

struct count {
    size_t n, found;
    uintptr_t last, wanted;
    bool ordered;
    struct process_mapping m;
    char path[512];
};

static bool visit(void *context, const struct process_mapping *m)
{
    struct count *c = context;
    c->n++;
    c->ordered &= m->start >= c->last;
    c->last = m->end;
    if (m->start <= c->wanted && c->wanted < m->end) {
        c->found++;
        c->m = *m;
        snprintf(c->path, sizeof c->path, "%.*s", (int)m->n_path, m->path);
    }
    return true;
}

static struct count look(const void *p, size_t n_buffer)
{
    static char buffer[65536];
    struct count c = {.wanted = (uintptr_t)p, .ordered = true};
    assert_true(process_each_mapping(buffer, n_buffer, visit, &c));
    return c;
}

static void own_mappings(void **state)
{
    char name[] = "a file with spaces XXXXXX";
    int fd = mkstemp(name);
    assert_true(fd >= 0 && ftruncate(fd, 3 * 4096) == 0);
    char *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 2 * 4096);
    char *anonymous = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct count c = look(p, 4096);
    assert_int_equal(c.found, 1);
    assert_true(c.ordered);
    assert_true(c.m.readable && !c.m.writable && !c.m.executable && !c.m.shared);
    assert_int_equal(c.m.offset, 2 * 4096);
    assert_true(c.m.inode != 0);
    assert_non_null(strstr(c.path, name));
    c = look(anonymous, 4096);
    assert_true(c.m.writable && c.m.shared);
    int here = 0;
    c = look(&here, 4096);
    assert_string_equal(c.path, "[stack]");
    assert_true(
        process_mapping_is(&(struct process_mapping){.path = "[stack]x", .n_path = 7}, "[stack]"));
    munmap(p, 4096);
    close(fd);
    unlink(name);
}

static void any_buffer_reads_the_same(void **state)
{
    int here = 0;
    size_t n = look(&here, 65536).n;
    for (size_t size = 512; size < 5000; size += 37) {
        struct count c = look(&here, size);
        assert_int_equal(c.n, n);
        assert_int_equal(c.found, 1);
    }
}

static void long_lines_are_skipped(void **state)
{
    int here = 0;
    struct count c = look(&here, 100); // libraries have longer lines
    assert_int_equal(c.found, 1);
    assert_true(c.ordered);
}

static bool stop(void *context, const struct process_mapping *m)
{
    return ++*(size_t *)context < 3;
}

static void the_visitor_ends_it(void **state)
{
    char buffer[4096];
    size_t n = 0;
    assert_true(process_each_mapping(buffer, sizeof buffer, stop, &n));
    assert_int_equal(n, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_mappings),
        cmocka_unit_test(any_buffer_reads_the_same),
        cmocka_unit_test(long_lines_are_skipped),
        cmocka_unit_test(the_visitor_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
