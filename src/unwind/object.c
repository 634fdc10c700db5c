#include "unwind/object.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

// Larger than any real .eh_frame; invalid input may ask for more.
#define FRAME_MAX ((size_t)1 << 30)

void object_frames_fini(struct object_frames *f)
{
    for (unsigned i = 0; i < 3; i++)
        process_unmap(f->memory[i], f->n_memory[i]);
    *f = (struct object_frames){0};
}

static const uint8_t *copy_from_memory(struct object_frames *f, unsigned slot, uintptr_t from,
                                       size_t n)
{
    void *p = process_map(n);
    if (!p)
        return NULL;
    f->memory[slot] = p;
    f->n_memory[slot] = n;
    return process_copy(p, from, n) == 0 ? p : NULL;
}

// The program headers do not contain the end of .eh_frame; the FDE with the highest address
// determines it.
static uintptr_t eh_frame_end(const struct eh_table *table, uintptr_t limit)
{
    uint64_t last = 0;
    for (uint64_t i = 0; i < table->count; i++) {
        uint64_t begin, fde;
        eh_table_get(table, i, &begin, &fde);
        if (fde > last && fde < limit)
            last = fde;
    }
    uint32_t length;
    if (last < table->frame_address || limit - last < 4 || process_copy(&length, last, 4) != 0 ||
        length > limit - last - 4)
        return limit;
    return last + 4 + length;
}

int object_from_memory(struct object_frames *f, uintptr_t header, size_t n, uintptr_t limit)
{
    *f = (struct object_frames){0};
    struct eh_table table;
    const uint8_t *p = n && n < FRAME_MAX ? copy_from_memory(f, 0, header, n) : NULL;
    if (!p)
        goto bad;
    f->in.header = (struct eh_section){p, n, header};
    if (!eh_table_open(&f->in.header, &table) || table.frame_address >= limit)
        goto bad;
    uintptr_t end = eh_frame_end(&table, limit);
    if (end <= table.frame_address || end - table.frame_address > FRAME_MAX)
        goto bad;
    n = end - table.frame_address;
    p = copy_from_memory(f, 1, table.frame_address, n);
    if (!p)
        goto bad;
    f->in.frame = (struct eh_section){p, n, table.frame_address};
    return 0;
bad:
    object_frames_fini(f);
    return -1;
}

size_t object_build_id(const uint8_t *notes, size_t n, size_t align, const uint8_t **id)
{
    struct reader r = {notes, notes + n, false};
    if (align != 8)
        align = 4;
    while (reader_left(&r) >= 12) {
        uint64_t name = reader_u32(&r), size = reader_u32(&r), type = reader_u32(&r);
        const uint8_t *at = r.p;
        reader_skip(&r, (name + align - 1) & ~(uint64_t)(align - 1));
        const uint8_t *data = r.p;
        reader_skip(&r, (size + align - 1) & ~(uint64_t)(align - 1));
        if (size > (size_t)(notes + n - data))
            break;
        if (type == NT_GNU_BUILD_ID && name == 4 && memcmp(at, "GNU", 4) == 0 && size <= 64) {
            *id = data;
            return size;
        }
        if (r.bad)
            break;
    }
    return 0;
}

static bool read_object_at(int fd, void *to, size_t n, uint64_t offset)
{
    uint8_t *p = to;
    while (n > 0) {
        ssize_t got = offset > INT64_MAX ? 0 : pread(fd, p, n, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        p += got;
        n -= (size_t)got;
        offset += (uint64_t)got;
    }
    return true;
}

// Copies a part of the file into f's memory. Returns NULL if it cannot be read.
static uint8_t *load_file_part(struct object_frames *f, unsigned slot, int fd, uint64_t offset,
                               uint64_t n)
{
    if (n == 0 || n > FRAME_MAX)
        return NULL;
    process_unmap(f->memory[slot], f->n_memory[slot]);
    f->memory[slot] = process_map(n);
    f->n_memory[slot] = n;
    return f->memory[slot] && read_object_at(fd, f->memory[slot], n, offset) ? f->memory[slot]
                                                                             : NULL;
}

static bool section_is_named(const uint8_t *names, size_t n_names, const Elf64_Shdr *s,
                             const char *name)
{
    size_t n = strlen(name) + 1;
    return s->sh_name <= n_names && n <= n_names - s->sh_name &&
           memcmp(names + s->sh_name, name, n) == 0;
}

// Whether the note contains this build id.
static bool note_has_build_id(int fd, const Elf64_Shdr *note, const uint8_t *build_id, size_t n)
{
    uint8_t notes[512];
    const uint8_t *id;
    return note->sh_size <= sizeof notes &&
           read_object_at(fd, notes, note->sh_size, note->sh_offset) &&
           object_build_id(notes, note->sh_size, note->sh_addralign, &id) == n &&
           memcmp(id, build_id, n) == 0;
}

static int load_frame_sections(struct object_frames *f, int fd, const uint8_t *build_id,
                               size_t n_build_id)
{
    Elf64_Ehdr h;
    if (!read_object_at(fd, &h, sizeof h, 0) || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 ||
        h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_shentsize != sizeof(Elf64_Shdr) ||
        h.e_shstrndx >= h.e_shnum)
        return -1;
    const Elf64_Shdr *s =
        (void *)load_file_part(f, 0, fd, h.e_shoff, (uint64_t)h.e_shnum * sizeof *s);
    if (!s)
        return -1;
    size_t n_names = s[h.e_shstrndx].sh_size;
    const uint8_t *names = load_file_part(f, 1, fd, s[h.e_shstrndx].sh_offset, n_names);
    if (!names)
        return -1;
    Elf64_Shdr eh = {0}, header = {0}, debug = {0};
    bool same = n_build_id == 0;
    for (unsigned i = 0; i < h.e_shnum; i++) {
        if (s[i].sh_type == SHT_NOTE) {
            same = same || note_has_build_id(fd, &s[i], build_id, n_build_id);
        } else if (s[i].sh_type == SHT_NOBITS) {
            continue;
        } else if (section_is_named(names, n_names, &s[i], ".eh_frame")) {
            eh = s[i];
        } else if (section_is_named(names, n_names, &s[i], ".eh_frame_hdr")) {
            header = s[i];
        } else if (section_is_named(names, n_names, &s[i], ".debug_frame") &&
                   !(s[i].sh_flags & SHF_COMPRESSED)) {
            debug = s[i];
        }
    }
    if (!same)
        return -1;
    // crtend.o adds a terminator even to an empty section.
    f->in.debug_frame = eh.sh_size <= 4;
    const Elf64_Shdr *use = f->in.debug_frame ? &debug : &eh;
    const uint8_t *p = load_file_part(f, 1, fd, use->sh_offset, use->sh_size);
    f->in.frame = (struct eh_section){p, use->sh_size, use->sh_addr};
    if (p && !f->in.debug_frame && header.sh_size) {
        const uint8_t *q = load_file_part(f, 2, fd, header.sh_offset, header.sh_size);
        f->in.header = (struct eh_section){q, q ? header.sh_size : 0, header.sh_addr};
    }
    return p ? 0 : -1;
}

static int open_object(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
        close(fd);
        return -1;
    }
    return fd;
}

bool object_bias(const char *path, uint64_t file_offset, uintptr_t start, uintptr_t *bias)
{
    Elf64_Ehdr h;
    bool found = false;
    int fd = open_object(path);
    if (fd < 0)
        return false;
    if (read_object_at(fd, &h, sizeof h, 0) && memcmp(h.e_ident, ELFMAG, SELFMAG) == 0 &&
        h.e_ident[EI_CLASS] == ELFCLASS64 && h.e_phentsize == sizeof(Elf64_Phdr))
        for (unsigned i = 0; i < h.e_phnum && !found; i++) {
            Elf64_Phdr ph;
            if (!read_object_at(fd, &ph, sizeof ph, h.e_phoff + i * sizeof ph))
                break;
            found = ph.p_type == PT_LOAD && (ph.p_flags & PF_X) && ph.p_filesz > 0 &&
                    file_offset + 4096 > ph.p_offset && file_offset < ph.p_offset + ph.p_filesz;
            *bias = start - (uintptr_t)(ph.p_vaddr + file_offset - ph.p_offset);
        }
    close(fd);
    return found;
}

int object_from_file(struct object_frames *f, const char *path, uintptr_t bias,
                     const uint8_t *build_id, size_t n)
{
    *f = (struct object_frames){.shift = bias};
    int fd = open_object(path);
    if (fd < 0)
        return -1;
    int result = load_frame_sections(f, fd, build_id, n);
    close(fd);
    if (result != 0)
        object_frames_fini(f);
    return result;
}
