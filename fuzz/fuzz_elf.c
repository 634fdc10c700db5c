// A whole ELF file, or a prebuilt symbol index. For a file: headers, sections, symbols, notes,
// decompression, DWARF, and lookups at every symbol, both in bulk and one by one.
#include <stdlib.h>
#include <string.h>

#include "symbol/symbol_index.h"

enum { ADDRESSES = 64 };

struct list {
    uint64_t addrs[ADDRESSES];
    size_t n;
    uint64_t sums[ADDRESSES];
};

static void collect_symbol(void *ctx, const struct elf_symbol *symbol)
{
    struct list *l = ctx;
    if (l->n < ADDRESSES)
        l->addrs[l->n++] = symbol->addr + symbol->size / 2;
}

static uint64_t hash_frames(const struct symbol_frame *f, int n)
{
    uint64_t sum = (uint64_t)n;
    for (int i = 0; i < n; i++) {
        sum = sum * 31 + f[i].line + f[i].column * 7u + f[i].start_line;
        sum =
            sum * 31 + (f[i].name ? strlen(f[i].name) : 0) + (f[i].shown ? strlen(f[i].shown) : 0);
        sum = sum * 31 + (f[i].file ? strlen(f[i].file) : 0);
    }
    return sum;
}

static bool keep_hash(void *ctx, size_t i, const struct symbol_frame *frames, int n)
{
    struct list *l = ctx;
    l->sums[i] = hash_frames(frames, n);
    return true;
}

static struct symbol_file *open_copy(const uint8_t *copy, size_t n)
{
    struct symbol_options options = {.no_debug_files = true, .memory_limit = 1 << 16};
    struct err e;
    struct elf *elf = elf_open_bytes((struct bytes){.p = copy, .n = n}, "fuzz", ELF_IN_HOST, &e);
    return elf ? symbol_open_elf(elf, &options, &e) : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    // A copy of exact size, so that the sanitizer detects overruns.
    uint8_t *copy = malloc(n ? n : 1);
    if (n)
        memcpy(copy, data, n);
    struct err ignored;
    struct symbol_index *index =
        symbol_index_open_bytes((struct bytes){.p = copy, .n = n}, "fuzz", &ignored);
    for (uint64_t addr = 0; index && addr < 0x2000; addr += 0x35) {
        struct symbol_frame frames[8];
        hash_frames(frames, symbol_index_lookup(index, addr, frames, 8));
    }
    symbol_index_free(index);
    struct symbol_file *file = open_copy(copy, n);
    if (file) {
        struct elf *elf = symbol_elf(file);
        struct list list = {.n = 2};
        list.addrs[1] = 0x1000;
        if (n >= 32)
            memcpy(&list.addrs[1], copy + 24, 8); // the entry point
        elf_each_symbol(elf, collect_symbol, &list);
        char id[2 * ELF_BUILD_ID_MAX + 1];
        elf_build_id_text(elf, id);
        const char *name;
        uint32_t crc;
        struct bytes bytes;
        elf_debuglink(elf, &name, &crc);
        elf_debugaltlink(elf, &name, &bytes);
        uint64_t vaddr;
        struct err e;
        struct elf_mapping user = {.start = 0x7f0000000000, 0x7f0000100000, 0x1000},
                           kernel = {.start = 0xffffffff81000198, .limit = 0xffffffff82000000};
        elf_vaddr(elf, &user, 0x7f0000000800, &vaddr, &e);
        elf_mapping_kernel(elf, &kernel, "_stext");
        elf_vaddr(elf, &kernel, kernel.start + 8, &vaddr, &e);
        symbol_lookup_many(file, list.addrs, list.n, keep_hash, &list, &e);
        symbol_free(file);
        file = open_copy(copy, n);
        for (size_t i = 0; file && i < list.n; i++) {
            struct symbol_frame frames[SYMBOL_FRAMES_MAX];
            int found = symbol_lookup(file, list.addrs[i], frames, SYMBOL_FRAMES_MAX);
            list.sums[i] += hash_frames(frames, found);
        }
        symbol_free(file);
    }
    free(copy);
    return 0;
}
