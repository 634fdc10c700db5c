#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "unwind/table.h"

// A section made by hand: one CIE, FDEs with absolute 8-byte addresses.
struct section {
    uint8_t p[4096];
    size_t n;
};

static void put(struct section *s, const void *data, size_t n)
{
    memcpy(s->p + s->n, data, n);
    s->n += n;
}

static void put_u32(struct section *s, uint32_t value)
{
    put(s, &value, 4);
}

static void put_u64(struct section *s, uint64_t value)
{
    put(s, &value, 8);
}

static void end_entry(struct section *s, size_t length_at)
{
    uint32_t length = (uint32_t)(s->n - length_at - 4);
    memcpy(s->p + length_at, &length, 4);
}

// CFA = sp + 8, return address at CFA - 8.
static void put_cie(struct section *s, bool debug_frame)
{
    static const uint8_t body[] = {
        1, 0, 1, 0x78, UNWIND_REG_RA, 0x0c, UNWIND_REG_SP, 8, 0x80 | UNWIND_REG_RA, 1};
    size_t at = s->n;
    put_u32(s, 0);
    put_u32(s, debug_frame ? 0xffffffff : 0);
    put(s, body, sizeof body);
    end_entry(s, at);
}

static void put_fde(struct section *s, bool debug_frame, uint64_t begin, uint64_t size,
                    const uint8_t *program, size_t n)
{
    size_t at = s->n;
    put_u32(s, 0);
    put_u32(s, debug_frame ? 0 : (uint32_t)s->n);
    put_u64(s, begin);
    put_u64(s, size);
    put(s, program, n);
    end_entry(s, at);
}

static const uint8_t push[] = {0x41, 0x0e, 0x10, 0x44, 0x0e, 0x08};

static unwind_rule rule_at(const struct unwind_rules *rules, const struct unwind_table *t,
                           uint32_t offset)
{
    return rules->rule[unwind_table_find(t, offset)];
}

static void check_two_functions(bool debug_frame)
{
    struct section s = {.n = 0};
    put_cie(&s, debug_frame);
    put_fde(&s, debug_frame, 0x10800, 0x20, push, sizeof push); // not in order
    put_fde(&s, debug_frame, 0x10010, 0x10, push, sizeof push);
    if (!debug_frame)
        put_u32(&s, 0);
    struct eh_input in = {.frame = {s.p, s.n, 0x5000}, .debug_frame = debug_frame};
    struct unwind_rules *rules = unwind_rules_new();
    struct unwind_table *t = unwind_table_build(&in, 0x10000, 0x12000, rules);
    assert_non_null(t);
    assert_int_equal(t->n_fdes, 2);
    unwind_rule eight = unwind_rule_make(UNWIND_SP, 8, 0, 0);
    unwind_rule sixteen = unwind_rule_make(UNWIND_SP, 16, 0, 0);
#if defined(__aarch64__)
    eight = unwind_rule_make(UNWIND_SP, 8, 0, -8);
    sixteen = unwind_rule_make(UNWIND_SP, 16, 0, -8);
#endif
    assert_int_equal(rule_at(rules, t, 0), UNWIND_NONE);
    assert_int_equal(rule_at(rules, t, 0xf), UNWIND_NONE);
    assert_int_equal(rule_at(rules, t, 0x10), eight);
    assert_int_equal(rule_at(rules, t, 0x11), sixteen);
    assert_int_equal(rule_at(rules, t, 0x14), sixteen);
    assert_int_equal(rule_at(rules, t, 0x15), eight);
    assert_int_equal(rule_at(rules, t, 0x1f), eight);
    assert_int_equal(rule_at(rules, t, 0x20), UNWIND_NONE); // the gap
    assert_int_equal(rule_at(rules, t, 0x7ff), UNWIND_NONE);
    assert_int_equal(rule_at(rules, t, 0x801), sixteen);
    assert_int_equal(rule_at(rules, t, 0x820), UNWIND_NONE);
    assert_int_equal(rule_at(rules, t, 0x1fff), UNWIND_NONE);
    assert_int_equal(t->n_rows, 9);
    unwind_table_free(t);
    unwind_rules_free(rules);
}

static void functions_and_gaps(void **state)
{
    check_two_functions(false);
    check_two_functions(true);
}

static void neighbours_merge(void **state)
{
    struct section s = {.n = 0};
    put_cie(&s, false);
    for (unsigned i = 0; i < 20; i++)
        put_fde(&s, false, 0x10000 + i * 16, 16, (const uint8_t[]){0x41}, 1);
    struct eh_input in = {.frame = {s.p, s.n, 0}};
    struct unwind_rules *rules = unwind_rules_new();
    struct unwind_table *t = unwind_table_build(&in, 0x10000, 0x10140, rules);
    assert_int_equal(t->n_fdes, 20);
    assert_int_equal(t->n_rows, 1);
    unwind_table_free(t);
    unwind_rules_free(rules);
}

// Whatever is cut off or turned over: a table comes out, and every address has a row.
static void bad_bytes_are_survived(void **state)
{
    struct section s = {.n = 0};
    put_cie(&s, false);
    put_fde(&s, false, 0x10010, 0x10, push, sizeof push);
    put_fde(&s, false, 0x10020, 0x100, push, sizeof push);
    put_u32(&s, 0);
    for (size_t n = 0; n <= s.n; n++)
        for (unsigned flip = 0; flip < 16; flip++) {
            struct section bad = s;
            if (n < s.n)
                bad.p[n] ^= (uint8_t)(flip * 17);
            struct eh_input in = {.frame = {bad.p, flip ? s.n : n, 0}};
            struct unwind_rules *rules = unwind_rules_new();
            struct unwind_table *t = unwind_table_build(&in, 0x10000, 0x10400, rules);
            assert_non_null(t);
            for (uint32_t offset = 0; offset < 0x400; offset++)
                assert_true(unwind_table_find(t, offset) < rules->n);
            unwind_table_free(t);
            unwind_rules_free(rules);
        }
}

static void rules_are_shared(void **state)
{
    struct unwind_rules *rules = unwind_rules_new();
    struct cfi_state st = {.cfa_register = UNWIND_REG_SP, .cfa_value = 8};
    st.how[UNWIND_REG_RA] = CFI_OFFSET;
    st.value[UNWIND_REG_RA] = -8;
    uint16_t first = unwind_rules_add(rules, &st, NULL, 0, false);
    for (int32_t i = 0; i < 5000; i++) {
        st.cfa_value = 8 + i * 8;
        uint16_t id = unwind_rules_add(rules, &st, NULL, 0, false);
        assert_int_equal((intptr_t)unwind_rule_cfa(rules->rule[id]), 8 + i * 8);
    }
    st.cfa_value = 8;
    assert_int_equal(unwind_rules_add(rules, &st, NULL, 0, false), first);
    st.cfa_value = INT32_MAX; // too large for the short form
    uint16_t id = unwind_rules_add(rules, &st, NULL, 0, false);
    assert_int_equal(unwind_rule_kind(rules->rule[id]), UNWIND_GENERAL);
    assert_int_equal(unwind_rules_add(rules, &st, NULL, 0, false), id);
    st.how[UNWIND_REG_RA] = CFI_UNDEFINED;
    assert_int_equal(unwind_rules_add(rules, &st, NULL, 0, false), UNWIND_RULE_ROOT);
    unwind_rules_free(rules);
}

static void rules_keep_their_numbers(void **state)
{
    unwind_rule r = unwind_rule_make(UNWIND_BP, -123456, -16, 32760);
    assert_int_equal(unwind_rule_kind(r), UNWIND_BP);
    assert_int_equal((intptr_t)unwind_rule_cfa(r), -123456);
    assert_int_equal((intptr_t)unwind_rule_bp(r), -16);
    assert_int_equal((intptr_t)unwind_rule_saved(r), 32760);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_and_gaps),       cmocka_unit_test(neighbours_merge),
        cmocka_unit_test(bad_bytes_are_survived),   cmocka_unit_test(rules_are_shared),
        cmocka_unit_test(rules_keep_their_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
