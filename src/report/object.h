// The binaries of a profile's mappings, for reports that read them.
#pragma once

#include "report/report.h"
#include "symbol/symbol.h"

struct object {
    uint32_t name; // string id of the path
    uint64_t start, limit, offset;
    bool starts_at_text;      // as in the mapping
    struct symbol_file *file; // NULL: not available
    struct err why;           // reason, if file is NULL
    bool is_placed;
    uint64_t base;
};

// Returns the binary of a mapping and opens it on first use; the report closes it. file is NULL if
// it cannot be opened.
struct object *object_open(struct report *r, uint32_t mapping);
// Determines the load address of the binary from one address in it. Returns 0, or -1 and fills e.
// Later calls change nothing. Afterwards, an address minus base is an address of the file.
int object_place(struct object *object, uint64_t addr, struct err *e);

void objects_close(struct report *r);
