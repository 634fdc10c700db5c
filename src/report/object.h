// The binaries of a profile's mappings, for reports that look into them.
#pragma once

#include "report/report.h"
#include "symbol/symbol.h"

struct object {
    uint32_t name; // string id of the path
    uint64_t start, limit, offset;
    bool starts_at_text;      // as in the mapping
    struct symbol_file *file; // NULL: cannot be had
    struct err why;           // it cannot
    bool is_placed;
    uint64_t base;
};

// The binary of mapping, opened at its first use; the report closes it. One with a file of NULL
// if it cannot be opened.
struct object *object_open(struct report *r, uint32_t mapping);
// Finds out where the binary was loaded, from one address in it: 0, or -1 with e filled. Later
// calls change nothing. After it, an address minus base is one of the file.
int object_place(struct object *object, uint64_t addr, struct err *e);

void objects_close(struct report *r);
