// DWARF 2 to 5 read in place: which unit an address belongs to, its line, and the chain of
// functions inlined there. Answers are llvm-symbolizer's, oddities included: it is the oracle.
//
// Everything is built when it is first needed and can be given back: the index of units stays
// (16 bytes a range), what a unit needed (abbreviations, functions, rows) counts as memory and
// goes when dwarf_trim is called. Any bytes may be given: reads are bounded, reference chains
// and recursion have limits. One thread at a time.
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

// alternate: what dwz moved out, may be NULL; not owned. NULL: no memory.
struct dwarf *dwarf_new(const struct dwarf_sections *sections, struct dwarf *alternate);
void dwarf_free(struct dwarf *d);

// For split DWARF: called once for a skeleton unit; the sections it fills in must live as long
// as d. false: not found.
typedef bool dwarf_split_fn(void *ctx, const char *comp_dir, const char *name, uint64_t id,
                            struct dwarf_sections *sections);
void dwarf_on_split(struct dwarf *d, dwarf_split_fn *call, void *ctx);

// Narrows the sections of a package (.dwp) to those of one split unit; index: its .debug_cu_index.
// false: the unit is not in there.
bool dwarf_package_find(struct bytes index, uint64_t id, struct dwarf_sections *sections);

// The frames at addr, innermost first, at most max; 0: no unit covers addr. What frames point
// to lives until dwarf_trim or dwarf_free.
int dwarf_lookup(struct dwarf *d, uint64_t addr, struct dwarf_frame *frames, int max);
// Many look-ups follow: build indexes now instead of scanning.
void dwarf_expect_lookups(struct dwarf *d);
// Calls back with every address at which an answer can change, unit by unit, in no order and
// some more than once. false from call ends it.
typedef bool dwarf_boundary_fn(void *ctx, uint64_t addr);
bool dwarf_each_boundary(struct dwarf *d, dwarf_boundary_fn *call, void *ctx);
// Called now and then while nothing points into the sections: the callback may give their pages
// back, and then returns true.
typedef bool dwarf_pause_fn(void *ctx);
void dwarf_on_pause(struct dwarf *d, dwarf_pause_fn *call, void *ctx);
// No table of one unit may take more bytes than this (32 MiB unless told): its rows are then
// run through again for each look-up.
void dwarf_limit_tables(struct dwarf *d, size_t bytes);
// Bytes held, and what may be forgotten is forgotten.
size_t dwarf_memory(const struct dwarf *d);
void dwarf_trim(struct dwarf *d);
