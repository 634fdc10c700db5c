// A prebuilt index: the lookup results of a symbol_file for every address, in one compact file that
// is mapped and searched in place. The command and the server cache one per build id, because
// parsing DWARF again costs far more than looking up a row.
//
// docs/reference/symbol-index.md describes the format. Any input is safe; reads are bounded. An
// open index is immutable, so threads may share it.
#pragma once

#include "base/out.h"
#include "symbol/symbol.h"

// Writes the index of file. Fails with e filled if the code spans more than 4 GiB.
int symbol_index_write(struct symbol_file *file, struct out *out, struct err *e);

struct symbol_index;

// Maps the file. Returns NULL with e filled on failure.
struct symbol_index *symbol_index_open(const char *path, struct err *e);
// Borrows the bytes, which must outlive the index.
struct symbol_index *symbol_index_open_bytes(struct bytes image, const char *name, struct err *e);
void symbol_index_free(struct symbol_index *index);
// Returns the build id of the indexed binary; no bytes if it had none.
struct bytes symbol_index_build_id(const struct symbol_index *index);

// Like symbol_lookup, but shown equals name. The texts live as long as the index.
int symbol_index_lookup(const struct symbol_index *index, uint64_t vaddr,
                        struct symbol_frame *frames, int max);
