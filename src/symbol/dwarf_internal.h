// Shared by the dwarf_*.c files.
#pragma once

#include "symbol/dwarf.h"
#include "symbol/dwarf_names.h"
#include "symbol/radix.h"

struct dwarf_unit;

// --- abbreviations ---

enum {
    ABBREV_CHILDREN = 1,
    ABBREV_CODE = 2,    // subprogram or inlined subroutine with addresses
    ABBREV_SIBLING = 4, // sibling at the fixed offset sibling_at, 4 bytes wide
    ABBREV_TYPE = 8,    // class, structure or union
    ABBREV_LEAF = 16,   // a type that never contains code
};

struct dwarf_attr {
    uint16_t name, form;
    uint32_t constant; // DW_FORM_implicit_const: index into constants
};

struct dwarf_abbrev {
    uint32_t code;
    uint16_t tag;
    uint8_t flags;
    uint8_t sibling_at;
    int32_t fixed; // size of all attributes; -1: use the steps
    uint32_t first_attr, first_step;
    uint16_t n_attrs, n_steps;
    uint16_t n_code_attrs; // attributes up to the last one that gives addresses
};

struct dwarf_abbrevs {
    uint64_t offset;
    uint8_t address_size, offset_size, version;
    bool dense; // abbreviation i has code i + 1
    uint32_t n;
    struct dwarf_abbrev *items;
    struct dwarf_attr *attrs;
    uint16_t *steps; // kind << 12 | bytes
    int64_t *constants;
    size_t memory;
    struct dwarf_abbrevs *next;
};

// For dwarf_abbrev_find: binary search in a table that is not dense.
const struct dwarf_abbrev *dwarf_abbrev_search(const struct dwarf_abbrevs *t, uint64_t code);
static inline const struct dwarf_abbrev *dwarf_abbrev_find(const struct dwarf_abbrevs *t,
                                                           uint64_t code)
{
    if (t->dense)
        return code - 1 < t->n ? &t->items[code - 1] : NULL;
    return dwarf_abbrev_search(t, code);
}
// Skips the attributes. The cursor becomes bad if they do not fit.
void dwarf_skip_steps(const struct dwarf_unit *u, const struct dwarf_abbrevs *t,
                      const struct dwarf_abbrev *a, struct cursor *c);
static inline void dwarf_skip(const struct dwarf_unit *u, const struct dwarf_abbrevs *t,
                              const struct dwarf_abbrev *a, struct cursor *c)
{
    if (a->fixed >= 0)
        cursor_skip(c, (uint64_t)a->fixed);
    else
        dwarf_skip_steps(u, t, a, c);
}

// --- units ---

struct dwarf_value {
    uint16_t form; // 0: absent
    uint64_t u;
    const uint8_t *p; // inline string
};

struct dwarf_function {
    uint64_t low;
    uint32_t size;
    uint32_t die; // offset from the start of the unit
};

struct dwarf_row {
    uint32_t address; // relative to the sequence's low
    uint32_t line;
    uint16_t file, column;
};

struct dwarf_sequence {
    uint64_t low, high;
    uint32_t first, n; // rows; the last one ends the sequence
};

struct dwarf_file {
    const char *name;
    uint32_t directory;
};

// The header of a line program.
struct dwarf_line_header {
    struct bytes program;
    uint16_t version;
    uint8_t min_length, max_ops, line_range, opcode_base, address_size, offset_size;
    int8_t line_base;
    uint8_t lengths[256];
    const char **directories;
    struct dwarf_file *files;
    uint32_t n_directories, n_files;
    char **paths; // built on demand
};

// What is known about a unit.
struct dwarf_unit {
    struct dwarf *d; // the file whose sections it reads
    uint64_t offset, end, abbrev_offset, dwo_id;
    uint32_t header_size;
    uint8_t version, address_size, offset_size, type;
    // From its first entry. Set by dwarf_unit_load.
    bool loaded, broken, listed, has_low, has_lines, split_asked;
    struct dwarf_value low_value, high_value, ranges, comp_dir, producer, dwo_name;
    uint64_t low, line_offset;
    uint64_t str_offsets_base, addr_base, rnglists_base, gnu_ranges_base;
    struct dwarf_abbrevs *abbrevs;
    // Built for lookups.
    bool has_functions, lines_read, rows_built, rows_refused;
    unsigned line_lookups;
    struct dwarf_function *functions;
    uint32_t n_functions;
    struct dwarf_line_header *lines;
    struct dwarf_sequence *sequences;
    struct dwarf_row *rows;
    uint32_t n_sequences, n_rows;
    struct dwarf *split;         // of a skeleton: the file of its split unit
    struct dwarf_unit *skeleton; // of a split unit: its skeleton
};

// All functions inlined into one function, with every range, in the order of the entries.
struct dwarf_inlines {
    const struct dwarf_unit *u;
    uint32_t die;
    struct dwarf_inline_range {
        uint64_t low, high;
        uint32_t node;
    } * ranges;
    struct dwarf_inline_node {
        uint32_t die, parent;
        bool is_function;
    } * nodes; // node 0 is the function itself
    uint32_t n_ranges, n_nodes, cap_ranges, cap_nodes;
};

struct dwarf {
    struct dwarf_sections s;
    struct dwarf *alternate;
    struct dwarf_unit *units;
    uint32_t n_units;
    bool units_ready, index_ready, aranges_read;
    unsigned lookups;
    struct radix_pair *index; // low address, unit, size
    uint32_t n_index;
    struct dwarf_abbrevs *abbrevs;
    struct dwarf_inlines inlines; // of the most recently queried function
    size_t memory;                // bytes that dwarf_trim frees
    size_t fixed_memory, table_limit;
    dwarf_split_fn *on_split;
    void *split_ctx;
    dwarf_pause_fn *on_pause;
    void *pause_ctx;
    dwarf_work_fn *on_work;
    void *work_ctx;
    uint32_t steps; // of work
    bool stopped;
    struct dwarf *splits, *next_split;
};

enum { WORK_STEPS = 1 << 14 }; // between calls of on_work

// Counts n steps of work whose amount the file's size does not bound. Returns false if the work
// must end.
static inline bool dwarf_work(struct dwarf *d, uint32_t n)
{
    d->steps += n;
    if (d->steps >= WORK_STEPS) {
        d->steps = 0;
        d->stopped |= d->on_work && !d->on_work(d->work_ctx);
    }
    return !d->stopped;
}

// Call while nothing except c (may be NULL) points into the sections, because pages may be
// released.
static inline void dwarf_pause(const struct dwarf *d, struct cursor *c)
{
    if (d->on_pause && d->on_pause(d->pause_ctx) && c && c->view)
        c->ready = c->p;
}

// Reads the unit headers. Returns false if there are no units.
bool dwarf_units_ready(struct dwarf *d);
// Read the unit's first entry, or also its abbreviations. Return false if the unit is broken.
bool dwarf_unit_load(struct dwarf_unit *u);
bool dwarf_unit_abbrevs(struct dwarf_unit *u);
// Returns the unit of .debug_info that contains offset, or NULL.
struct dwarf_unit *dwarf_unit_at(struct dwarf *d, uint64_t offset);
// Returns the unit whose code covers addr, or NULL.
struct dwarf_unit *dwarf_unit_for(struct dwarf *d, uint64_t addr);
void dwarf_abbrevs_free(struct dwarf *d);
struct dwarf_abbrevs *dwarf_abbrevs_get(struct dwarf *d, uint64_t offset, uint8_t version,
                                        uint8_t address_size, uint8_t offset_size);

// --- values ---

// Reads the value of one attribute. Resolves DW_FORM_indirect.
struct dwarf_value dwarf_read_value(const struct dwarf_unit *u, struct cursor *c, uint16_t form,
                                    int64_t constant);
const char *dwarf_string(const struct dwarf_unit *u, const struct dwarf_value *v);
// Returns a previously found text; reads it again if its page was released.
const char *dwarf_text(const struct dwarf *d, const char *text);
bool dwarf_address(const struct dwarf_unit *u, const struct dwarf_value *v, uint64_t *addr);
bool dwarf_indexed_address(const struct dwarf_unit *u, uint64_t index, uint64_t *addr);
// Returns false unless the value is a nonnegative constant.
bool dwarf_constant(const struct dwarf_value *v, uint64_t *value);
// Follows a reference. Returns the unit of the referenced entry, and its offset in .debug_info, or
// NULL.
struct dwarf_unit *dwarf_reference(const struct dwarf_unit *u, const struct dwarf_value *v,
                                   uint64_t *offset);

// --- ranges ---

struct dwarf_ranges {
    const struct dwarf_unit *u;
    struct cursor c;
    uint64_t base, low, high;
    enum { RANGES_NONE, RANGES_ONE, RANGES_OLD, RANGES_LISTS } kind;
    bool has_base;
};

// Iterates over the ranges of an entry with these attributes (form 0: absent).
struct dwarf_ranges dwarf_ranges_of(const struct dwarf_unit *u, const struct dwarf_value *low,
                                    const struct dwarf_value *high,
                                    const struct dwarf_value *ranges);
// Includes empty ranges.
bool dwarf_ranges_next(struct dwarf_ranges *r, uint64_t *low, uint64_t *high);

// --- functions and lines ---

struct dwarf_chain {
    struct dwarf_unit *u;
    int n;                          // innermost first
    uint32_t dies[DWARF_CHAIN_MAX]; // offsets from the start of the unit
};

// Finds the entries of the functions at addr, from the innermost inlined one outwards. n is 0 if
// there are none.
void dwarf_find_chain(struct dwarf_unit *u, uint64_t addr, struct dwarf_chain *chain);
// Fills u->functions.
void dwarf_functions_ready(struct dwarf_unit *u);
void dwarf_functions_free(struct dwarf_unit *u);
// Returns the functions inlined into the function at die. Valid until the next call.
const struct dwarf_inlines *dwarf_inlines_of(struct dwarf_unit *u, uint32_t die);
void dwarf_frame_of(struct dwarf_unit *u, uint32_t die, struct dwarf_frame *frame,
                    uint64_t *call_file, uint32_t *call_line, uint32_t *call_column);

// Returns the header of the unit's line table, or NULL.
struct dwarf_line_header *dwarf_lines(struct dwarf_unit *u);
void dwarf_lines_free(struct dwarf_unit *u);
// Fills u->sequences and u->rows.
void dwarf_rows_ready(struct dwarf_unit *u);
// Finds the row for addr. Returns false if there is none.
bool dwarf_line_at(struct dwarf_unit *u, uint64_t addr, struct dwarf_row *row);
// Returns the path of file number i, or NULL.
const char *dwarf_file_path(struct dwarf_unit *u, uint64_t i);
