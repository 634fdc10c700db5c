#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unwind/cfi.h"

static void begin(struct cfi_program *p, const uint8_t *bytes, size_t n)
{
    static const struct cfi_state initial = {
        .cfa_register = UNWIND_REG_SP,
        .cfa_value = 8,
        .how[UNWIND_REG_RA] = CFI_OFFSET,
        .value[UNWIND_REG_RA] = -8,
    };
    *p = (struct cfi_program){
        .r = {bytes, bytes + n, false},
        .base = bytes,
        .initial = &initial,
        .location = 0x1000,
        .end = 0x1100,
        .code_align = 1,
        .data_align = -8,
        .state = initial,
    };
}

#define BEGIN(p, ...)                             \
    static const uint8_t bytes[] = {__VA_ARGS__}; \
    struct cfi_program p;                         \
    uint64_t until = 0;                           \
    begin(&p, bytes, sizeof bytes)

// push %rbp; mov %rsp, %rbp; ...; leave: as compilers write it.
static void rows_of_an_ordinary_function(void **state)
{
    BEGIN(p, 0x41, 0x0e, 0x10, 0x80 | UNWIND_REG_BP % 64, 0x02, 0x43, 0x0d, UNWIND_REG_BP, 0x02,
          0x20, 0x0c, UNWIND_REG_SP, 0x08);
    assert_int_equal(cfi_run(&p, &until), CFI_ROW);
    assert_int_equal(until, 0x1001);
    assert_int_equal(p.state.cfa_value, 8);
    p.location = until;
    assert_int_equal(cfi_run(&p, &until), CFI_ROW);
    assert_int_equal(until, 0x1004);
    assert_int_equal(p.state.cfa_value, 16);
    assert_int_equal(p.state.how[UNWIND_REG_BP], CFI_OFFSET);
    assert_int_equal(p.state.value[UNWIND_REG_BP], -16);
    p.location = until;
    assert_int_equal(cfi_run(&p, &until), CFI_ROW);
    assert_int_equal(until, 0x1024);
    assert_int_equal(p.state.cfa_register, UNWIND_REG_BP);
    p.location = until;
    assert_int_equal(cfi_run(&p, &until), CFI_LAST);
    assert_int_equal(p.state.cfa_register, UNWIND_REG_SP);
    assert_int_equal(p.state.cfa_value, 8);
}

static void states_are_remembered(void **state)
{
    BEGIN(p, 0x0e, 0x20, 0x0a, 0x0e, 0x08, 0x41, 0x0b, 0x41);
    assert_int_equal(cfi_run(&p, &until), CFI_ROW);
    assert_int_equal(p.state.cfa_value, 8);
    p.location = until;
    assert_int_equal(cfi_run(&p, &until), CFI_ROW);
    assert_int_equal(p.state.cfa_value, 32);
}

static void restore_goes_back_to_the_cie(void **state)
{
    BEGIN(p, 0x07, UNWIND_REG_RA, 0x41, 0x06, UNWIND_REG_RA);
    assert_int_equal(cfi_run(&p, &until), CFI_ROW);
    assert_int_equal(p.state.how[UNWIND_REG_RA], CFI_UNDEFINED);
    p.location = until;
    assert_int_equal(cfi_run(&p, &until), CFI_LAST);
    assert_int_equal(p.state.how[UNWIND_REG_RA], CFI_OFFSET);
    assert_int_equal(p.state.value[UNWIND_REG_RA], -8);
}

static void expressions_are_noted_by_place(void **state)
{
    BEGIN(p, 0x0f, 0x03, 0x76, 0x78, 0x06, 0x10, UNWIND_REG_BP, 0x02, 0x76, 0x00);
    assert_int_equal(cfi_run(&p, &until), CFI_LAST);
    assert_true(p.state.cfa_expression);
    assert_int_equal(p.state.cfa_value, 1);
    assert_int_equal(p.state.how[UNWIND_REG_BP], CFI_EXPRESSION);
    assert_int_equal(p.state.value[UNWIND_REG_BP], 7);
}

static void every_way_to_advance(void **state)
{
    BEGIN(p, 0x02, 0x05, 0x03, 0x10, 0x00, 0x04, 0x20, 0x00, 0x00, 0x00, 0x04, 0xff, 0xff, 0xff,
          0xff);
    assert_int_equal(cfi_run(&p, &until), CFI_ROW);
    assert_int_equal(until, 0x1005);
    p.location = until;
    assert_int_equal(cfi_run(&p, &until), CFI_ROW);
    assert_int_equal(until, 0x1015);
    p.location = until;
    assert_int_equal(cfi_run(&p, &until), CFI_ROW);
    assert_int_equal(until, 0x1035);
    p.location = until;
    assert_int_equal(cfi_run(&p, &until), CFI_LAST); // past the end of the function
}

static void is_bad(const uint8_t *bytes, size_t n)
{
    struct cfi_program p;
    uint64_t until = 0;
    begin(&p, bytes, n);
    for (int i = 0; i < 1000; i++) {
        enum cfi_next next = cfi_run(&p, &until);
        if (next == CFI_BAD)
            return;
        assert_int_equal(next, CFI_ROW);
        p.location = until;
    }
    fail();
}
#define BAD(...) is_bad((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void bad_programs_end(void **state)
{
    BAD(0x0b);                   // nothing remembered
    BAD(0x3b);                   // no such instruction
    BAD(0x0c, 0x07);             // cut off
    BAD(0x02);                   // cut off
    BAD(0x04, 0x01, 0x02);       // cut off
    BAD(0x0e, 0x80, 0x80, 0x80); // a number without end
    BAD(0x0f, 0x7f, 0x00);       // an expression longer than the program
    BAD(0x0d, 0x7f);             // no such register
    BAD(0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a); // too deep
    BAD(0x0e, 0xff, 0xff, 0xff, 0xff, 0x7f);                   // offset of 34 bits
    BAD(0x41, 0x01, 0, 0, 0, 0, 0, 0, 0, 0);                   // set_loc backwards
}

static void unknown_registers_are_skipped(void **state)
{
    BEGIN(p, 0x05, 0x60, 0x02, 0x08, 0xff, 0x01, 0x41);
    assert_int_equal(cfi_run(&p, &until), CFI_ROW);
}

static void pointers(void **state)
{
    static const uint8_t bytes[] = {0xfc, 0xff, 0xff, 0xff, 0x08, 0x00, 0x00, 0x00};
    struct reader r = {bytes, bytes + 8, false};
    assert_int_equal(cfi_pointer(&r, 0x1b, bytes, 0x5000, 0), 0x4ffc); // pc-relative, signed
    assert_int_equal(cfi_pointer(&r, 0x3b, bytes, 0x5000, 0x9000), 0x9008);
    assert_false(r.bad);
    r = (struct reader){bytes, bytes + 8, false};
    cfi_pointer(&r, 0x50, bytes, 0, 0); // aligned: nobody uses it
    assert_true(r.bad);
    r = (struct reader){bytes, bytes + 3, false};
    cfi_pointer(&r, 0x0b, bytes, 0, 0);
    assert_true(r.bad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_an_ordinary_function),
        cmocka_unit_test(states_are_remembered),
        cmocka_unit_test(restore_goes_back_to_the_cie),
        cmocka_unit_test(expressions_are_noted_by_place),
        cmocka_unit_test(every_way_to_advance),
        cmocka_unit_test(bad_programs_end),
        cmocka_unit_test(unknown_registers_are_skipped),
        cmocka_unit_test(pointers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
