// The symbols and stacks of one service and one day: strings, functions, mappings, locations with
// their inlined lines, and a tree of nodes (parent, location). Everything is appended and never
// changes, so an id means the same all day, and what is new can be saved as one more chunk.
//
// Addresses are kept relative to the start of their mapping, and a mapping's identity is its file,
// build id, offset and size: processes that load a library at different addresses share it.
//
// One thread at a time; an arena owns it all.
#pragma once

#include "base/hash.h"
#include "model/profile.h"
#include "store/pack.h"
#include "store/store.h"

struct symbols_mapping {
    uint64_t start, size, offset; // start: of the first process that was seen
    uint32_t file, build_id;
    uint32_t flags;
};

enum {
    SYMBOLS_HAS_FUNCTIONS = 1,
    SYMBOLS_HAS_FILENAMES = 2,
    SYMBOLS_HAS_LINE_NUMBERS = 4,
    SYMBOLS_HAS_INLINE_FRAMES = 8,
    SYMBOLS_FIXED = 16, // no file: start is part of the identity
};

static inline uint32_t symbols_flags(const struct model_mapping *m)
{
    return (m->has_functions ? SYMBOLS_HAS_FUNCTIONS : 0u) |
           (m->has_filenames ? SYMBOLS_HAS_FILENAMES : 0u) |
           (m->has_line_numbers ? SYMBOLS_HAS_LINE_NUMBERS : 0u) |
           (m->has_inline_frames ? SYMBOLS_HAS_INLINE_FRAMES : 0u) |
           (m->file || m->build_id ? 0u : SYMBOLS_FIXED);
}

struct symbols_function {
    int64_t start_line;
    uint32_t name, system_name, filename;
};

struct symbols_line {
    int64_t line, column;
    uint32_t function;
};

struct symbols_location {
    uint64_t address; // from the mapping's start, if there is one
    uint32_t mapping; // index + 1; 0: none
    uint32_t first_line, n_lines;
    bool is_folded;
};

struct symbols_node {
    uint32_t parent, location;
};

// Where a node is found by what it is: one place in memory, because this is what storing a
// profile does most. id 0: empty.
struct symbols_slot {
    uint32_t parent, location, id;
};

// A stack that came before: a hash of its locations, and its node; 0: empty.
struct symbols_stack {
    uint64_t a, b;
    uint32_t node;
};

struct symbols_counts {
    uint32_t strings, functions, mappings, locations, lines, nodes;
};

struct symbols {
    struct arena *arena;
    // symbols_add finds new symbols in a stage first, whose ids continue those of its base.
    const struct symbols *base; // of a stage; else NULL
    size_t limit;               // symbols_add does not go beyond this weight; 0: no limit
    size_t read_limit;          // nor does symbols_unpack beyond this one
    size_t text;                // bytes of all strings
    struct symbols_counts n, saved;
    struct str *strings; // 0: the empty one
    struct symbols_function *functions;
    struct symbols_mapping *mappings;
    struct symbols_location *locations;
    struct symbols_line *lines;
    struct symbols_node *nodes; // 0: the root
    size_t cap[6];
    bool indexed;
    struct hash_table string_index, function_index, mapping_index, location_index;
    struct symbols_slot *slots;
    uint32_t mask;                // of slots
    struct symbols_stack *stacks; // a cache: each has two places, next to each other
    uint32_t n_stacks, stack_mask;
    uint64_t seed[4];      // of their hashes
    int64_t chunk;         // the last one that was read or saved
    struct budget *budget; // of who reads a chunk now: ends symbols_unpack; may be NULL
    size_t steps;          // since it was looked at
};

// limit: of its arena, 0: none. NULL if there is no memory.
struct symbols *symbols_new(size_t limit);
// A copy without what finds symbols. NULL if there is no memory.
struct symbols *symbols_copy(const struct symbols *s, size_t limit);
void symbols_free(struct symbols *s);
size_t symbols_size(const struct symbols *s);
// About the bytes that a writer needs for them. It follows from the symbols alone, so it is the
// same after they were saved and read again.
size_t symbols_weight(const struct symbols_counts *n, size_t text);

// What is not saved yet as a chunk, and whether there is anything.
bool symbols_unsaved(const struct symbols *s);
void symbols_pack(const struct symbols *s, struct symbols_counts from, ZSTD_CCtx *zstd, int level,
                  struct pack *to);
// Appends a chunk. 0; 1: it does not continue what is there; SYMBOLS_CANCELED: the budget ended,
// and s is as before. Else s is of no use any more: STORE_BUSY if memory ran out, STORE_CORRUPT if
// the chunk is damaged.
enum { SYMBOLS_CANCELED = 2 };
int symbols_unpack(struct symbols *s, struct str chunk, ZSTD_DCtx *zstd, struct err *e);

// Ids in symbols of what a profile has, plus one; 0: not used so far. They are kept for the next
// profile with the same tables: a part of store_split costs what it has, not what all parts have.
// Zeroed before the first use. The owner sets of to NULL before symbols or profile are freed.
struct symbols_ids {
    const struct symbols *of; // NULL: none
    const void *tables[5];    // of the profile
    uint32_t *all;            // strings, functions, mappings and locations
    size_t n, cap;
};
void symbols_ids_fini(struct symbols_ids *ids);

// The values of a profile at the nodes of their stacks, in arena (scratch). Sorted by span and
// trace, then node; equal ones are added up. false: with its symbols s would weigh more than its
// limit; then, and after a jump out of scratch, s is as before. A jump out of the arena of s leaves
// it half done.
struct symbols_values {
    uint32_t n, k;
    uint32_t *nodes;
    int64_t *values;            // values[column * n + row]
    uint64_t *spans;            // NULL: no sample has one; 0: this one has none
    struct store_trace *traces; // the same; only where there are spans as well
};
bool symbols_add(struct symbols *s, const struct model_profile *p, struct symbols_ids *ids,
                 struct arena *scratch, struct symbols_values *values);

// The samples of a profile that have a value, with the requests that they were taken in: from the
// labels span_id and trace_id, of up to 16 and 32 hexadecimal digits.
struct symbols_samples {
    uint32_t n;
    uint32_t *samples;          // their numbers
    uint64_t *spans;            // of each; NULL: none has a span or a trace
    struct store_trace *traces; // by the number of the sample; NULL: none has one
};
void symbols_samples(const struct model_profile *p, struct arena *arena, struct symbols_samples *s);
