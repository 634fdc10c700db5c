// Reads ELF files: sections, segments, symbols, the build id, and the links to separate debug
// files. Supports 64-bit little endian only.
//
// Every length and offset is checked at its use, so any input is safe. kiln's own processes map
// files (mapped_file.h). Inside a host, files are read piece by piece (file_view.h), so a truncated
// or overwritten file costs only names.
//
// Use a struct elf from one thread at a time. Pointers it returns live as long as it does.
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
    const char *file; // from the STT_FILE symbol before a local symbol; NULL: unknown
};

struct elf;

// ELF_OWN_PROCESS: in kiln's own process, files are mapped and libraries may be loaded (dlopen) to
// decompress sections. ELF_IN_HOST: neither is allowed; only zlib is available because it is
// linked.
enum { ELF_IN_HOST = 0, ELF_OWN_PROCESS = 1 };

// Each elf_open function returns NULL with e filled on failure.
struct elf *elf_open(const char *path, unsigned flags, struct err *e);
// Maps the file. The descriptor stays the caller's. name is for messages.
struct elf *elf_open_fd(int fd, const char *name, unsigned flags, struct err *e);
// Borrows the bytes, which must outlive the result.
struct elf *elf_open_bytes(struct bytes image, const char *name, unsigned flags, struct err *e);
void elf_free(struct elf *elf);

// The path or name with which the file was opened.
const char *elf_path(const struct elf *elf);
uint16_t elf_type(const struct elf *elf);
size_t elf_sections(const struct elf *elf, const struct elf_section **sections);
size_t elf_segments(const struct elf *elf, const struct elf_segment **segments);
const struct elf_section *elf_find(const struct elf *elf, const char *name);
// Returns the contents of a section, decompressed if necessary. Returns no bytes if the section is
// absent, empty (SHT_NOBITS), cut off, or cannot be decompressed. `.debug_x` also finds
// `.zdebug_x`. Read the bytes with a cursor, or after bytes_need.
struct bytes elf_bytes(struct elf *elf, const char *name);
struct bytes elf_section_bytes(struct elf *elf, const struct elf_section *section);
// Limits the total size of decompressed sections. Sections beyond the limit stay compressed and
// have no bytes. Default: unlimited.
void elf_limit_unpacking(struct elf *elf, size_t bytes);
// Returns the total decompressed size of all compressed sections, according to their headers.
size_t elf_unpacked_size(const struct elf *elf);
// Returns the bytes of anonymous memory for decompressed sections and pages of the file.
size_t elf_memory(const struct elf *elf);
// elf_pages returns the bytes of file pages held, 0 for a mapped file. elf_forget_pages releases
// them; pointers into a file that is not mapped then read zeros until the bytes are read again.
size_t elf_pages(const struct elf *elf);
void elf_forget_pages(struct elf *elf);
// Whether the file changed since it was opened. Results from it are then invalid.
bool elf_has_changed(const struct elf *elf);
// Closes the file until the next read.
void elf_rest(struct elf *elf);

// Copies the build id and returns its length; 0 if there is none.
size_t elf_build_id(const struct elf *elf, uint8_t id[ELF_BUILD_ID_MAX]);
// Writes the build id as lowercase hexadecimal and returns the length. text must have room for 2 *
// ELF_BUILD_ID_MAX + 1 bytes.
size_t elf_build_id_text(const struct elf *elf, char *text);
// Reads the name and checksum of .gnu_debuglink. Returns false if there is none.
bool elf_debuglink(struct elf *elf, const char **name, uint32_t *crc);
// Reads the name and build id of .gnu_debugaltlink (the file that dwz created).
bool elf_debugaltlink(struct elf *elf, const char **name, struct bytes *id);
bool elf_has_dwarf(const struct elf *elf);

// Finds the symbol that covers addr, with llvm-symbolizer's rules. Uses .symtab, or .dynsym if
// there is no .symtab. Considers functions, objects and untyped symbols of allocated sections. The
// largest symbol at an address wins. A symbol without a size extends to the next symbol, but not
// beyond its section.
bool elf_symbol_at(struct elf *elf, uint64_t addr, struct elf_symbol *symbol);
// The two steps of elf_symbol_at. elf_symbol_find returns the symbol's number (0: none) and may
// release pages of the file. elf_symbol_get does not.
uint32_t elf_symbol_find(struct elf *elf, uint64_t addr);
bool elf_symbol_get(struct elf *elf, uint32_t i, uint64_t addr, struct elf_symbol *symbol);
// Calls call for every symbol that elf_symbol_at considers, in no order.
void elf_each_symbol(struct elf *elf, void (*call)(void *ctx, const struct elf_symbol *),
                     void *ctx);
struct elf_name {
    uint64_t addr;
    const char *name;
};
// Lists .symtab like `nm -n` (functions, data, labels), sorted by address and name. Returns a
// malloced array of *n names, or NULL if out of memory.
struct elf_name *elf_names(struct elf *elf, size_t *n);
// Announces lookups of these addresses, which ascend: finds their symbols in one pass over the
// table, which takes less time and memory than sorting it.
void elf_find_symbols(struct elf *elf, const uint64_t *addrs, size_t n);
// Announces many lookups: sorts the symbols now.
void elf_expect_lookups(struct elf *elf);
// Returns the bytes that sorting the symbols takes. Decompresses the symbol table.
size_t elf_sorting_size(struct elf *elf);

// Opens the debug file of elf. Searches by build id in each of the directories (colon-separated;
// NULL means /usr/lib/debug). Then searches by debuglink beside the file, in .debug/ beside it and
// below the directories, and checks the checksum. Returns NULL if there is none.
struct elf *elf_find_debug(struct elf *elf, const char *directories, unsigned flags);
// Opens the file that .gnu_debugaltlink of elf names. Returns NULL if there is none.
struct elf *elf_find_alternate(struct elf *elf, const char *directories, unsigned flags);
// Opens the small symbol table in .gnu_debugdata (xz) that some distributions include. Returns NULL
// if there is none, or if flags forbid loading liblzma.
struct elf *elf_mini_debug(struct elf *elf, unsigned flags);

// A mapping of a file in a process: [start, limit) from offset on. kernel: a kernel, whose start is
// the address of a symbol (_stext or _text); symbol is the address of that symbol in the file.
struct elf_mapping {
    uint64_t start, limit, offset, symbol;
    bool kernel;
};
// Sets kernel and symbol (if the file has a symbol with this name), provided the file name or the
// addresses look like a kernel.
void elf_mapping_kernel(struct elf *elf, struct elf_mapping *m, const char *symbol);
// Converts an address of the process to a virtual address of the file, with pprof's rules. Returns
// -1 with e filled if the address is outside the mapping, or if it matches no segment or several.
int elf_vaddr(const struct elf *elf, const struct elf_mapping *m, uint64_t addr, uint64_t *vaddr,
              struct err *e);
