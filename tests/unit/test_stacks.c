#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "codec/stacks.h"
#include "raw.h"

#define READER(name, format)                                                              \
    static struct model_profile *name(struct arena *arena, const uint8_t *data, size_t n, \
                                      struct err *e)                                      \
    {                                                                                     \
        return stacks_read(arena, format, data, n, e);                                    \
    }
READER(groups, STACKS_GROUPS)
READER(lines, STACKS_LINES)

static const char wanted[] = "/ 0, 0 ns\nsamples/count\n2: 1 2\n5: 3 2\nLocations\n"
                             "1: 0x0 a :0:0\n2: 0x0 main :0:0\n3: 0x0 c :0:0\nMappings\n";

static void counted_lines(void **state)
{
    RAW_COMPARE(groups, "main;a 2\r\nnoblank\nmain;;c +5\nmain;zero 0\n", wanted);
    RAW_REFUSED(groups, "a 1\nb c\n", "line 2");
    RAW_REFUSED(groups, "a -1\n", "line 1");
}

static void bare_lines(void **state)
{
    RAW_COMPARE(lines, "main\n\n",
                "/ 0, 0 ns\nsamples/count\n1: 1\nLocations\n"
                "1: 0x0 main :0:0\nMappings\n");
}

static size_t read_bytes(enum stacks_format format, const char *bytes, size_t n, struct err *e)
{
    struct arena *arena = arena_new(0);
    struct model_profile *p = stacks_read(arena, format, (const uint8_t *)bytes, n, e);
    size_t samples = p ? p->n_samples : SIZE_MAX;
    arena_free(arena);
    return samples;
}

static void trees_and_tries(void **state)
{
    static const char tree[] = "\0\0\1\4main\0\2\1a\2\0\1c\5\0";
    static const char trie[] = "\0\0\1\5main;\0\2\1a\2\0\1c\5\0";
    struct err e = {""};
    assert_int_equal(read_bytes(STACKS_TREE, tree, sizeof tree - 1, &e), 2);
    assert_int_equal(read_bytes(STACKS_TRIE, trie, sizeof trie - 1, &e), 2);
    for (size_t n = 1; n < sizeof tree - 1; n++)
        assert_int_equal(read_bytes(STACKS_TREE, tree, n, &e), SIZE_MAX);
    assert_int_equal(read_bytes(STACKS_TREE, "\xff\xff\xff\xff", 4, &e), SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counted_lines),
        cmocka_unit_test(bare_lines),
        cmocka_unit_test(trees_and_tries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
