#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "symbol/elf_internal.h"
#include "symbol/mapped_file.h"

enum {
    NAMES_MAX = 1 << 20,
    HEADERS_MAX = 8 << 20,
};

static size_t page_up(size_t n)
{
    return (n + 4095) & ~(size_t)4095;
}

// Returns [offset, offset + size) of the image, or no bytes if it is out of range.
static struct bytes image_part(const struct elf *elf, uint64_t offset, uint64_t size)
{
    if (offset > elf->image.n || size > elf->image.n - offset)
        return (struct bytes){0};
    return (struct bytes){elf->image.p + offset, size, elf->image.view};
}

// Like image_part, and reads the bytes.
static struct bytes image_read(const struct elf *elf, uint64_t offset, uint64_t size)
{
    struct bytes b = image_part(elf, offset, size);
    bytes_need(b, 0, b.n);
    return b;
}

// Copies the names of a viewed file, because sections keep pointers to them while pages are
// released.
static struct bytes read_section_names(struct elf *elf, uint64_t offset, uint64_t size)
{
    if (elf->storage != ELF_VIEWED)
        return image_part(elf, offset, size);
    elf->section_names = size && size <= NAMES_MAX ? malloc(size) : NULL;
    if (!elf->section_names || !file_view_copy(elf->image.view, offset, elf->section_names, size))
        return (struct bytes){0};
    return (struct bytes){(uint8_t *)elf->section_names, size, NULL};
}

static int read_headers(struct elf *elf, struct err *e)
{
    Elf64_Ehdr h;
    image_read(elf, 0, elf->image.n < sizeof h ? elf->image.n : sizeof h);
    if (elf->image.n < EI_NIDENT || memcmp(elf->image.p, ELFMAG, SELFMAG) != 0)
        return err_set(e, "%s: not an ELF file", elf->path);
    if (elf->image.p[EI_CLASS] != ELFCLASS64 || elf->image.p[EI_DATA] != ELFDATA2LSB)
        return err_set(e, "%s: only 64-bit little-endian ELF files can be read", elf->path);
    if (elf->image.n < sizeof h)
        return err_set(e, "%s: the file ends within its ELF header", elf->path);
    memcpy(&h, elf->image.p, sizeof h);
    elf->type = h.e_type;
    elf->machine = h.e_machine;

    if (h.e_phnum && h.e_phentsize == sizeof(Elf64_Phdr)) {
        struct bytes b = image_read(elf, h.e_phoff, (uint64_t)h.e_phnum * sizeof(Elf64_Phdr));
        elf->segments = b.n ? calloc(h.e_phnum, sizeof *elf->segments) : NULL;
        for (size_t i = 0; elf->segments && i < h.e_phnum; i++) {
            Elf64_Phdr p;
            memcpy(&p, b.p + i * sizeof p, sizeof p);
            elf->segments[elf->n_segments++] = (struct elf_segment){
                p.p_type, p.p_flags, p.p_offset, p.p_vaddr, p.p_filesz, p.p_memsz, p.p_align};
        }
    }
    if (!h.e_shoff || h.e_shentsize != sizeof(Elf64_Shdr))
        return 0;
    Elf64_Shdr s;
    struct bytes first = image_read(elf, h.e_shoff, sizeof s);
    if (!first.n)
        return 0; // section headers are cut off; segments may still suffice
    memcpy(&s, first.p, sizeof s);
    uint64_t n = h.e_shnum ? h.e_shnum : s.sh_size;
    uint64_t names_at = h.e_shstrndx == SHN_XINDEX ? s.sh_link : h.e_shstrndx;
    if (n > (elf->image.n - h.e_shoff) / sizeof s ||
        (elf->storage == ELF_VIEWED && n > HEADERS_MAX / sizeof s))
        return 0;
    image_read(elf, h.e_shoff, n * sizeof s);
    elf->sections = calloc(n ? n : 1, sizeof *elf->sections);
    if (!elf->sections)
        return err_set(e, "%s: no memory for %llu sections", elf->path, (unsigned long long)n);
    elf->n_sections = (uint32_t)n;
    struct bytes names = {0};
    if (names_at < n) {
        memcpy(&s, first.p + names_at * sizeof s, sizeof s);
        names = read_section_names(elf, s.sh_offset, s.sh_size);
    }
    for (size_t i = 0; i < n; i++) {
        memcpy(&s, first.p + i * sizeof s, sizeof s);
        const char *name = bytes_string(names, s.sh_name);
        elf->sections[i] = (struct elf_section){str_from(name ? name : ""),
                                                s.sh_type,
                                                s.sh_link,
                                                s.sh_info,
                                                s.sh_flags,
                                                s.sh_addr,
                                                s.sh_offset,
                                                s.sh_size,
                                                s.sh_entsize};
    }
    return 0;
}

static void free_image(struct bytes image, int storage)
{
    if (storage == ELF_MAPPED)
        mapped_file_close(image.p, image.n);
    else if (storage == ELF_MALLOCED)
        free((void *)image.p);
    else if (storage == ELF_VIEWED)
        file_view_free(image.view);
}

static struct elf *elf_new(struct bytes image, int storage, const char *name, unsigned flags,
                           struct err *e)
{
    struct elf *elf = calloc(1, sizeof *elf);
    if (elf) {
        elf->image = image;
        elf->storage = storage;
        elf->flags = flags;
        elf->path = strdup(name);
    }
    if (!elf || !elf->path) {
        err_set(e, "%s: no memory", name);
        if (elf)
            elf_free(elf);
        else
            free_image(image, storage);
        return NULL;
    }
    if (read_headers(elf, e) != 0) {
        elf_free(elf);
        return NULL;
    }
    return elf;
}

struct elf *elf_open_bytes(struct bytes image, const char *name, unsigned flags, struct err *e)
{
    return elf_new(image, ELF_BORROWED, name, flags, e);
}

struct elf *elf_take_bytes(struct bytes image, const char *name, unsigned flags, struct err *e)
{
    return elf_new(image, ELF_MALLOCED, name, flags, e);
}

struct elf *elf_open_fd(int fd, const char *name, unsigned flags, struct err *e)
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        err_set(e, "%s: %s", name, strerror(errno));
        return NULL;
    }
    if (!S_ISREG(st.st_mode) || st.st_size < EI_NIDENT) {
        err_set(e, "%s: not an ELF file", name);
        return NULL;
    }
    void *p = mapped_file_open(fd, (size_t)st.st_size);
    if (!p) {
        err_set(e, "%s: cannot be mapped: %s", name, strerror(errno));
        return NULL;
    }
    return elf_new((struct bytes){p, (size_t)st.st_size, NULL}, ELF_MAPPED, name, flags, e);
}

static struct elf *open_view(const char *path, unsigned flags, struct err *e)
{
    struct file_view *view = file_view_open(path, e);
    if (!view)
        return NULL;
    return elf_new((struct bytes){view->p, view->n, view}, ELF_VIEWED, path, flags, e);
}

struct elf *elf_open(const char *path, unsigned flags, struct err *e)
{
    if (!(flags & ELF_OWN_PROCESS))
        return open_view(path, flags, e);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        err_set(e, "%s: %s", path, strerror(errno));
        return NULL;
    }
    struct elf *elf = elf_open_fd(fd, path, flags, e);
    close(fd);
    return elf;
}

void elf_free(struct elf *elf)
{
    if (!elf)
        return;
    for (struct elf_unpacked *u = elf->unpacked, *next; u; u = next) {
        next = u->next;
        if (u->bytes.n)
            munmap((void *)u->bytes.p, page_up(u->bytes.n));
        free(u);
    }
    elf_symbols_free(elf);
    free_image(elf->image, elf->storage);
    free(elf->section_names);
    free(elf->sections);
    free(elf->segments);
    free(elf->path);
    free(elf);
}

const char *elf_path(const struct elf *elf)
{
    return elf->path;
}

uint16_t elf_type(const struct elf *elf)
{
    return elf->type;
}

size_t elf_sections(const struct elf *elf, const struct elf_section **sections)
{
    *sections = elf->sections;
    return elf->n_sections;
}

size_t elf_segments(const struct elf *elf, const struct elf_segment **segments)
{
    *segments = elf->segments;
    return elf->n_segments;
}

size_t elf_memory(const struct elf *elf)
{
    return elf->memory + (elf->storage == ELF_VIEWED ? file_view_memory(elf->image.view) : 0);
}

size_t elf_pages(const struct elf *elf)
{
    return elf->storage == ELF_VIEWED ? elf->image.view->held : 0;
}

void elf_limit_unpacking(struct elf *elf, size_t bytes)
{
    elf->limit = bytes;
}

void elf_forget_pages(struct elf *elf)
{
    if (elf->storage == ELF_VIEWED)
        file_view_forget(elf->image.view);
    else if (elf->storage == ELF_MAPPED) // they stay in the page cache
        madvise((void *)elf->image.p, elf->image.n, MADV_DONTNEED);
}

bool elf_has_changed(const struct elf *elf)
{
    return elf->storage == ELF_VIEWED && file_view_has_changed(elf->image.view);
}

void elf_rest(struct elf *elf)
{
    if (elf->storage == ELF_VIEWED)
        file_view_rest(elf->image.view);
}

const struct elf_section *elf_find(const struct elf *elf, const char *name)
{
    struct str wanted = str_from(name);
    for (uint32_t i = 0; i < elf->n_sections; i++)
        if (str_eq(elf->sections[i].name, wanted))
            return &elf->sections[i];
    return NULL;
}

// How a section is compressed.
struct packing {
    unsigned kind; // ELFCOMPRESS_ number
    struct bytes in;
    uint64_t size; // uncompressed; 0: implausible
};

// Deflate compresses at most 1032:1. zstd has no such bound, so use a sane maximum.
static struct packing new_packing(unsigned kind, struct bytes in, uint64_t size)
{
    uint64_t most = kind == ELFCOMPRESS_ZLIB ? (uint64_t)in.n * 1032 + 64 : UINT64_C(1) << 34;
    return (struct packing){kind, in, size > most ? 0 : size};
}

// Returns false if the section is not compressed.
static bool find_packing(const struct elf_section *section, struct bytes raw, struct packing *p)
{
    if (section->flags & SHF_COMPRESSED) {
        Elf64_Chdr h;
        *p = (struct packing){0};
        if (raw.n < sizeof h)
            return true;
        bytes_need(raw, 0, sizeof h);
        memcpy(&h, raw.p, sizeof h);
        struct bytes in = {raw.p + sizeof h, raw.n - sizeof h, raw.view};
        *p = new_packing(h.ch_type, in, h.ch_size);
        return true;
    }
    if (!str_starts(section->name, STR(".zdebug_")) || raw.n <= 12)
        return false;
    bytes_need(raw, 0, 12);
    if (memcmp(raw.p, "ZLIB", 4) != 0)
        return false;
    uint64_t size = 0;
    for (int i = 4; i < 12; i++)
        size = size << 8 | raw.p[i];
    struct bytes in = {raw.p + 12, raw.n - 12, raw.view};
    *p = new_packing(ELFCOMPRESS_ZLIB, in, size);
    return true;
}

// Decompresses a section once. A failure is cached as no bytes.
static struct bytes elf_decompress(struct elf *elf, const struct elf_section *section,
                                   const struct packing *p)
{
    for (struct elf_unpacked *u = elf->unpacked; u; u = u->next)
        if (u->section == section)
            return u->bytes;
    struct elf_unpacked *u = calloc(1, sizeof *u);
    if (!u)
        return (struct bytes){0};
    u->section = section;
    u->next = elf->unpacked;
    elf->unpacked = u;
    if (p->size == 0 || (elf->limit && elf->memory + page_up(p->size) > elf->limit))
        return u->bytes;
    uint8_t *out = arena_map(page_up(p->size));
    if (!out)
        return u->bytes;
    if (!inflate_section(p->kind, p->in, out, p->size, elf->flags)) {
        munmap(out, page_up(p->size));
        return u->bytes;
    }
    elf->memory += page_up(p->size);
    u->bytes = (struct bytes){out, p->size, NULL};
    return u->bytes;
}

struct bytes elf_section_bytes(struct elf *elf, const struct elf_section *section)
{
    struct packing p;
    if (!section || section->type == SHT_NOBITS)
        return (struct bytes){0};
    struct bytes raw = image_part(elf, section->offset, section->size);
    return find_packing(section, raw, &p) ? elf_decompress(elf, section, &p) : raw;
}

size_t elf_unpacked_size(const struct elf *elf)
{
    size_t total = 0;
    for (uint32_t i = 0; i < elf->n_sections; i++) {
        const struct elf_section *section = &elf->sections[i];
        struct packing p;
        if (section->type != SHT_NOBITS &&
            find_packing(section, image_part(elf, section->offset, section->size), &p))
            total += page_up(p.size);
    }
    return total;
}

struct bytes elf_bytes(struct elf *elf, const char *name)
{
    const struct elf_section *section = elf_find(elf, name);
    char old[64];
    if (!section && strncmp(name, ".debug_", 7) == 0 && strlen(name) < sizeof old - 2) {
        old[0] = '.';
        old[1] = 'z';
        memcpy(old + 2, name + 1, strlen(name));
        section = elf_find(elf, old);
    }
    return elf_section_bytes(elf, section);
}

bool elf_has_dwarf(const struct elf *elf)
{
    const struct elf_section *s = elf_find(elf, ".debug_info");
    if (!s)
        s = elf_find(elf, ".zdebug_info");
    return s && s->type != SHT_NOBITS && s->size > 0;
}

static size_t note_build_id(struct bytes notes, uint64_t align, uint8_t *id)
{
    struct cursor c = cursor_at(notes, 0);
    if (align != 8)
        align = 4;
    while (c.end - c.p >= 12) {
        uint32_t name_size = read_u32(&c), size = read_u32(&c), type = read_u32(&c);
        if (type == NT_GNU_BUILD_ID && name_size == 4 && size > 0 && size <= ELF_BUILD_ID_MAX &&
            (size_t)(c.end - c.p) >= 4 + size && cursor_has(&c, 4 + size) &&
            !memcmp(c.p, "GNU", 4)) {
            memcpy(id, c.p + 4, size);
            return size;
        }
        cursor_skip(&c, ((uint64_t)name_size + 3) & ~UINT64_C(3));
        if (c.bad || size > (size_t)(c.end - c.p))
            return 0;
        cursor_skip(&c, ((uint64_t)size + align - 1) & ~(align - 1));
    }
    return 0;
}

size_t elf_build_id(const struct elf *elf, uint8_t id[ELF_BUILD_ID_MAX])
{
    size_t n = 0;
    for (uint32_t i = 0; i < elf->n_sections && !n; i++)
        if (elf->sections[i].type == SHT_NOTE)
            n = note_build_id(image_part(elf, elf->sections[i].offset, elf->sections[i].size), 4,
                              id);
    for (uint32_t i = 0; i < elf->n_segments && !n; i++)
        if (elf->segments[i].type == PT_NOTE)
            n = note_build_id(image_part(elf, elf->segments[i].offset, elf->segments[i].filesz),
                              elf->segments[i].align, id);
    return n;
}

size_t elf_build_id_text(const struct elf *elf, char *text)
{
    uint8_t id[ELF_BUILD_ID_MAX];
    size_t n = elf_build_id(elf, id);
    str_hex(text, id, n);
    text[2 * n] = '\0';
    return 2 * n;
}

bool elf_debuglink(struct elf *elf, const char **name, uint32_t *crc)
{
    struct bytes b = elf_bytes(elf, ".gnu_debuglink");
    struct cursor c = cursor_at(b, 0);
    *name = read_string(&c);
    cursor_skip(&c, -(uint64_t)(c.p - b.p) & 3);
    *crc = read_u32(&c);
    return !c.bad && **name;
}

bool elf_debugaltlink(struct elf *elf, const char **name, struct bytes *id)
{
    struct cursor c = cursor_at(elf_bytes(elf, ".gnu_debugaltlink"), 0);
    *name = read_string(&c);
    *id = (struct bytes){c.p, (size_t)(c.end - c.p), NULL};
    return !c.bad && **name && id->n <= ELF_BUILD_ID_MAX && cursor_has(&c, id->n);
}
