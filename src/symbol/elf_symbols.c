#include <elf.h>
#include <stdlib.h>

#include "symbol/elf_internal.h"
#include "symbol/radix.h"

struct elf_order {
    uint64_t addr;
    uint32_t symbol;
};

// A pass over all symbols costs about a tenth of sorting them.
enum { PASSES_BEFORE_SORTING = 8, PASS_BYTES = 2 << 20 };
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
static bool is_marker(const struct elf *elf, uint32_t name)
{
    if (elf->machine != EM_AARCH64 && elf->machine != EM_RISCV)
        return false;
    if (name >= elf->strings.n)
        return false;
    bytes_need(elf->strings, name, 1);
    return elf->strings.p[name] == '$';
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
    return !is_marker(elf, s->st_name);
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
    bool has_files = !elf->files && add_file_symbol(elf, 0);
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
    elf->memory += (kept + 1) * sizeof *elf->order;
    if (has_files)
        elf->memory += 2 * elf->n_files * sizeof *elf->files;
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
    free(elf->found);
    elf->order = elf->found = NULL;
    elf->n_found = 0;
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

// Returns the number of entries whose address is at most addr.
static size_t count_up_to(const struct elf_order *entries, size_t n, uint64_t addr)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (entries[middle].addr <= addr)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// --- the symbols of given addresses ---

// Returns whether the symbol of addr is known already.
static bool recall_symbol(const struct elf *elf, uint64_t addr, uint32_t *symbol)
{
    size_t n = count_up_to(elf->found, elf->n_found, addr);
    if (n == 0 || elf->found[n - 1].addr != addr)
        return false;
    *symbol = elf->found[n - 1].symbol;
    return true;
}

// The best symbol so far of those that begin after the previous address.
struct candidate {
    uint64_t addr, size;
    uint32_t symbol; // 0: none
};

// Wanted addresses, which ascend. A bucket is a range of 1 << shift addresses from the first one
// on; before has, for each bucket and for the end, the number of wanted addresses before it.
enum { BUCKETS = 4096 };
struct pass {
    struct elf_order *wanted;
    size_t n;
    unsigned shift;
    uint32_t before[BUCKETS + 1];
    struct candidate best[];
};

static struct pass *new_pass(struct elf_order *wanted, size_t n)
{
    struct pass *p = n < UINT32_MAX ? calloc(1, sizeof *p + n * sizeof *p->best) : NULL;
    if (!p)
        return NULL;
    p->wanted = wanted;
    p->n = n;
    while ((wanted[n - 1].addr - wanted[0].addr) >> p->shift >= BUCKETS)
        p->shift++;
    size_t i = 0;
    for (uint64_t bucket = 0; bucket <= BUCKETS; bucket++) {
        while (i < n && (wanted[i].addr - wanted[0].addr) >> p->shift < bucket)
            i++;
        p->before[bucket] = (uint32_t)i;
    }
    return p;
}

// Returns the first wanted address from addr on, which is at most the last one.
static size_t next_wanted(const struct pass *p, uint64_t addr)
{
    if (addr <= p->wanted[0].addr)
        return 0;
    uint64_t bucket = (addr - p->wanted[0].addr) >> p->shift;
    size_t from = p->before[bucket];
    return from + count_up_to(p->wanted + from, p->before[bucket + 1] - from, addr - 1);
}

static void pass_over_symbols(struct elf *elf, struct pass *p)
{
    uint64_t last = p->wanted[p->n - 1].addr;
    bool lists_files = !elf->files && add_file_symbol(elf, 0); // a sentinel, as for sorting
    for (uint32_t i = 1; i < elf->n_symbols; i++) {
        Elf64_Sym s = symbol_get(elf, i);
        limit_pass_pages(elf, i);
        if (lists_files && ELF64_ST_TYPE(s.st_info) == STT_FILE)
            lists_files = add_file_symbol(elf, i);
        if (s.st_value > last || !is_lookup_symbol(elf, &s))
            continue;
        struct candidate *c = &p->best[next_wanted(p, s.st_value)];
        if (c->symbol && (s.st_value < c->addr || (s.st_value == c->addr && s.st_size < c->size)))
            continue;
        *c = (struct candidate){s.st_value, s.st_size, i};
    }
    if (lists_files)
        elf->memory += 2 * elf->n_files * sizeof *elf->files;
    uint32_t symbol = 0;
    for (size_t i = 0; i < p->n; i++) {
        symbol = p->best[i].symbol ? p->best[i].symbol : symbol;
        p->wanted[i].symbol = symbol;
    }
}

// Adds entries with other addresses, which ascend too. Returns false if out of memory.
static bool remember_symbols(struct elf *elf, const struct elf_order *entries, size_t n)
{
    size_t old = elf->n_found;
    struct elf_order *all = realloc(elf->found, (old + n) * sizeof *all);
    if (!all)
        return false;
    elf->found = all;
    elf->n_found += n;
    elf->memory += n * sizeof *all;
    for (size_t i = old + n; n; i--)
        all[i - 1] = old && all[old - 1].addr > entries[n - 1].addr ? all[--old] : entries[--n];
    return true;
}

void elf_find_symbols(struct elf *elf, const uint64_t *addrs, size_t n)
{
    uint32_t known;
    load_symbol_table(elf);
    if (elf->order)
        return;
    struct elf_order *wanted = malloc((n + 1) * sizeof *wanted);
    size_t m = 0;
    for (size_t i = 0; wanted && i < n; i++)
        if ((m == 0 || wanted[m - 1].addr != addrs[i]) && !recall_symbol(elf, addrs[i], &known))
            wanted[m++] = (struct elf_order){addrs[i], 0};
    bool sort = m && elf->lookups++ == PASSES_BEFORE_SORTING;
    struct pass *pass = m && !sort ? new_pass(wanted, m) : NULL;
    if (sort) {
        sort_symbols(elf);
    } else if (pass) {
        pass_over_symbols(elf, pass);
        remember_symbols(elf, wanted, m);
    }
    free(pass);
    free(wanted);
}

uint32_t elf_symbol_find(struct elf *elf, uint64_t addr)
{
    uint32_t symbol;
    load_symbol_table(elf);
    if (!elf->order && recall_symbol(elf, addr, &symbol))
        return symbol;
    if (!elf->order && elf->lookups++ == PASSES_BEFORE_SORTING)
        sort_symbols(elf);
    if (!elf->order)
        return scan_for(elf, addr);
    size_t n = count_up_to(elf->order, elf->n_order, addr);
    return n ? elf->order[n - 1].symbol : 0;
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
