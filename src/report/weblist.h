// Data of weblist: instructions of the matching functions, by source line. weblist.c collects it,
// weblist_html.c renders it.
#pragma once

#include "report/formats.h"
#include "report/source_file.h"
#include "symbol/disasm.h"

// A call in an inline chain; strings are ids.
struct weblist_frame {
    uint32_t function, file;
    int64_t line;
};

struct weblist_inst {
    uint64_t addr, object_addr, length;
    struct str text; // empty: no machine code available
    uint32_t file;   // of the innermost call
    int64_t line;
    int64_t flat, cum;
};

// An instruction at a line of a file: frames[0 .. depth) were inlined there, innermost first.
struct weblist_entry {
    int64_t line;
    size_t order;
    uint32_t inst, depth;
    uint32_t function; // that owns the line
    const struct weblist_frame *frames;
};

struct weblist_file {
    uint32_t name;
    struct weblist_entry *entries; // by line, then in order of discovery
    size_t n, cap;
};

struct weblist {
    struct report *r;
    struct source_files *sources;
    struct weblist_inst *insts;
    size_t n_insts, cap_insts;
    struct weblist_file *files; // by name
    size_t n_files, cap_files;
    struct hash_table file_index;
    uint32_t *pretty; // by string id: the demangled form of a linkage name, plus one; 0: none
    size_t n_strings; // size of pretty and interest
    bool *interest;   // by string id: names of functions to show
};

void weblist_gather(struct weblist *w);
void weblist_html(struct weblist *w, struct out *out);
