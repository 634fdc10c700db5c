// Which nodes of a service's tree a filter takes. Each node is looked at once, so that what is read
// afterwards, values by node, costs an array access: sums over time are made of whole columns of
// nodes, never of stacks.
//
// What a frame is called: the name of its function, else its system name, else "unknown". A
// location without lines, and without names that came late, is called by its place in its file
// (`app+0x1234`) where that tells something, and is no frame at all elsewhere.
#pragma once

#include "store/db.h"
#include "store/symbols.h"

struct str pick_function_name(struct str name, struct str system_name);
// A location without lines. mapped: file and place are of its mapping, else place is an address.
struct str pick_address_name(struct arena *arena, bool mapped, struct str file, uint64_t place);
// Whether such a location is a frame: that of a file which has no names at all is, because its
// debug file may come.
bool pick_address_is_frame(bool mapped, struct str file, bool has_build_id, bool has_functions);

// Of a node: its stack is among those of the filter; and it ends where the filter does.
enum { PICK_TOTAL = 1, PICK_SELF = 2 };
// One for each node of s, in arena, out of which it may jump; NULL: none is picked. names: those
// that came late; their handle is NULL if there are none.
const uint8_t *pick_nodes(const struct store_filter *filter, const struct symbols *s,
                          struct db *names, struct arena *arena);
