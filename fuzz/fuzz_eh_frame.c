// Unwind sections: the parser, the interpreter, the table, and walks with the table.
//
// In the first byte, bit 0 selects .debug_frame. Bit 1 means that the input begins with a header
// section; the next two bytes are its length.
#include <stdlib.h>
#include <string.h>

#include "unwind/step.h"

#define BASE 0x10000
#define END 0x20000

static void walk_table_stacks(const struct unwind_table *table, const struct unwind_rules *rules,
                              const uint8_t *data, size_t n)
{
    static uintptr_t stack[256];
    // The stack consists of words from the input, text addresses and stack addresses.
    for (size_t i = 0; i < 256; i++) {
        uint16_t word = 0;
        memcpy(&word, data + (n > 2 ? (i * 2) % (n - 1) : 0), n > 2 ? 2 : 0);
        stack[i] = i % 3 == 0   ? (uintptr_t)BASE + word % (END - BASE)
                   : i % 3 == 1 ? (uintptr_t)&stack[word % 256]
                                : word;
    }
    uintptr_t start = BASE;
    struct unwind_module module = {.start = BASE, .end = END, .path = "", .table = table};
    struct unwind_snapshot snapshot = {
        .generation = 1,
        .starts = &start,
        .modules = &module,
        .n = 1,
        .rules = rules->rule,
        .pool = rules->pool,
    };
    struct unwind_stack_bounds bounds = {.lo = (uintptr_t)stack, .hi = (uintptr_t)(stack + 256)};
    static struct unwind_cache cache;
    memset(&cache, 0, sizeof cache);
    for (uint32_t row = 0; row < table->n_rows && row < 64; row++) {
        struct unwind_regs regs;
        uintptr_t pcs[32];
        enum unwind_end why;
        for (unsigned i = 0; i < UNWIND_REGS; i++)
            regs.r[i] = stack[(row * 7 + i) % 256];
        regs.r[UNWIND_REG_SP] = (uintptr_t)&stack[row % 200];
        regs.r[UNWIND_REG_BP] = (uintptr_t)&stack[(row * 5) % 256];
        regs.r[UNWIND_REG_PC] = BASE + (unwind_table_rows(table)[row] >> 16);
        size_t got = unwind_stack(&snapshot, &regs, bounds, pcs, 32, row % 2 ? &cache : NULL, &why);
        if (got < 1 || got > 32 || pcs[0] != regs.r[UNWIND_REG_PC] || why >= UNWIND_END_COUNT)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 3)
        return 0;
    struct eh_input in = {.debug_frame = data[0] & 1};
    size_t header = data[0] & 2 ? (size_t)data[1] | (size_t)data[2] << 8 : 0;
    data += 3;
    n -= 3;
    if (header > n)
        return 0;
    // Separate copies, so that the sanitizer detects overruns.
    uint8_t *first = malloc(header + !header), *second = malloc(n - header + (n == header));
    memcpy(first, data, header);
    memcpy(second, data + header, n - header);
    in.header = (struct eh_section){first, header, BASE - 0x2000};
    in.frame = (struct eh_section){second, n - header, BASE - 0x1000};
    struct unwind_rules *rules = unwind_rules_new();
    struct unwind_table *table = unwind_table_build(&in, BASE, END, rules);
    if (table) {
        for (uint32_t offset = 0; offset < END - BASE; offset += 13)
            if (unwind_table_find(table, offset) >= rules->n)
                abort();
        walk_table_stacks(table, rules, data, n);
    }
    unwind_table_free(table);
    unwind_rules_free(rules);
    free(first);
    free(second);
    return 0;
}
