// Memory maps: the lines of /proc/<pid>/maps and the shorter forms at the end of older formats.
// Also finds the mapping that contains an address.
#pragma once

#include "codec/scan.h"
#include "model/builder.h"

// The fields of one line as text, not validated. Missing fields are empty.
struct maps_entry {
    struct str start, limit, perm, offset, file, build_id;
};

// Returns false if the line is not a mapping.
bool maps_parse(struct str line, struct maps_entry *entry);
// Converts an executable mapping. Returns false if the line is not a mapping, if a number does not
// fit, or if the mapping is not executable; only in the last case is *is_mapping true.
bool maps_parse_mapping(struct model_strings *strings, struct str line,
                        struct model_mapping *mapping, bool *is_mapping);

// Adds the executable mappings in the remaining lines to b. A line `attr=value` defines $attr for
// the lines that follow. Other lines are skipped. Fails through the arena if replacements expand to
// too much text.
void maps_read(struct model_builder *b, struct scan_lines *lines);

// Prepares the mappings as pprof does: joins mappings that were split and moves the main binary to
// the front. Assigns ids to the mappings.
void maps_massage(struct model_builder *b);
// Moves the main binary to the front and assigns ids to the mappings.
void maps_main_first(struct model_builder *b);
// Keeps the locations and functions that samples use, in the order of their first use, and assigns
// ids to them.
void maps_renumber(struct model_builder *b);
// Gives every location without a mapping the one that contains its address, or else an artificial
// mapping that contains everything.
void maps_assign(struct model_builder *b);

// An index to find the first mapping, in the profile's order, that contains an address. It lives in
// arena and copies the ranges.
struct maps_index;
struct maps_index *maps_index_new(struct arena *arena, const struct model_profile *p);
// Returns MODEL_NONE if no mapping contains the address.
uint32_t maps_find(const struct maps_index *index, uint64_t address);
