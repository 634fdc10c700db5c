// ELF files as they lie on disk: sections, segments, symbols, the build id and the ways to a
// separate debug file. 64-bit little endian only.
//
// Every length and offset is checked where it is used, so any bytes may be opened. In our own
// process files are mapped (mapped_file.h); inside a host they are read piece by piece
// (file_view.h), so that a file that is cut short or overwritten costs names and nothing else.
//
// A struct elf is used by one thread at a time; what it returns lives as long as it does.
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"
#include "symbol/bytes.h"

enum { ELF_BUILD_ID_MAX = 64 };

struct elf_section {
    struct str name;
    uint32_t type, link, info;
    uint64_t flags, addr, offset, size, entsize;
};

struct elf_segment {
    uint32_t type, flags;
    uint64_t offset, vaddr, filesz, memsz, align;
};

struct elf_symbol {
    uint64_t addr, size;
    const char *name;
    const char *file; // from the STT_FILE symbol before a local one; NULL: none
};

struct elf;

// In a process of our own, files are mapped and libraries may be loaded (dlopen) to unpack
// sections. Inside a host neither is allowed; zlib is linked.
enum { ELF_IN_HOST = 0, ELF_OWN_PROCESS = 1 };

struct elf *elf_open(const char *path, unsigned flags, struct err *e);
// Maps the file. The descriptor stays the caller's; name is for messages.
struct elf *elf_open_fd(int fd, const char *name, unsigned flags, struct err *e);
// Borrows the bytes.
struct elf *elf_open_bytes(struct bytes image, const char *name, unsigned flags, struct err *e);
void elf_free(struct elf *elf);

const char *elf_path(const struct elf *elf);
uint16_t elf_type(const struct elf *elf);
size_t elf_sections(const struct elf *elf, const struct elf_section **sections);
size_t elf_segments(const struct elf *elf, const struct elf_segment **segments);
const struct elf_section *elf_find(const struct elf *elf, const char *name);
// What a section holds, unpacked if it is compressed; no bytes if it is absent, holds none
// (SHT_NOBITS), is cut off or cannot be unpacked. `.debug_x` also finds `.zdebug_x`. Read it with a
// cursor, or after bytes_need.
struct bytes elf_bytes(struct elf *elf, const char *name);
struct bytes elf_section_bytes(struct elf *elf, const struct elf_section *section);
// Sections that would take more than this in all are not unpacked; without a call there is no
// such limit.
void elf_limit_unpacking(struct elf *elf, size_t bytes);
// Bytes that all compressed sections would take unpacked, by what the file says.
size_t elf_unpacked_size(const struct elf *elf);
// Bytes of anonymous memory that unpacked sections and pages of the file take.
size_t elf_memory(const struct elf *elf);
// Bytes of pages that elf_forget_pages would give back; pointers into the file then point at zeros,
// until what they point to is read again.
size_t elf_pages(const struct elf *elf);
void elf_forget_pages(struct elf *elf);
// Whether the file was found to be another one than was opened: answers from it mean nothing.
bool elf_has_changed(const struct elf *elf);
// Closes the file until it is read again.
void elf_rest(struct elf *elf);

// The build id, n bytes of it; 0: none.
size_t elf_build_id(const struct elf *elf, uint8_t id[ELF_BUILD_ID_MAX]);
// The same in lower-case hexadecimal; text holds 2 * ELF_BUILD_ID_MAX + 1.
size_t elf_build_id_text(const struct elf *elf, char *text);
// The name and checksum of .gnu_debuglink; false if there is none.
bool elf_debuglink(struct elf *elf, const char **name, uint32_t *crc);
// The name and build id of .gnu_debugaltlink (what dwz moved out).
bool elf_debugaltlink(struct elf *elf, const char **name, struct bytes *id);
bool elf_has_dwarf(const struct elf *elf);

// The symbol that covers addr, chosen as llvm-symbolizer does: from .symtab, or .dynsym if
// there is no .symtab; functions, objects and untyped symbols of allocated sections; the
// largest of those at one address; one without a size reaches to the next of its section.
bool elf_symbol_at(struct elf *elf, uint64_t addr, struct elf_symbol *symbol);
// The same in two steps: finding its number (0: none) may give pages of the file back, getting it
// does not.
uint32_t elf_symbol_find(struct elf *elf, uint64_t addr);
bool elf_symbol_get(struct elf *elf, uint32_t i, uint64_t addr, struct elf_symbol *symbol);
// Calls back for every symbol that elf_symbol_at would consider, in no order.
void elf_each_symbol(struct elf *elf, void (*call)(void *ctx, const struct elf_symbol *),
                     void *ctx);
struct elf_name {
    uint64_t addr;
    const char *name;
};
// All of .symtab as `nm -n` lists it (functions, data, labels): malloced, *n of them, sorted by
// address and name. NULL if memory ran out.
struct elf_name *elf_names(struct elf *elf, size_t *n);
// The next size bytes of look-ups are many: sort the symbols now.
void elf_expect_lookups(struct elf *elf);

// An open debug file for elf: by build id in each of the directories (colon-separated; NULL:
// /usr/lib/debug), then by debuglink beside the file, in .debug/ beside it and below the
// directories, its checksum tested. NULL: none.
struct elf *elf_find_debug(struct elf *elf, const char *directories, unsigned flags);
// The file that .gnu_debugaltlink of elf names.
struct elf *elf_find_alternate(struct elf *elf, const char *directories, unsigned flags);
// The small symbol table that some distributions pack into .gnu_debugdata (xz). NULL: none,
// or flags do not allow to load the library that unpacks it.
struct elf *elf_mini_debug(struct elf *elf, unsigned flags);

// What a process mapped of a file: [start, limit) from offset on. kernel: a kernel's, whose start
// is where a symbol of it is (_stext or _text), and the address of that symbol in the file.
struct elf_mapping {
    uint64_t start, limit, offset, symbol;
    bool kernel;
};
// Fills in kernel and symbol (named so, if it is there) where the name of the file or the numbers
// look like a kernel's.
void elf_mapping_kernel(struct elf *elf, struct elf_mapping *m, const char *symbol);
// Where an address of the process lies in the file's own address space. As pprof does it: an
// address outside, or one that fits no segment or several, is refused.
int elf_vaddr(const struct elf *elf, const struct elf_mapping *m, uint64_t addr, uint64_t *vaddr,
              struct err *e);
