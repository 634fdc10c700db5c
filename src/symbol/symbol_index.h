// A prepared index: the answers of a symbol_file for every address, in one compact file that is
// mapped and searched in place. The command and the server keep one per build id, because
// reading DWARF again for the same binary costs far more than looking up a row.
//
// docs/symbol-index.md has the format. Any bytes may be opened; reads are bounded.
#pragma once

#include "base/out.h"
#include "symbol/symbol.h"

// Writes the index of file. A file whose code spans more than 4 GiB is refused.
int symbol_index_write(struct symbol_file *file, struct out *out, struct err *e);

struct symbol_index;

struct symbol_index *symbol_index_open(const char *path, struct err *e);
// Borrows the bytes.
struct symbol_index *symbol_index_open_bytes(struct bytes image, const char *name, struct err *e);
void symbol_index_free(struct symbol_index *index);
// Of the binary that it was made for; no bytes: it had none.
struct bytes symbol_index_build_id(const struct symbol_index *index);

// As symbol_lookup, except that shown is the name itself. What frames point to lives as long as
// the index.
int symbol_index_lookup(const struct symbol_index *index, uint64_t vaddr,
                        struct symbol_frame *frames, int max);
