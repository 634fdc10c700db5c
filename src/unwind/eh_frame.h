// .eh_frame, .eh_frame_hdr and .debug_frame: finding CIEs and FDEs in bytes that nobody
// vouches for. Sections are copies or files; address says where they are in the process (or
// in the file's own address space), which is what their pointers are relative to.
#pragma once

#include "unwind/cfi.h"

struct eh_section {
    const uint8_t *p;
    size_t n;
    uint64_t address;
};

struct eh_input {
    struct eh_section frame, header; // header.n == 0: none
    bool debug_frame;
};

struct eh_cie {
    uint64_t offset; // in the section; its key
    uint64_t code_align;
    int64_t data_align;
    uint8_t encoding;     // of addresses in FDEs
    uint8_t address_size; // of .debug_frame
    bool augmented;       // FDEs carry a length of augmentation data
    bool signal;          // 'S': the caller was interrupted, it did not call
    bool valid;
    struct cfi_state initial;
};

struct eh_fde {
    uint64_t begin, end;
    struct reader program;
    const struct eh_cie *cie; // valid until the next eh_fde_read
    uint64_t next;            // offset of the entry behind
};

// CIEs met lately: objects have few, and the FDEs of one stand together.
#define EH_CIES 16
struct eh_cies {
    struct eh_cie cie[EH_CIES];
    struct cfi_program program; // for CIEs
};

enum eh_entry {
    EH_BAD,  // not readable; what follows is not to be found either
    EH_END,  // terminator or end of section
    EH_SKIP, // a CIE, or an FDE that we do not understand; next is set
    EH_FDE,
};

// Reads the entry at offset of the section.
enum eh_entry eh_fde_read(const struct eh_input *in, struct eh_cies *cies, uint64_t offset,
                          struct eh_fde *fde);

// The sorted table behind .eh_frame_hdr.
struct eh_table {
    struct eh_section entries;
    uint64_t header_address;
    uint64_t count;
    uint64_t frame_address; // of .eh_frame
    uint8_t encoding, entry_size;
};

// False if there is none that we can use.
bool eh_table_open(const struct eh_section *header, struct eh_table *table);
// The i-th entry: the address where an FDE begins and where the FDE lies.
void eh_table_get(const struct eh_table *table, uint64_t i, uint64_t *begin, uint64_t *fde);

// Parses one FDE whose CIE was copied from elsewhere: both inputs begin with their entry. cie is
// filled, program is scratch. Signal-safe. False: not an FDE that we understand.
bool eh_fde_parse(const struct eh_input *in, const struct eh_input *cie_in, struct eh_cie *cie,
                  struct cfi_program *program, struct eh_fde *fde);

// Prepares a program for the rows of an FDE.
void eh_program(const struct eh_input *in, const struct eh_fde *fde, struct cfi_program *program);
