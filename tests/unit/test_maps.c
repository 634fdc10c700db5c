#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "codec/maps.h"
#include "raw.h"

static void entry_is(const char *line, const char *start, const char *limit, const char *perm,
                     const char *offset, const char *file, const char *build_id)
{
    struct maps_entry e;
    assert_true(maps_parse(str_from(line), &e));
    const struct str got[] = {e.start, e.limit, e.perm, e.offset, e.file, e.build_id};
    const char *want[] = {start, limit, perm, offset, file, build_id};
    for (int i = 0; i < 6; i++)
        if (!str_eq(got[i], str_from(want[i])))
            fail_msg("%s: field %d is `%.*s`, not `%s`", line, i, (int)got[i].n, got[i].p, want[i]);
}

static void proc_lines(void **state)
{
    entry_is("00400000-0040b000 r-xp 00001000 fd:01 41038 /usr/bin/cat", "00400000", "0040b000",
             "r-xp", "00001000", "/usr/bin/cat", "");
    entry_is("  7f00-0x8000: r-xp 00000000 00:00 0", "7f00", "8000", "r-xp", "00000000", "", "");
    entry_is("1-2 08:01 5 /x (deleted)", "1", "2", "", "", "/x", "");
    entry_is("1-2 r-xp 08:01 5x /x", "1", "2", "r-xp", "", "", "");
}

static void brief_lines(void **state)
{
    entry_is("40000-50000: /bin/x (@ff00) abc123", "40000", "50000", "", "ff00", "/bin/x",
             "abc123");
    entry_is("0x40000 0x50000 /bin/x abc", "40000", "50000", "", "", "/bin/x", "abc");
    // p and r are permissions wherever they stand.
    entry_is("1-2 prog", "1", "2", "pr", "", "", "");
}

// With no separator, the last digit is the limit.
static void one_number_is_two(void **state)
{
    entry_is("deadbeef", "deadbee", "f", "", "", "", "");
    entry_is("400000 r-xp 0 08:01 5 /x", "40000", "0", "r-xp", "0", "/x", "");
    entry_is("4000x5000", "400", "5000", "", "", "", "");
    entry_is("12-0xyz", "12", "0", "", "", "", "");
    struct maps_entry e;
    assert_false(maps_parse(STR("a"), &e));
    assert_false(maps_parse(STR("0x"), &e));
    assert_false(maps_parse(STR("bin=/usr"), &e));
    assert_false(maps_parse(STR(""), &e));
}

// Attributes, log prefixes, split mappings, the main binary in front.
static void a_whole_map(void **state)
{
    RAW_COMPARE(codec_read_legacy,
                "heap profile: 1: 1 [1: 1] @ heapprofile\n"
                "1: 1 [1: 1] @ 0x400101 0x40030001 0x40040001 0x500001 0xdeadb001 0x9000\n"
                "--- Memory map: ---\n"
                "build=/opt/x\n"
                "lib = $build/lib\n"
                "I0101 12:00:00.0 1 a.cc:12] 40020000-40035000: $lib/$y/libfoo.so (@1000) abcdef\n"
                "40036000 0x40050000 $build/prog\n"
                "400000-500000 r-xp 00000000 08:01 12 /bin/first\n"
                "500000-600000 r-xp 00100000 08:01 12 /bin/first\n"
                "deadbeef\n",
                "space/bytes 1, 0 ns\n"
                "objects/count space/bytes\n"
                "1 1: 1 2 3 4 5 6 | bytes=1\n"
                "Locations\n"
                "1: 0x400100 M=3\n"
                "2: 0x40030000 M=2\n"
                "3: 0x40040000 M=1\n"
                "4: 0x500000 M=3\n"
                "5: 0xdeadb000 M=5\n"
                "6: 0x8fff M=5\n"
                "Mappings\n"
                "1: 0x40036000/0x40050000/0x0 /opt/x/prog \n"
                "2: 0x40020000/0x40035000/0x1000 /opt/x/lib/$y/libfoo.so abcdef\n"
                "3: 0x400000/0x600000/0x0 /bin/first \n"
                "4: 0xdeadbee/0xf/0x0  \n"
                "5: 0x0/0xffffffffffffffff/0x0  \n");
}

// Each attribute holds two of the one before: forty lines ask for a terabyte.
static void attributes_cannot_explode(void **state)
{
    struct out out;
    out_init_memory(&out, 1 << 20);
    out_text(&out, "--- mutex:\n--- Memory map: ---\nz00=xxxxxxxx\n");
    for (int i = 1; i < 40; i++)
        out_printf(&out, "z%02d=$z%02d$z%02d\n", i, i - 1, i - 1);
    raw_refused(codec_read_legacy, out.p, out.n, "expand to too much text");
    out_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proc_lines),
        cmocka_unit_test(brief_lines),
        cmocka_unit_test(one_number_is_two),
        cmocka_unit_test(a_whole_map),
        cmocka_unit_test(attributes_cannot_explode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
