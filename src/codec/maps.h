// Memory maps: the lines of /proc/<pid>/maps and their shorter relatives that stand at the
// end of the older formats, and which mapping an address belongs to.
#pragma once

#include "codec/scan.h"
#include "model/builder.h"

// One line, taken apart but not judged; empty where the line has nothing.
struct maps_entry {
    struct str start, limit, perm, offset, file, build_id;
};

// False if the line describes no mapping.
bool maps_parse(struct str line, struct maps_entry *entry);
// False if the line describes no mapping, or one that is not executable (then *is_mapping
// is true), or has numbers that do not fit.
bool maps_parse_mapping(struct model_strings *strings, struct str line,
                        struct model_mapping *mapping, bool *is_mapping);

// Adds the executable mappings in the rest of lines to b. Lines `attr=value` define what
// $attr stands for further down; all else is skipped. Gives up through the arena when
// such replacements blow the text up.
void maps_read(struct model_builder *b, struct scan_lines *lines);

// Does what pprof does with the mappings of a profile that has no ids yet: joins what was
// split, moves the main binary to the front, keeps the locations and functions that the
// samples use, in the order of their use, and gives every address its mapping.
void maps_massage(struct model_builder *b);
// Only that the main binary comes first.
void maps_main_first(struct model_builder *b);
void maps_renumber(struct model_builder *b);
void maps_assign(struct model_builder *b);

// The first mapping, in the order of the profile, that holds an address.
struct maps_index;
struct maps_index *maps_index_new(struct arena *arena, const struct model_profile *p);
// MODEL_NONE if no mapping does.
uint32_t maps_find(const struct maps_index *index, uint64_t address);
