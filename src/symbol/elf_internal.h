#pragma once

#include "symbol/elf.h"

struct elf_unpacked {
    const struct elf_section *section;
    struct bytes bytes;
    struct elf_unpacked *next;
};

struct elf_order; // the sorted symbols

struct elf {
    struct bytes image;
    enum { ELF_BORROWED, ELF_MALLOCED, ELF_MAPPED, ELF_VIEWED } storage; // owner of the image
    char *section_names; // a copy if the image is a view
    unsigned flags;
    char *path;
    uint16_t type, machine;
    uint32_t n_sections, n_segments;
    struct elf_section *sections;
    struct elf_segment *segments;
    struct elf_unpacked *unpacked;
    size_t memory, limit; // limit: 0 means none
    // Symbols.
    struct bytes symbols, strings; // of the table in use
    uint32_t n_symbols;
    bool symbols_ready;
    unsigned lookups;
    struct elf_order *order; // all symbols by address, or NULL
    uint32_t n_order;
    struct elf_order *found; // the symbols of some addresses
    size_t n_found;
    uint32_t *files; // STT_FILE symbols in order; built together with order
    uint32_t n_files;
};

// Takes the malloced bytes.
struct elf *elf_take_bytes(struct bytes image, const char *name, unsigned flags, struct err *e);
void elf_symbols_free(struct elf *elf);

// Decompresses a stream to exactly n bytes. Returns false if it is invalid or has another size.
// kind is an ELFCOMPRESS_ number.
bool inflate_section(unsigned kind, struct bytes in, uint8_t *out, size_t n, unsigned flags);
// Decompresses a whole .xz stream into malloced memory of at most limit bytes.
bool inflate_xz(struct bytes in, size_t limit, struct bytes *out, unsigned flags);
uint32_t inflate_crc32(struct bytes b);
