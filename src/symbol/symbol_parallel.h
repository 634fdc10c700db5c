// Looks up many addresses on several threads; for the command (see lookup in struct
// symbol_profile_options).
#pragma once

#include "base/arena.h"
#include "symbol/symbol.h"

// Looks up the n ascending addresses of file, which was opened with these options, and calls call
// for each in this order, on the caller's thread. The frames live until call returns. Every thread
// opens the file once more, so that each has its own indexes: neighboring addresses are in the same
// units, so the threads seldom build the same ones.
void symbol_lookup_parallel(struct symbol_file *file, const struct symbol_options *options,
                            const uint64_t *addrs, size_t n, symbol_each_fn *call, void *ctx,
                            struct arena *arena);
