// The symbol table as `nm -n` lists it: every named address, code or not, sorted by address and
// name. For pprof, a function ends where the next name begins.
#include <elf.h>
#include <stdlib.h>

#include "symbol/elf_internal.h"

static bool is_nm_symbol(const struct elf *elf, const Elf64_Sym *s, const char *name)
{
    unsigned type = ELF64_ST_TYPE(s->st_info);
    if (type == STT_FILE || type == STT_SECTION || s->st_shndx == SHN_UNDEF || !name || !*name)
        return false;
    return !((elf->machine == EM_AARCH64 || elf->machine == EM_RISCV) && *name == '$');
}

static int by_address_and_name(const void *a, const void *b)
{
    const struct elf_name *x = a, *y = b;
    if (x->addr != y->addr)
        return x->addr < y->addr ? -1 : 1;
    return strcmp(x->name, y->name);
}

struct elf_name *elf_names(struct elf *elf, size_t *n)
{
    const struct elf_section *table = NULL;
    for (uint32_t i = 0; i < elf->n_sections && !table; i++)
        if (elf->sections[i].type == SHT_SYMTAB)
            table = &elf->sections[i];
    *n = 0;
    struct bytes symbols = {0}, strings = {0};
    if (table && table->link < elf->n_sections) {
        symbols = elf_section_bytes(elf, table);
        strings = elf_section_bytes(elf, &elf->sections[table->link]);
    }
    size_t count = symbols.n / sizeof(Elf64_Sym);
    struct elf_name *names = malloc((count + 1) * sizeof *names);
    for (size_t i = 1; names && i < count; i++) {
        Elf64_Sym s;
        bytes_need(symbols, i * sizeof s, sizeof s);
        memcpy(&s, symbols.p + i * sizeof s, sizeof s);
        const char *name = bytes_string(strings, s.st_name);
        if (is_nm_symbol(elf, &s, name))
            names[(*n)++] = (struct elf_name){s.st_value, name};
    }
    if (names)
        qsort(names, *n, sizeof *names, by_address_and_name);
    return names;
}
