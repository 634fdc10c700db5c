#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <elf.h>
#include <zlib.h>

#include "symbol/elf.h"

// A small ELF file made by hand.
struct image {
    uint8_t bytes[16384];
    size_t n;
    Elf64_Shdr sections[16];
    size_t n_sections;
    char names[512];
    size_t n_names;
};

static size_t append(struct image *im, const void *data, size_t n)
{
    im->n = (im->n + 7) & ~(size_t)7;
    size_t at = im->n;
    if (n)
        memcpy(im->bytes + at, data, n);
    im->n += n;
    return at;
}

static void image_init(struct image *im)
{
    memset(im, 0, sizeof *im);
    im->n = sizeof(Elf64_Ehdr);
    im->n_sections = 1;
    im->n_names = 1;
}

static size_t section(struct image *im, const char *name, uint32_t type, uint64_t flags,
                      const void *data, size_t n)
{
    Elf64_Shdr *s = &im->sections[im->n_sections];
    *s = (Elf64_Shdr){.sh_name = (uint32_t)im->n_names, .sh_type = type, .sh_flags = flags};
    memcpy(im->names + im->n_names, name, strlen(name) + 1);
    im->n_names += strlen(name) + 1;
    s->sh_offset = append(im, data, type == SHT_NOBITS ? 0 : n);
    s->sh_size = n;
    return im->n_sections++;
}

static struct bytes finish(struct image *im, const Elf64_Phdr *segments, size_t n_segments)
{
    size_t names = section(im, ".shstrtab", SHT_STRTAB, 0, NULL, 0);
    im->sections[names].sh_offset = append(im, im->names, im->n_names);
    im->sections[names].sh_size = im->n_names;
    Elf64_Ehdr h = {.e_type = ET_DYN,
                    .e_machine = EM_X86_64,
                    .e_ehsize = sizeof h,
                    .e_phentsize = sizeof(Elf64_Phdr),
                    .e_phnum = (uint16_t)n_segments,
                    .e_shentsize = sizeof(Elf64_Shdr),
                    .e_shnum = (uint16_t)im->n_sections,
                    .e_shstrndx = (uint16_t)names};
    memcpy(h.e_ident, ELFMAG, SELFMAG);
    h.e_ident[EI_CLASS] = ELFCLASS64;
    h.e_ident[EI_DATA] = ELFDATA2LSB;
    h.e_phoff = append(im, segments, n_segments * sizeof *segments);
    h.e_shoff = append(im, im->sections, im->n_sections * sizeof im->sections[0]);
    memcpy(im->bytes, &h, sizeof h);
    return (struct bytes){im->bytes, im->n, NULL};
}

static Elf64_Sym symbol(uint32_t name, unsigned type, unsigned bind, uint16_t in, uint64_t value,
                        uint64_t size)
{
    return (Elf64_Sym){name, (unsigned char)ELF64_ST_INFO(bind, type), 0, in, value, size};
}

static const char strings[] = "\0small\0large\0nosize\0local\0file.c\0data\0debug";

static struct elf *with_symbols(struct image *im)
{
    image_init(im);
    size_t text = section(im, ".text", SHT_NOBITS, SHF_ALLOC | SHF_EXECINSTR, NULL, 0x1000);
    size_t debug = section(im, ".debug_x", SHT_PROGBITS, 0, "x", 1);
    im->sections[text].sh_addr = 0x1000;
    Elf64_Sym symbols[] = {
        {0},
        symbol(26, STT_FILE, STB_LOCAL, SHN_ABS, 0, 0),
        symbol(20, STT_FUNC, STB_LOCAL, (uint16_t)text, 0x1300, 0x10),
        symbol(38, STT_FUNC, STB_LOCAL, (uint16_t)debug, 0x1320, 0x10),
        symbol(7, STT_FUNC, STB_GLOBAL, (uint16_t)text, 0x1100, 0x40),
        symbol(1, STT_FUNC, STB_GLOBAL, (uint16_t)text, 0x1100, 0x10),
        symbol(13, STT_NOTYPE, STB_GLOBAL, (uint16_t)text, 0x1200, 0),
        symbol(1, STT_FUNC, STB_GLOBAL, SHN_UNDEF, 0x1210, 0x10),
        symbol(1, STT_TLS, STB_GLOBAL, (uint16_t)text, 0x1220, 0x10),
    };
    size_t names = section(im, ".strtab", SHT_STRTAB, 0, strings, sizeof strings);
    size_t table = section(im, ".symtab", SHT_SYMTAB, 0, symbols, sizeof symbols);
    im->sections[table].sh_link = (uint32_t)names;
    struct err e;
    return elf_open_bytes(finish(im, NULL, 0), "made", ELF_IN_HOST, &e);
}

static void expect_symbol(struct elf *elf, uint64_t addr, const char *name)
{
    struct elf_symbol s;
    bool found = elf_symbol_at(elf, addr, &s);
    assert_int_equal(found, name != NULL);
    if (found)
        assert_string_equal(s.name, name);
}

// The largest at an address wins, one without a size reaches to the next; sections that are
// not loaded, undefined and thread-local symbols do not count.
static void symbols_are_chosen_as_llvm_does(void **state)
{
    struct image im;
    struct elf *elf = with_symbols(&im);
    assert_non_null(elf);
    for (int round = 0; round < 2; round++) { // by scanning, then sorted
        expect_symbol(elf, 0x10ff, NULL);
        expect_symbol(elf, 0x1100, "large");
        expect_symbol(elf, 0x113f, "large");
        expect_symbol(elf, 0x1140, NULL);
        expect_symbol(elf, 0x1200, "nosize");
        expect_symbol(elf, 0x12ff, "nosize");
        expect_symbol(elf, 0x1305, "local");
        expect_symbol(elf, 0x1325, NULL);
        elf_expect_lookups(elf);
    }
    struct elf_symbol s;
    assert_true(elf_symbol_at(elf, 0x1300, &s));
    assert_string_equal(s.file, "file.c");
    assert_true(elf_symbol_at(elf, 0x1100, &s));
    assert_null(s.file);
    elf_free(elf);
}

// One pass finds the same symbols as single lookups, also if some addresses are known already.
static void symbols_of_many_addresses(void **state)
{
    enum { FIRST = 0x10f0, LAST = 0x1340, STEP = 3 };
    struct image im;
    struct elf *one = with_symbols(&im), *many = with_symbols(&im);
    uint64_t addrs[LAST - FIRST];
    // Every sixth address, then every third, then all.
    for (unsigned step = 2 * STEP; step; step /= 2) {
        size_t n = 0;
        for (uint64_t addr = FIRST; addr < LAST; addr += step)
            addrs[n++] = addr;
        elf_find_symbols(many, addrs, n);
        elf_expect_lookups(one);
        for (size_t i = 0; i < n; i++) {
            struct elf_symbol a = {0}, b = {0};
            assert_int_equal(elf_symbol_find(many, addrs[i]), elf_symbol_find(one, addrs[i]));
            assert_int_equal(elf_symbol_at(many, addrs[i], &a), elf_symbol_at(one, addrs[i], &b));
            assert_string_equal(a.file ? a.file : "", b.file ? b.file : "");
        }
    }
    // More passes than sorting costs: it is sorted at last.
    for (unsigned i = 0; i < 20; i++)
        elf_find_symbols(many, (uint64_t[]){0x2000 + i}, 1);
    assert_int_equal(elf_symbol_find(many, 0x1100), elf_symbol_find(one, 0x1100));
    elf_find_symbols(many, NULL, 0);
    elf_free(one);
    elf_free(many);
}

static void what_is_no_elf_file_is_refused_with_a_reason(void **state)
{
    struct image im;
    struct err e;
    image_init(&im);
    struct bytes b = finish(&im, NULL, 0);
    im.bytes[EI_CLASS] = ELFCLASS32;
    assert_null(elf_open_bytes(b, "old", 0, &e));
    assert_non_null(strstr(e.message, "64-bit"));
    im.bytes[0] = 'X';
    assert_null(elf_open_bytes(b, "old", 0, &e));
    assert_non_null(strstr(e.message, "not an ELF file"));
    assert_null(elf_open("/nonexistent/file", 0, &e));
    assert_non_null(strstr(e.message, "/nonexistent/file"));
    assert_null(elf_open("/", 0, &e));
    elf_free(NULL);
}

static void build_id_and_links(void **state)
{
    static const uint8_t note[] = {4,   0,   0,   0, 4,    0,    0,    0, // sizes
                                   9,   0,   0,   0, 'G',  'N',  'U',  0, // another type
                                   1,   1,   1,   1, 4,    0,    0,    0, //
                                   5,   0,   0,   0, 3,    0,    0,    0, //
                                   'G', 'N', 'U', 0, 0xab, 0xcd, 0xef, 0x01, 0x23, 0, 0, 0};
    struct image im;
    image_init(&im);
    section(&im, ".note", SHT_NOTE, SHF_ALLOC, note, sizeof note);
    section(&im, ".gnu_debuglink", SHT_PROGBITS, 0, "x.debug\0\x78\x56\x34\x12", 12);
    section(&im, ".gnu_debugaltlink", SHT_PROGBITS, 0, "common\0\x11\x22\x33", 10);
    struct err e;
    struct elf *elf = elf_open_bytes(finish(&im, NULL, 0), "made", 0, &e);
    char text[2 * ELF_BUILD_ID_MAX + 1];
    assert_int_equal(elf_build_id_text(elf, text), 10);
    assert_string_equal(text, "abcdef0123");
    const char *name;
    uint32_t crc;
    struct bytes id;
    assert_true(elf_debuglink(elf, &name, &crc));
    assert_string_equal(name, "x.debug");
    assert_int_equal(crc, 0x12345678);
    assert_true(elf_debugaltlink(elf, &name, &id));
    assert_string_equal(name, "common");
    assert_int_equal(id.n, 3);
    elf_free(elf);
}

static void compressed_sections_are_unpacked(void **state)
{
    uint8_t plain[5000], packed[sizeof(Elf64_Chdr) + 6000], old[6012] = "ZLIB";
    for (size_t i = 0; i < sizeof plain; i++)
        plain[i] = (uint8_t)(i / 7);
    uLongf n = 6000;
    Elf64_Chdr h = {.ch_type = ELFCOMPRESS_ZLIB, .ch_size = sizeof plain, .ch_addralign = 1};
    memcpy(packed, &h, sizeof h);
    assert_int_equal(compress(packed + sizeof h, &n, plain, sizeof plain), Z_OK);
    old[10] = sizeof plain >> 8;
    old[11] = sizeof plain & 255;
    memcpy(old + 12, packed + sizeof h, n);
    struct image im;
    image_init(&im);
    section(&im, ".debug_info", SHT_PROGBITS, SHF_COMPRESSED, packed, sizeof h + n);
    section(&im, ".zdebug_line", SHT_PROGBITS, 0, old, 12 + n);
    h.ch_size = UINT64_C(1) << 60; // a lie
    memcpy(packed, &h, sizeof h);
    section(&im, ".debug_str", SHT_PROGBITS, SHF_COMPRESSED, packed, sizeof h + n);
    h.ch_size = sizeof plain + 1; // a smaller one
    memcpy(packed, &h, sizeof h);
    section(&im, ".debug_loc", SHT_PROGBITS, SHF_COMPRESSED, packed, sizeof h + n);
    struct err e;
    struct elf *elf = elf_open_bytes(finish(&im, NULL, 0), "made", 0, &e);
    assert_int_equal(elf_unpacked_size(elf), 3 * 8192); // pages, without the lie
    struct bytes b = elf_bytes(elf, ".debug_info");
    assert_int_equal(b.n, sizeof plain);
    assert_memory_equal(b.p, plain, sizeof plain);
    assert_ptr_equal(elf_bytes(elf, ".debug_info").p, b.p);
    b = elf_bytes(elf, ".debug_line");
    assert_int_equal(b.n, sizeof plain);
    assert_memory_equal(b.p, plain, sizeof plain);
    assert_int_equal(elf_bytes(elf, ".debug_str").n, 0);
    assert_int_equal(elf_bytes(elf, ".debug_loc").n, 0);
    assert_int_equal(elf_bytes(elf, ".absent").n, 0);
    assert_true(elf_memory(elf) >= 2 * sizeof plain);
    elf_free(elf);
}

static void addresses_go_through_segments(void **state)
{
    Elf64_Phdr segments[] = {
        {.p_type = PT_LOAD,
         .p_flags = PF_R,
         .p_filesz = 0x800,
         .p_memsz = 0x800,
         .p_align = 0x1000},
        {.p_type = PT_LOAD,
         .p_flags = PF_R | PF_X,
         .p_offset = 0x1000,
         .p_vaddr = 0x3000,
         .p_filesz = 0x2000,
         .p_memsz = 0x2000,
         .p_align = 0x1000},
    };
    struct image im;
    image_init(&im);
    struct err e;
    struct elf *elf = elf_open_bytes(finish(&im, segments, 2), "made", 0, &e);
    uint64_t at;
    assert_int_equal(
        elf_vaddr(elf, &(struct elf_mapping){0x7f0000001000, 0x7f0000003000, 0x1000, 0, false},
                  0x7f0000001234, &at, &e),
        0);
    assert_int_equal(at, 0x3234);
    assert_int_equal(
        elf_vaddr(elf, &(struct elf_mapping){0x7f0000001000, 0x7f0000003000, 0x1000, 0, false},
                  0x7f0000003000, &at, &e),
        -1);
    assert_non_null(strstr(e.message, "outside"));
    assert_int_equal(
        elf_vaddr(elf, &(struct elf_mapping){0x7f0000001000, 0x7f0000003000, 0x9000, 0, false},
                  0x7f0000001234, &at, &e),
        -1);
    assert_int_equal(
        elf_vaddr(elf, &(struct elf_mapping){0, UINT64_MAX, 0, 0, false}, 0x1234, &at, &e), 0);
    assert_int_equal(at, 0x1234);
    elf_free(elf);
}

// Cut anywhere, a file opens or does not, and no byte behind its end is read.
static void a_file_may_end_anywhere(void **state)
{
    struct image im;
    struct elf *whole = with_symbols(&im);
    elf_free(whole);
    for (size_t n = 0; n < im.n; n += 3) {
        uint8_t *part = malloc(n + 1);
        memcpy(part, im.bytes, n);
        struct err e;
        struct elf *elf = elf_open_bytes((struct bytes){part, n, NULL}, "part", 0, &e);
        struct elf_symbol s;
        if (elf) {
            elf_symbol_at(elf, 0x1100, &s);
            elf_bytes(elf, ".debug_x");
            elf_free(elf);
        }
        free(part);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(symbols_are_chosen_as_llvm_does),
        cmocka_unit_test(symbols_of_many_addresses),
        cmocka_unit_test(what_is_no_elf_file_is_refused_with_a_reason),
        cmocka_unit_test(build_id_and_links),
        cmocka_unit_test(compressed_sections_are_unpacked),
        cmocka_unit_test(addresses_go_through_segments),
        cmocka_unit_test(a_file_may_end_anywhere),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
