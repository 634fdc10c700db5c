// From an address in a process to one in the file. The rules, with the oddities of kernels,
// are those of pprof, so that one profile gives one answer with both.
#include <elf.h>

#include "symbol/elf_internal.h"

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

// Whether the mapping [offset, offset + size) of the file can come from this segment.
static bool segment_fits(const struct elf_segment *s, uint64_t offset, uint64_t size)
{
    const uint64_t page = 4096;
    uint64_t limit = offset + size, segment_limit = s->offset + s->memsz;
    if (s->type != PT_LOAD || s->filesz == 0 || offset >= segment_limit || s->offset >= limit)
        return false;
    uint64_t slack = s->vaddr & (s->align - 1);
    uint64_t aligned = s->offset > slack ? s->offset - slack : 0;
    if (offset < aligned)
        return false;
    // It covers less than a page of the segment and goes on behind it: the next one's.
    return !(offset > s->offset && segment_limit < offset + page && limit >= segment_limit + page);
}

static int find_segment(const struct elf *elf, uint64_t start, uint64_t limit, uint64_t offset,
                        uint64_t addr, const struct elf_segment **found, struct err *e)
{
    *found = NULL;
    if (start >= limit || limit >= UINT64_C(1) << 63) {
        *found = text_segment(elf);
        return 0;
    }
    unsigned loads = 0, fitting = 0, containing = 0;
    const struct elf_segment *fits = NULL, *contains = NULL;
    uint64_t file_offset = addr - start + offset;
    for (uint32_t i = 0; i < elf->n_segments; i++) {
        const struct elf_segment *s = &elf->segments[i];
        loads += s->type == PT_LOAD;
        if (!segment_fits(s, offset, limit - start))
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

// A file that was stripped down to its debug sections does not tell where in the binary its code
// was, but how large it was: a mapping of just that size begins where the code begins.
static bool place_in_debug_file(const struct elf *elf, uint64_t start, uint64_t limit,
                                uint64_t addr, uint64_t *vaddr)
{
    const uint64_t mask = 4095;
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
    *vaddr = addr - start + first;
    return end - first == ((limit - start + mask) & ~mask);
}

int elf_vaddr(const struct elf *elf, uint64_t start, uint64_t limit, uint64_t offset, uint64_t addr,
              uint64_t *vaddr, struct err *e)
{
    const uint64_t kernel = UINT64_C(1) << 63;
    if (start == 0 && offset == 0 && (limit == UINT64_MAX || limit == 0)) {
        *vaddr = addr; // a mapping made up for addresses that need none
        return 0;
    }
    if (addr < start || addr >= limit)
        return err_set(e, "%s: address %llx is outside of its mapping", elf->path,
                       (unsigned long long)addr);
    if (place_in_debug_file(elf, start, limit, addr, vaddr))
        return 0;
    const struct elf_segment *s;
    if (find_segment(elf, start, limit, offset, addr, &s, e) != 0)
        return -1;
    uint64_t base = 0;
    switch (elf->type) {
    case ET_EXEC:
    case ET_DYN:
        if (!s)
            base = elf->type == ET_EXEC ? 0 : start - offset;
        else if (elf->type == ET_EXEC && start > 0 && start < kernel)
            base = start - offset + s->offset - s->vaddr;
        else if (s->vaddr == start - offset)
            base = offset;
        else if (start >= kernel && limit > start && (offset == 0 || offset == start))
            base = start - s->vaddr;
        else if (elf->type == ET_EXEC && start == 0)
            base = start - s->vaddr;
        else if (elf->type == ET_DYN)
            base = start - offset + s->offset - s->vaddr;
        else
            return err_set(e, "%s: the mapping at %llx fits no executable", elf->path,
                           (unsigned long long)start);
        break;
    case ET_REL:
        if (offset != 0)
            return err_set(e, "%s: an object file mapped with an offset", elf->path);
        base = start;
        break;
    default:
        return err_set(e, "%s: not an executable or a library", elf->path);
    }
    *vaddr = addr - base;
    return 0;
}
