// Determines which nodes of a service's tree a filter selects. Each node is examined once;
// afterwards a value costs one array access. Sums over time add up whole columns of nodes, never
// stacks.
//
// The name of a frame is the name of its function, else its system name, else "unknown". A location
// without lines and without late names is named by its file offset (`app+0x1234`) if that is
// meaningful, and is no frame otherwise.
#pragma once

#include "store/db.h"
#include "store/symbols.h"

struct str pick_function_name(struct str name, struct str system_name);
// The name of a location without lines. If mapped, file and place are those of its mapping, else
// place is an address.
struct str pick_address_name(struct arena *arena, bool mapped, struct str file, uint64_t place);
// Whether such a location is a frame. An unmapped address is one. A mapped one is if its file is
// identified but has no names at all, because a debug file may arrive later.
bool pick_address_is_frame(bool mapped, struct str file, bool has_build_id, bool has_functions);

// Bits per node: its stack matches the filter; it ends where the filter does.
enum { PICK_TOTAL = 1, PICK_SELF = 2 };
// Returns PICK_ bits for each node of s, or NULL if no node is selected. Allocates in arena and may
// jump out of it. names: the late names; handle NULL: none.
const uint8_t *pick_nodes(const struct store_filter *filter, const struct symbols *s,
                          struct db *names, struct arena *arena);
