// Converts addresses of a process to addresses of a file. The rules equal pprof's, including those
// for kernels, so that both tools give the same result for a profile.
#include <elf.h>

#include "symbol/elf_internal.h"

#define PAGE UINT64_C(4096)
#define KERNEL (UINT64_C(1) << 63) // kernel addresses start here

static const struct elf_segment *text_segment(const struct elf *elf)
{
    const struct elf_section *text = elf_find(elf, ".text");
    for (uint32_t i = 0; text && i < elf->n_segments; i++) {
        const struct elf_segment *s = &elf->segments[i];
        if (s->type == PT_LOAD && (s->flags & PF_X) && text->addr >= s->vaddr &&
            text->addr - s->vaddr < s->memsz)
            return s;
    }
    return NULL;
}

// Whether the mapping [offset, offset + size) of the file can belong to this segment.
static bool segment_fits(const struct elf_segment *s, uint64_t offset, uint64_t size)
{
    uint64_t limit = offset + size, segment_limit = s->offset + s->memsz;
    if (s->type != PT_LOAD || s->filesz == 0 || offset >= segment_limit || s->offset >= limit)
        return false;
    uint64_t slack = s->vaddr & (s->align - 1);
    uint64_t aligned = s->offset > slack ? s->offset - slack : 0;
    if (offset < aligned)
        return false;
    // It covers less than a page of the segment and continues after it, so it belongs to the next
    // one.
    return !(offset > s->offset && segment_limit < offset + PAGE && limit >= segment_limit + PAGE);
}

static int find_segment(const struct elf *elf, const struct elf_mapping *m, uint64_t addr,
                        const struct elf_segment **found, struct err *e)
{
    *found = NULL;
    if (m->kernel || m->start >= m->limit || m->limit >= KERNEL) {
        *found = text_segment(elf);
        return 0;
    }
    unsigned loads = 0, fitting = 0, containing = 0;
    const struct elf_segment *fits = NULL, *contains = NULL;
    uint64_t file_offset = addr - m->start + m->offset;
    for (uint32_t i = 0; i < elf->n_segments; i++) {
        const struct elf_segment *s = &elf->segments[i];
        loads += s->type == PT_LOAD;
        if (!segment_fits(s, m->offset, m->limit - m->start))
            continue;
        fitting++;
        fits = s;
        if (file_offset >= s->offset && file_offset - s->offset < s->memsz) {
            containing++;
            contains = s;
        }
    }
    if (loads == 0)
        return 0;
    if (fitting == 0)
        return err_set(e, "%s: no segment matches the mapping", elf->path);
    if (fitting > 1 && containing != 1)
        return err_set(e, "%s: %s segment matches file offset %llx", elf->path,
                       containing ? "more than one" : "no", (unsigned long long)file_offset);
    *found = fitting == 1 ? fits : contains;
    return 0;
}

// A debug file, stripped to its debug sections, does not contain the file offset of the code but
// its size. A mapping of exactly that size starts at the start of the code.
static bool place_in_debug_file(const struct elf *elf, const struct elf_mapping *m, uint64_t addr,
                                uint64_t *vaddr)
{
    const uint64_t mask = PAGE - 1;
    const struct elf_segment *code = NULL;
    for (uint32_t i = 0; i < elf->n_segments; i++) {
        const struct elf_segment *s = &elf->segments[i];
        if (s->type != PT_LOAD || !(s->flags & PF_X))
            continue;
        if (code || s->filesz != 0)
            return false;
        code = s;
    }
    if (!code)
        return false;
    uint64_t first = code->vaddr & ~mask, end = (code->vaddr + code->memsz + mask) & ~mask;
    *vaddr = addr - m->start + first;
    return end - first == ((m->limit - m->start + mask) & ~mask);
}

struct wanted_symbol {
    const char *name;
    struct elf_mapping *m;
};

static void find_kernel_symbol(void *ctx, const struct elf_symbol *symbol)
{
    struct wanted_symbol *w = ctx;
    if (w->m->kernel || strcmp(symbol->name, w->name) != 0)
        return;
    w->m->kernel = true;
    w->m->symbol = symbol->addr;
}

void elf_mapping_kernel(struct elf *elf, struct elf_mapping *m, const char *symbol)
{
    // Reading all symbols is expensive, and kernels are rare.
    if (!strstr(elf->path, "vmlinux") && ((m->start | m->limit | m->offset) & (PAGE - 1)) == 0)
        return;
    struct wanted_symbol w = {symbol, m};
    elf_each_symbol(elf, find_kernel_symbol, &w);
}

// Computes the base of a kernel. perf starts the mapping at the address of _text or _stext.
// ChromeOS moves the whole mapping to address 0. Returns false if this is not a kernel.
static bool kernel_base(const struct elf_segment *s, const struct elf_mapping *m, uint64_t *base)
{
    const uint64_t powerpc = UINT64_C(0xc000000000000000);
    bool same_place = m->kernel && ((m->start ^ m->symbol) & (PAGE - 1)) == 0;
    if (s->vaddr == m->start - m->offset)
        *base = m->offset;
    else if (m->start == 0 && m->limit != 0 && m->kernel)
        *base = m->start - m->symbol;
    else if (m->start >= KERNEL && m->limit > m->start &&
             (m->offset == 0 || m->offset == powerpc || m->offset == m->start))
        *base = m->start - (same_place ? m->symbol : s->vaddr);
    else if (m->start % PAGE != 0 && same_place)
        *base = m->start - m->symbol;
    else
        return false;
    return true;
}

int elf_vaddr(const struct elf *elf, const struct elf_mapping *m, uint64_t addr, uint64_t *vaddr,
              struct err *e)
{
    if (m->start == 0 && m->offset == 0 && (m->limit == UINT64_MAX || m->limit == 0)) {
        *vaddr = addr; // an artificial mapping; addresses need no translation
        return 0;
    }
    if (addr < m->start || addr >= m->limit)
        return err_set(e, "%s: address %llx is outside of its mapping", elf->path,
                       (unsigned long long)addr);
    if (place_in_debug_file(elf, m, addr, vaddr))
        return 0;
    const struct elf_segment *s;
    if (find_segment(elf, m, addr, &s, e) != 0)
        return -1;
    uint64_t base = 0, moved = s ? m->start - m->offset + s->offset - s->vaddr : 0;
    switch (elf->type) {
    case ET_EXEC:
        if (!s)
            base = 0;
        else if (!m->kernel && m->start > 0 && m->start < KERNEL)
            base = moved;
        else if (kernel_base(s, m, &base))
            break;
        else if (m->start == 0 && m->limit != 0 && !m->kernel)
            base = m->start - s->vaddr;
        else
            return err_set(e, "%s: the mapping at %llx matches no executable", elf->path,
                           (unsigned long long)m->start);
        break;
    case ET_DYN:
        if (!s)
            base = m->start - m->offset;
        else if (!kernel_base(s, m, &base))
            base = moved;
        break;
    case ET_REL:
        if (m->offset != 0)
            return err_set(e, "%s: an object file mapped with an offset", elf->path);
        base = m->start;
        break;
    default:
        return err_set(e, "%s: not an executable or a library", elf->path);
    }
    *vaddr = addr - base;
    return 0;
}
