// The interpreter of call frame programs (DWARF 5, 6.4, and the GNU additions): it turns the bytes
// of a CIE or an FDE into one state per address range. It trusts nothing, is bounded by the length
// of its input, and allocates nothing.
#pragma once

#include "unwind/arch.h"
#include "unwind/reader.h"

enum cfi_how {
    CFI_SAME, // no rule given
    CFI_UNDEFINED,
    CFI_OFFSET,         // saved at CFA + value
    CFI_VAL_OFFSET,     // is CFA + value
    CFI_REGISTER,       // is in register value
    CFI_EXPRESSION,     // saved at the address that the expression at `value` computes
    CFI_VAL_EXPRESSION, // is the result of the expression at `value`
};

#define CFI_NO_REGISTER 0xff

// An expression is stored as the offset of its length from the base of the section.
struct cfi_state {
    int32_t value[UNWIND_REGS];
    int32_t cfa_value; // offset or expression
    uint8_t how[UNWIND_REGS];
    uint8_t cfa_register; // CFI_NO_REGISTER: not set
    bool cfa_expression;
};

#define CFI_REMEMBERED_MAX 8

struct cfi_program {
    struct reader r;
    const uint8_t *base;             // of the section
    uint64_t address;                // address where base is loaded, for pc-relative DW_CFA_set_loc
    const struct cfi_state *initial; // state that DW_CFA_restore returns to; NULL inside a CIE
    uint64_t location, end;          // start of the current row; end of the FDE
    uint64_t code_align;
    int64_t data_align;
    uint8_t encoding, address_size; // for DW_CFA_set_loc
    uint8_t n_remembered;
    struct cfi_state state;
    struct cfi_state remembered[CFI_REMEMBERED_MAX];
};

enum cfi_next {
    CFI_BAD,  // invalid; do not use anything from location on
    CFI_LAST, // state applies from location to end
    CFI_ROW,  // state applies from location to *until, where the next row begins
};

// Runs up to the next location change. After CFI_ROW the caller sets location to *until and calls
// again.
enum cfi_next cfi_run(struct cfi_program *program, uint64_t *until);

// Reads a pointer in a DW_EH_PE encoding. address is the run-time address of base. For an indirect
// pointer it returns the address of the pointer and does not follow it.
uint64_t cfi_pointer(struct reader *r, uint8_t encoding, const uint8_t *base, uint64_t address,
                     uint64_t data_address);

// Sets *out to the bytes of the expression at offset place. Returns false if it is not within the
// section.
bool cfi_expression_at(const uint8_t *base, size_t n, int32_t place, struct reader *out);
