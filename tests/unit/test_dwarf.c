#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "symbol/dwarf.h"

// One unit by hand: main [0x1000, 0x1100) with `leaf` inlined at [0x1010, 0x1020) into `mid`,
// which is inlined at [0x1010, 0x1040).
static const uint8_t abbrev[] = {
    1, 0x11, 1,    0x1b, 8,    0x10, 0x17, 0x11, 1,    0x12, 7,    0,    0, // compile_unit
    2, 0x2e, 0,    3,    8,    0x3b, 0x0b, 0,    0,                         // subprogram, abstract
    3, 0x2e, 1,    3,    8,    0x6e, 8,    0x11, 1,    0x12, 6,    0,    0, // subprogram with code
    4, 0x1d, 1,    0x31, 0x13, 0x11, 1,    0x12, 6,    0x58, 0x0b, 0x59, 0x0b, 0x57, 0x0b, 0,
    0, 5,    0x1d, 0,    0x31, 0x13, 0x55, 0x17, 0x58, 0x0b, 0x59, 0x0b, 0,    0,    0};

enum { LEAF = 11 + 1 + 5 + 4 + 8 + 8, MID = LEAF + 1 + 5 + 1 };

static const uint8_t unit[] = {0x00, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8, // length (set below), version 4,
                                                                   // abbrev 0, addresses of 8
                               1, '/', 's', 'r', 'c', 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0,
                               2, 0, 0, 0, 0, 0, 0, 2, 'l', 'e', 'a', 'f', 0, 3, // LEAF
                               2, 'm', 'i', 'd', 0, 7,                           // MID
                               3, 'm', 'a', 'i', 'n', 0, '_', 'm', 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0,
                               1, 0, 0, 4, MID, 0, 0, 0, 0x10, 0x10, 0, 0, 0, 0, 0, 0, 0x30, 0, 0,
                               0, 1, 12, 5,                        // mid in main
                               5, LEAF, 0, 0, 0, 0, 0, 0, 0, 2, 8, // leaf in mid
                               0, 0, 0};

static const uint8_t ranges[] = {0x10, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0,
                                 0,    0, 0, 0, 0, 0, 0, 0, 0,    0, 0, 0, 0, 0, 0, 0};

// a.c in /src, h.h in /src/inc; rows 0x1000 a.c:10, 0x1010 h.h:4, 0x1020 h.h:9, 0x1040 a.c:13.
static const uint8_t line[] = {
    0,   0,    0,   0,    4,    0,    0,   0,   0, 0,       // length, version, header (set below)
    1,   1,    1,   0xfb, 14,   13,                         // sizes
    0,   1,    1,   1,    1,    0,    0,   0,   1, 0, 0, 1, // operands
    'i', 'n',  'c', 0,    0,    'a',  '.', 'c', 0, 0, 0, 0, // directories, files
    'h', '.',  'h', 0,    1,    0,    0,   0,               //
    0,   9,    2,   0x00, 0x10, 0,    0,   0,   0, 0, 0, 3,
    9,   5,    3,   1,                   // set_address, line += 9, column 3
    4,   2,    2,   0x10, 3,    0x7a, 1, // file 2, pc += 16, line -= 6
    2,   0x10, 3,   5,    1,             // pc += 16, line += 5
    4,   1,    2,   0x20, 3,    4,    1, // file 1, pc += 32, line += 4
    2,   0xc0, 1,   0,    1,    1};      // pc += 192, end

struct made {
    uint8_t unit[sizeof unit], line[sizeof line];
    struct dwarf_sections s;
};

static void make(struct made *m)
{
    memcpy(m->unit, unit, sizeof unit);
    memcpy(m->line, line, sizeof line);
    m->unit[0] = sizeof unit - 4;
    m->line[0] = sizeof line - 4;
    m->line[6] = 6 + 12 + 12 + 8;
    m->s = (struct dwarf_sections){.info = {m->unit, sizeof unit},
                                   .abbrev = {abbrev, sizeof abbrev},
                                   .line = {m->line, sizeof line},
                                   .ranges = {ranges, sizeof ranges}};
}

static void expect_frame(const struct dwarf_frame *f, const char *name, const char *file,
                         uint32_t at, uint32_t column)
{
    assert_string_equal(f->name, name);
    assert_string_equal(f->file, file);
    assert_int_equal(f->line, at);
    assert_int_equal(f->column, column);
}

static void inline_chains(void **state)
{
    struct made m;
    make(&m);
    struct dwarf *d = dwarf_new(&m.s, NULL);
    struct dwarf_frame f[8];
    for (int round = 0; round < 3; round++) { // by scanning, by index, after forgetting
        assert_int_equal(dwarf_lookup(d, 0x1015, f, 8), 3);
        expect_frame(&f[0], "leaf", "/src/inc/h.h", 4, 3);
        expect_frame(&f[1], "mid", "/src/inc/h.h", 8, 0);
        expect_frame(&f[2], "_m", "/src/a.c", 12, 5);
        assert_int_equal(f[0].start_line, 3);
        assert_int_equal(f[1].start_line, 7);
        assert_int_equal(dwarf_lookup(d, 0x1020, f, 8), 2);
        expect_frame(&f[0], "mid", "/src/inc/h.h", 9, 3);
        assert_int_equal(dwarf_lookup(d, 0x1000, f, 8), 1);
        expect_frame(&f[0], "_m", "/src/a.c", 10, 3);
        assert_int_equal(dwarf_lookup(d, 0x10ff, f, 8), 1);
        expect_frame(&f[0], "_m", "/src/a.c", 13, 3);
        assert_int_equal(dwarf_lookup(d, 0x1015, f, 2), 2); // no room for all
        // In the unit, but neither a function nor a row is there.
        assert_int_equal(dwarf_lookup(d, 0x1150, f, 8), 0);
        assert_int_equal(dwarf_lookup(d, 0x1200, f, 8), 0);
        assert_int_equal(dwarf_lookup(d, 0xfff, f, 8), 0);
        if (round == 0)
            dwarf_expect_lookups(d);
        else
            dwarf_trim(d);
    }
    dwarf_free(d);
    dwarf_free(NULL);
}

static void memory_is_counted_and_given_back(void **state)
{
    struct made m;
    make(&m);
    struct dwarf *d = dwarf_new(&m.s, NULL);
    struct dwarf_frame f[8];
    dwarf_lookup(d, 0x1015, f, 8);
    dwarf_lookup(d, 0x1016, f, 8);
    size_t before = dwarf_memory(d);
    dwarf_trim(d);
    assert_true(dwarf_memory(d) < before);
    dwarf_free(d);
}

// Any byte may be wrong, any section may end early: an answer or none, no crash.
static void damage_does_no_harm(void **state)
{
    struct dwarf_frame f[8];
    struct made m;
    make(&m);
    for (size_t i = 0; i < sizeof unit + sizeof line; i++) {
        for (int flip = 1; flip < 256; flip = flip * 5 + 2) {
            make(&m);
            if (i < sizeof unit)
                m.unit[i] ^= (uint8_t)flip;
            else
                m.line[i - sizeof unit] ^= (uint8_t)flip;
            struct dwarf *d = dwarf_new(&m.s, NULL);
            dwarf_lookup(d, 0x1015, f, 8);
            dwarf_expect_lookups(d);
            dwarf_lookup(d, 0x1030, f, 8);
            dwarf_free(d);
        }
    }
    for (size_t cut = 0; cut < sizeof unit; cut++) {
        make(&m);
        struct bytes *all[] = {&m.s.info, &m.s.abbrev, &m.s.line, &m.s.ranges};
        for (size_t k = 0; k < 4; k++) {
            make(&m);
            uint8_t *part = malloc(cut + 1);
            size_t n = cut < all[k]->n ? cut : all[k]->n;
            memcpy(part, all[k]->p, n);
            *all[k] = (struct bytes){part, n, NULL};
            struct dwarf *d = dwarf_new(&m.s, NULL);
            dwarf_lookup(d, 0x1015, f, 8);
            dwarf_free(d);
            free(part);
        }
    }
}

// An entry that refers to itself, and two that refer to each other.
static void circles_end(void **state)
{
    struct made m;
    make(&m);
    static uint8_t looping[sizeof abbrev];
    memcpy(looping, abbrev, sizeof abbrev);
    uint8_t *leaf = looping + 13;            // 2: subprogram, name, decl_line
    memcpy(leaf + 3, "\x31\x11\x3b\x0b", 4); // abstract_origin as ref1 instead of the name
    m.s.abbrev.p = looping;
    m.unit[LEAF] = 2;
    m.unit[LEAF + 1] = LEAF;
    struct dwarf *d = dwarf_new(&m.s, NULL);
    struct dwarf_frame f[8];
    dwarf_lookup(d, 0x1015, f, 8);
    dwarf_free(d);
}

// Two units in four slots, with info, abbrev and str_offsets.
static void packages_by_their_index(void **state)
{
    enum { A = 5, B = 9 };                           // both belong to slot 1; the step of both is 1
    uint32_t index[] = {5,  3,  2, 4,                // version, columns, units, slots
                        0,  0,  A, 0,  B,  0,  0, 0, // signatures
                        0,  2,  1, 0,                // rows, counted from 1
                        1,  3,  6,                   // which sections
                        40, 20, 8, 10, 0,  30,       // offsets: of row 1, of row 2
                        60, 5,  4, 30, 20, 6};       // sizes
    uint8_t bytes[100] = {0};
    struct bytes section = {bytes, sizeof bytes, NULL};
    struct bytes in = {(const uint8_t *)index, sizeof index, NULL};
    const struct dwarf_sections whole = {
        .info = section, .abbrev = section, .str_offsets = section};
    struct dwarf_sections s = whole;
    assert_true(dwarf_package_find(in, A, &s));
    assert_ptr_equal(s.info.p, bytes + 10);
    assert_int_equal(s.info.n, 30);
    assert_int_equal(s.abbrev.n, 20);
    assert_ptr_equal(s.str_offsets.p, bytes + 30);
    s = whole;
    assert_true(dwarf_package_find(in, B, &s));
    assert_ptr_equal(s.info.p, bytes + 40);
    assert_int_equal(s.info.n, 60);
    s = whole;
    assert_false(dwarf_package_find(in, 13, &s)); // not there
    for (size_t n = 0; n < sizeof index; n++)
        assert_false(dwarf_package_find((struct bytes){in.p, n, NULL}, A, &s));
    index[25] = 61; // beyond its section
    assert_false(dwarf_package_find(in, B, &s));
    index[3] = 3; // no power of two
    assert_false(dwarf_package_find(in, A, &s));
}

static bool give_split(void *ctx, const char *directory, const char *name, uint64_t id,
                       struct dwarf_sections *s)
{
    (void)directory, (void)id;
    assert_string_equal(name, "a.dwo");
    *s = ((struct made *)ctx)->s;
    return true;
}

// A skeleton of a unit whose entries are in another file: [0x1000, 0x1200).
static void split_units(void **state)
{
    static const uint8_t skeleton_abbrev[] = {1, 0x11, 0, 0xb0, 0x42, 8, 0x11, 1, 0x12, 7, 0, 0, 0};
    static const uint8_t skeleton[] = {30,  0,   0,   0,   4,   0, 0, 0,    0, 0, 8, 1,
                                       'a', '.', 'd', 'w', 'o', 0, 0, 0x10, 0, 0, 0, 0,
                                       0,   0,   0,   2,   0,   0, 0, 0,    0, 0};
    struct made m;
    make(&m);
    const struct dwarf_sections s = {.info = {skeleton, sizeof skeleton},
                                     .abbrev = {skeleton_abbrev, sizeof skeleton_abbrev},
                                     .ranges = m.s.ranges};
    struct dwarf *d = dwarf_new(&s, NULL);
    struct dwarf_frame f[8];
    dwarf_on_split(d, give_split, &m);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(dwarf_lookup(d, 0x1015, f, 8), 3);
        assert_string_equal(f[0].name, "leaf");
        dwarf_trim(d);
    }
    dwarf_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split_units),         cmocka_unit_test(packages_by_their_index),
        cmocka_unit_test(inline_chains),       cmocka_unit_test(memory_is_counted_and_given_back),
        cmocka_unit_test(damage_does_no_harm), cmocka_unit_test(circles_end),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
