#include <elf.h>
#include <stdlib.h>

#include "symbol/elf_internal.h"
#include "symbol/radix.h"

struct elf_order {
    uint64_t addr;
    uint32_t symbol;
};

// Scanning all symbols for one address costs about a tenth of sorting them.
enum { SCANS_BEFORE_SORTING = 8, PASS_BYTES = 2 << 20 };
// Symbols of a mapped file between releases of its pages: 24 MiB.
enum { MAPPED_PASS = 1 << 20 };

static const struct elf_section *table_of(const struct elf *elf, uint32_t type)
{
    for (uint32_t i = 0; i < elf->n_sections; i++) {
        const struct elf_section *s = &elf->sections[i];
        // The first entry of a table is empty.
        if (s->type == type && s->size >= 2 * sizeof(Elf64_Sym))
            return s;
    }
    return NULL;
}

static void load_symbol_table(struct elf *elf)
{
    if (elf->symbols_ready)
        return;
    elf->symbols_ready = true;
    const struct elf_section *s = table_of(elf, SHT_SYMTAB);
    if (!s)
        s = table_of(elf, SHT_DYNSYM);
    if (!s || s->link >= elf->n_sections)
        return;
    elf->symbols = elf_section_bytes(elf, s);
    elf->strings = elf_section_bytes(elf, &elf->sections[s->link]);
    uint64_t n = elf->symbols.n / sizeof(Elf64_Sym);
    elf->n_symbols = n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

static inline Elf64_Sym symbol_get(const struct elf *elf, uint32_t i)
{
    Elf64_Sym s;
    bytes_need(elf->symbols, (size_t)i * sizeof s, sizeof s);
    memcpy(&s, elf->symbols.p + (size_t)i * sizeof s, sizeof s);
    return s;
}

// Releases pages during a pass over all symbols, so that a large table need not be in memory as a
// whole.
static void limit_pass_pages(struct elf *elf, uint32_t i)
{
    if (i % 4096 == 0 &&
        (elf_pages(elf) > PASS_BYTES || (elf->storage == ELF_MAPPED && i % MAPPED_PASS == 0)))
        elf_forget_pages(elf);
}

// aarch64 marks code and data with special symbols ($x, $d).
static bool is_marker(const struct elf *elf, const Elf64_Sym *s)
{
    if (elf->machine != EM_AARCH64 && elf->machine != EM_RISCV)
        return false;
    if (s->st_name >= elf->strings.n)
        return false;
    bytes_need(elf->strings, s->st_name, 1);
    return elf->strings.p[s->st_name] == '$';
}

static inline bool is_lookup_symbol(const struct elf *elf, const Elf64_Sym *s)
{
    unsigned type = ELF64_ST_TYPE(s->st_info);
    if (type != STT_FUNC && type != STT_NOTYPE && type != STT_OBJECT && type != STT_GNU_IFUNC)
        return false;
    if (s->st_shndx == SHN_UNDEF || s->st_shndx >= elf->n_sections)
        return false;
    if (!(elf->sections[s->st_shndx].flags & SHF_ALLOC))
        return false;
    return !is_marker(elf, s);
}

// Returns the last STT_FILE symbol before a symbol, to which the local symbols after it belong; 0
// if there is none.
static uint32_t file_before(const struct elf *elf, uint32_t symbol)
{
    if (!elf->files) {
        while (symbol > 0 && ELF64_ST_TYPE(symbol_get(elf, symbol).st_info) != STT_FILE)
            symbol--;
        return symbol;
    }
    size_t low = 0, high = elf->n_files;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (elf->files[middle] < symbol)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? elf->files[low - 1] : 0;
}

static void fill_symbol(const struct elf *elf, uint32_t i, struct elf_symbol *out)
{
    Elf64_Sym s = symbol_get(elf, i);
    const char *name = bytes_string(elf->strings, s.st_name);
    *out = (struct elf_symbol){s.st_value, s.st_size, name ? name : "", NULL};
    uint32_t file = ELF64_ST_BIND(s.st_info) == STB_LOCAL ? file_before(elf, i) : 0;
    if (file)
        out->file = bytes_string(elf->strings, symbol_get(elf, file).st_name);
}

static void forget_files(struct elf *elf)
{
    free(elf->files);
    elf->files = NULL;
    elf->n_files = 0;
}

// Returns false if out of memory; then the table is dropped.
static bool add_file_symbol(struct elf *elf, uint32_t symbol)
{
    // The capacity is the next power of two.
    if ((elf->n_files & (elf->n_files - 1)) == 0) {
        size_t room = elf->n_files ? (size_t)elf->n_files * 2 : 1;
        uint32_t *more = realloc(elf->files, room * sizeof *more);
        if (!more) {
            forget_files(elf);
            return false;
        }
        elf->files = more;
    }
    elf->files[elf->n_files++] = symbol;
    return true;
}

static void sort_symbols(struct elf *elf)
{
    struct radix_pair *pairs = malloc(((size_t)elf->n_symbols + 1) * sizeof *pairs);
    if (!pairs)
        return;
    size_t n = 0;
    // A sentinel at 0, where no symbol is: the table exists even without STT_FILE symbols.
    bool has_files = add_file_symbol(elf, 0);
    for (uint32_t i = 1; i < elf->n_symbols; i++) {
        Elf64_Sym s = symbol_get(elf, i);
        if (has_files && ELF64_ST_TYPE(s.st_info) == STT_FILE)
            has_files = add_file_symbol(elf, i);
        if (is_lookup_symbol(elf, &s))
            pairs[n++] = (struct radix_pair){
                s.st_value, i, s.st_size < UINT32_MAX ? (uint32_t)s.st_size : UINT32_MAX};
        limit_pass_pages(elf, i);
    }
    if (!radix_sort(pairs, n)) {
        free(pairs);
        forget_files(elf);
        return;
    }
    // Of the symbols at one address keep the largest, and the last of equal ones.
    size_t kept = 0;
    uint64_t size = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t here = pairs[i].extra;
        if (kept && pairs[kept - 1].key == pairs[i].key) {
            if (here < size)
                continue;
            kept--;
        }
        size = here;
        pairs[kept++] = pairs[i];
    }
    _Static_assert(sizeof(struct elf_order) == sizeof *pairs, "shrunk in place");
    elf->order = realloc(pairs, (kept + 1) * sizeof *elf->order);
    if (!elf->order)
        elf->order = (struct elf_order *)pairs;
    elf->n_order = (uint32_t)kept;
    elf->memory += (kept + 1) * sizeof *elf->order + 2 * elf->n_files * sizeof *elf->files;
}

size_t elf_sorting_size(struct elf *elf)
{
    load_symbol_table(elf);
    return 2 * sizeof(struct radix_pair) * elf->n_symbols;
}

void elf_expect_lookups(struct elf *elf)
{
    load_symbol_table(elf);
    if (!elf->order)
        sort_symbols(elf);
}

void elf_symbols_free(struct elf *elf)
{
    free(elf->order);
    elf->order = NULL;
    forget_files(elf);
}

static uint32_t scan_for(struct elf *elf, uint64_t addr)
{
    uint32_t best = 0;
    uint64_t best_addr = 0, best_size = 0;
    for (uint32_t i = 1; i < elf->n_symbols; i++) {
        Elf64_Sym s = symbol_get(elf, i);
        limit_pass_pages(elf, i);
        if (s.st_value > addr || (best && s.st_value < best_addr))
            continue;
        if (best && s.st_value == best_addr && s.st_size < best_size)
            continue;
        if (!is_lookup_symbol(elf, &s))
            continue;
        best = i;
        best_addr = s.st_value;
        best_size = s.st_size;
    }
    return best;
}

static uint32_t search_for(const struct elf *elf, uint64_t addr)
{
    size_t low = 0, high = elf->n_order;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (elf->order[middle].addr <= addr)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? elf->order[low - 1].symbol : 0;
}

uint32_t elf_symbol_find(struct elf *elf, uint64_t addr)
{
    load_symbol_table(elf);
    if (!elf->order && elf->lookups++ == SCANS_BEFORE_SORTING)
        sort_symbols(elf);
    return elf->order ? search_for(elf, addr) : scan_for(elf, addr);
}

bool elf_symbol_get(struct elf *elf, uint32_t i, uint64_t addr, struct elf_symbol *symbol)
{
    if (i == 0)
        return false;
    Elf64_Sym s = symbol_get(elf, i);
    if (!is_lookup_symbol(elf, &s)) // the file has changed since
        return false;
    if (s.st_size != 0 && s.st_value + s.st_size <= addr)
        return false;
    // Without a size, the symbol extends to the next one but not beyond its section.
    // llvm-symbolizer has no such bound and calls all of .plt _init.
    const struct elf_section *in = &elf->sections[s.st_shndx];
    if (s.st_size == 0 && addr != s.st_value && addr - in->addr >= in->size)
        return false;
    fill_symbol(elf, i, symbol);
    return true;
}

bool elf_symbol_at(struct elf *elf, uint64_t addr, struct elf_symbol *symbol)
{
    return elf_symbol_get(elf, elf_symbol_find(elf, addr), addr, symbol);
}

void elf_each_symbol(struct elf *elf, void (*call)(void *ctx, const struct elf_symbol *), void *ctx)
{
    load_symbol_table(elf);
    for (uint32_t i = 1; i < elf->n_symbols; i++) {
        Elf64_Sym s = symbol_get(elf, i);
        limit_pass_pages(elf, i);
        if (!is_lookup_symbol(elf, &s))
            continue;
        const char *name = bytes_string(elf->strings, s.st_name);
        struct elf_symbol out = {s.st_value, s.st_size, name ? name : "", NULL};
        call(ctx, &out);
    }
}
