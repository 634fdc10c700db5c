// Reads DWARF 2 to 5 in place: the unit of an address, its line, and the chain of functions inlined
// there. Results equal llvm-symbolizer's, including its quirks, because it is the test oracle.
//
// Everything is built on first use. The index of units stays (16 bytes per range). What lookups
// need per unit (abbreviations, functions, rows) counts as memory, and dwarf_trim frees it. Any
// input is safe: reads are bounded, reference chains and recursion are limited. Use a struct dwarf
// from one thread at a time.
#pragma once

#include "symbol/bytes.h"

struct dwarf_sections {
    struct bytes info, abbrev, line, line_str, str, str_offsets, addr, ranges, rnglists, aranges;
};

enum { DWARF_CHAIN_MAX = 256 };

struct dwarf_frame {
    const char *name; // linkage name, else name; NULL: unknown
    const char *file; // NULL: unknown
    uint32_t line, column, start_line;
};

struct dwarf;

// The sections must outlive the result. alternate is the file that dwz created; it may be NULL and
// stays the caller's. Returns NULL if out of memory.
struct dwarf *dwarf_new(const struct dwarf_sections *sections, struct dwarf *alternate);
void dwarf_free(struct dwarf *d);

// Callback for split DWARF, called once per skeleton unit. The sections it fills in must live as
// long as d. Returns false if the split unit was not found.
typedef bool dwarf_split_fn(void *ctx, const char *comp_dir, const char *name, uint64_t id,
                            struct dwarf_sections *sections);
void dwarf_on_split(struct dwarf *d, dwarf_split_fn *call, void *ctx);

// Narrows sections of a package (.dwp) to one split unit. index is the .debug_cu_index section.
// Returns false if the package does not contain the unit.
bool dwarf_package_find(struct bytes index, uint64_t id, struct dwarf_sections *sections);

// Looks up addr. Fills in at most max frames, innermost first, and returns their number; 0 if no
// unit covers addr. The texts live until dwarf_trim or dwarf_free.
int dwarf_lookup(struct dwarf *d, uint64_t addr, struct dwarf_frame *frames, int max);
// Announces many lookups: builds indexes now instead of scanning.
void dwarf_expect_lookups(struct dwarf *d);
// Calls call with every address at which the result of a lookup can change, unit by unit, in no
// order and with duplicates. Stops when call returns false.
typedef bool dwarf_boundary_fn(void *ctx, uint64_t addr);
bool dwarf_each_boundary(struct dwarf *d, dwarf_boundary_fn *call, void *ctx);
// Callback for moments when nothing points into the sections. It may release their pages; then it
// must return true.
typedef bool dwarf_pause_fn(void *ctx);
void dwarf_on_pause(struct dwarf *d, dwarf_pause_fn *call, void *ctx);
// Callback during long work. If it returns false, the work ends, and lookups find nothing any more.
typedef bool dwarf_work_fn(void *ctx);
void dwarf_on_work(struct dwarf *d, dwarf_work_fn *call, void *ctx);
// Limits the size of a table (default 32 MiB). Beyond it, each lookup runs the line program again,
// and other tables are incomplete.
void dwarf_limit_tables(struct dwarf *d, size_t bytes);
// dwarf_memory returns the bytes held. dwarf_trim frees what can be rebuilt.
size_t dwarf_memory(const struct dwarf *d);
void dwarf_trim(struct dwarf *d);
