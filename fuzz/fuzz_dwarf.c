// DWARF sections without an ELF file around them, so that mutations reach the parsers. Input
// format: ten 16-bit lengths (info, abbrev, line, line_str, str, str_offsets, addr, ranges,
// rnglists, aranges), then the sections. aranges is also parsed as the index of a package. The
// addresses to look up are 8-byte words from the sections.
#include <stdlib.h>
#include <string.h>

#include "symbol/dwarf.h"

enum { SECTIONS = 10, ADDRESSES = 48 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 2 * SECTIONS)
        return 0;
    struct dwarf_sections s = {0};
    struct bytes *each[SECTIONS] = {&s.info,        &s.abbrev, &s.line,   &s.line_str, &s.str,
                                    &s.str_offsets, &s.addr,   &s.ranges, &s.rnglists, &s.aranges};
    size_t at = 2 * SECTIONS;
    for (size_t i = 0; i < SECTIONS; i++) {
        size_t size = (size_t)data[2 * i] | (size_t)data[2 * i + 1] << 8;
        if (size > n - at)
            size = n - at;
        uint8_t *copy = malloc(size ? size : 1);
        memcpy(copy, data + at, size);
        *each[i] = (struct bytes){.p = copy, .n = size};
        at += size;
    }
    uint64_t addrs[ADDRESSES] = {0, 0x1000};
    size_t n_addrs = 2;
    // Addresses set by line programs, and addresses of units.
    for (size_t i = 0; i + 10 <= s.line.n && n_addrs < ADDRESSES / 2; i++)
        if (s.line.p[i] == 9 && s.line.p[i + 1] == 2)
            memcpy(&addrs[n_addrs++], s.line.p + i + 2, 8);
    for (size_t i = 0; i + 8 <= s.info.n && n_addrs < ADDRESSES; i++) {
        uint64_t word;
        memcpy(&word, s.info.p + i, 8);
        if (word >= 0x1000 && word < 0x100000)
            addrs[n_addrs++] = word;
    }
    // Also try aranges as the index of a package.
    for (size_t i = 16; i + 8 <= s.aranges.n && i < 16 + 8 * 8; i += 8) {
        struct dwarf_sections part = s;
        uint64_t id;
        memcpy(&id, s.aranges.p + i, 8);
        if (dwarf_package_find(s.aranges, id, &part)) {
            struct dwarf *unit = dwarf_new(&part, NULL);
            struct dwarf_frame frame;
            dwarf_lookup(unit, addrs[1], &frame, 1);
            dwarf_free(unit);
        }
    }
    struct dwarf_frame frames[64];
    struct dwarf *d = dwarf_new(&s, NULL);
    // Look up by scanning first, then with indexes after dwarf_trim.
    int counts[ADDRESSES];
    for (size_t i = 0; i < n_addrs; i++)
        counts[i] = dwarf_lookup(d, addrs[i], frames, 64);
    dwarf_expect_lookups(d);
    dwarf_trim(d);
    for (size_t i = 0; i < n_addrs; i++) {
        if (dwarf_lookup(d, addrs[i] + 1, frames, 64) > 64)
            abort();
        (void)counts[i];
    }
    dwarf_free(d);
    for (size_t i = 0; i < SECTIONS; i++)
        free((void *)each[i]->p);
    return 0;
}
