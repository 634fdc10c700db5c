// The interpreter of call frame programs (DWARF 5, 6.4, and the GNU additions): from the
// bytes of a CIE or an FDE to one state for each range of addresses. It trusts nothing and is
// bounded by the length of its input; it allocates nothing.
#pragma once

#include "unwind/arch.h"
#include "unwind/reader.h"

enum cfi_how {
    CFI_SAME, // nothing said
    CFI_UNDEFINED,
    CFI_OFFSET,         // saved at CFA + value
    CFI_VAL_OFFSET,     // is CFA + value
    CFI_REGISTER,       // is in register value
    CFI_EXPRESSION,     // saved at the address that the expression at value yields
    CFI_VAL_EXPRESSION, // is what the expression at value yields
};

#define CFI_NO_REGISTER 0xff

// Expressions are noted as offsets, from the base of the section, of their length.
struct cfi_state {
    int32_t value[UNWIND_REGS];
    int32_t cfa_value; // offset or expression
    uint8_t how[UNWIND_REGS];
    uint8_t cfa_register; // CFI_NO_REGISTER: none yet
    bool cfa_expression;
};

#define CFI_REMEMBERED_MAX 8

struct cfi_program {
    struct reader r;
    const uint8_t *base;             // of the section
    uint64_t address;                // where base is loaded, for pc-relative DW_CFA_set_loc
    const struct cfi_state *initial; // what DW_CFA_restore goes back to; NULL inside a CIE
    uint64_t location, end;          // of the current row; of the FDE
    uint64_t code_align;
    int64_t data_align;
    uint8_t encoding, address_size; // of DW_CFA_set_loc
    uint8_t n_remembered;
    struct cfi_state state;
    struct cfi_state remembered[CFI_REMEMBERED_MAX];
};

enum cfi_next {
    CFI_BAD,  // not to be followed from location on
    CFI_LAST, // state holds from location to end
    CFI_ROW,  // state holds from location to *until, where the next one begins
};

// Runs up to the next change of location. After CFI_ROW the caller sets location to *until
// and calls again.
enum cfi_next cfi_run(struct cfi_program *program, uint64_t *until);

// Reads a pointer in one of the DW_EH_PE encodings; address is that of base in the process.
// Indirect pointers are not followed but read.
uint64_t cfi_pointer(struct reader *r, uint8_t encoding, const uint8_t *base, uint64_t address,
                     uint64_t data_address);

// The expression noted at offset place: its bytes; false if it is not inside.
bool cfi_expression_at(const uint8_t *base, size_t n, int32_t place, struct reader *out);
