// Parses .eh_frame, .eh_frame_hdr and .debug_frame: finds CIEs and FDEs in untrusted bytes.
// Sections are copies or files; address is where they are in the process (or in the file's address
// space), to which their pointers are relative.
#pragma once

#include "unwind/cfi.h"

struct eh_section {
    const uint8_t *p;
    size_t n;
    uint64_t address;
};

struct eh_input {
    struct eh_section frame, header; // header.n == 0: no header
    bool debug_frame;
};

struct eh_cie {
    uint64_t offset; // in the section; the cache key
    uint64_t code_align;
    int64_t data_align;
    uint8_t encoding;     // of FDE addresses
    uint8_t address_size; // in .debug_frame
    bool augmented;       // FDEs have an augmentation length
    bool signal;          // 'S': a signal frame; its caller was interrupted and made no call
    bool valid;
    struct cfi_state initial;
};

struct eh_fde {
    uint64_t begin, end;
    struct reader program;
    const struct eh_cie *cie; // valid until the next eh_fde_read
    uint64_t next;            // offset of the next entry
};

// Cache of recently used CIEs. Objects have few, and FDEs that share one are adjacent.
#define EH_CIES 16
struct eh_cies {
    struct eh_cie cie[EH_CIES];
    struct cfi_program program; // scratch for parsing CIEs
};

enum eh_entry {
    EH_BAD,  // unreadable; later entries cannot be located either
    EH_END,  // terminator or end of section
    EH_SKIP, // a CIE, or an unsupported FDE; next is set
    EH_FDE,
};

// Reads the entry at an offset of the section.
enum eh_entry eh_fde_read(const struct eh_input *in, struct eh_cies *cies, uint64_t offset,
                          struct eh_fde *fde);

// The binary search table of .eh_frame_hdr.
struct eh_table {
    struct eh_section entries;
    uint64_t header_address;
    uint64_t count;
    uint64_t frame_address; // address of .eh_frame
    uint8_t encoding, entry_size;
};

// Returns false if the header is unusable. count is 0 if only frame_address is usable.
bool eh_table_open(const struct eh_section *header, struct eh_table *table);
// Gets entry i: the address where an FDE begins and the address of the FDE itself.
void eh_table_get(const struct eh_table *table, uint64_t i, uint64_t *begin, uint64_t *fde);

// Parses one FDE whose CIE was copied from elsewhere; both inputs begin with their entry. Fills cie
// and uses program as scratch. Returns false if the FDE is unsupported. Signal-safe.
bool eh_fde_parse(const struct eh_input *in, const struct eh_input *cie_in, struct eh_cie *cie,
                  struct cfi_program *program, struct eh_fde *fde);

// Prepares a program to compute the rows of an FDE.
void eh_program(const struct eh_input *in, const struct eh_fde *fde, struct cfi_program *program);
