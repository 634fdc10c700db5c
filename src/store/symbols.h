// The symbols and stacks of one service on one day: strings, functions, mappings, locations with
// their inlined lines, and a tree of nodes (parent, location). Items are only appended and never
// change, so an id keeps its meaning all day, and new items can be saved as another chunk.
//
// Addresses are relative to the start of their mapping. A mapping's identity is its file, build id,
// offset and size, so processes that load a library at different addresses share it.
//
// One thread at a time; an arena owns everything.
#pragma once

#include "base/hash.h"
#include "model/profile.h"
#include "store/pack.h"
#include "store/store.h"

struct symbols_mapping {
    uint64_t start, size, offset; // start: of the first process seen
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
    uint64_t address; // relative to the mapping's start, if there is one
    uint32_t mapping; // index + 1; 0: none
    uint32_t first_line, n_lines;
    bool is_folded;
};

struct symbols_node {
    uint32_t parent, location;
};

// A slot of the hash table of nodes, self-contained so that a lookup touches one place in memory:
// most of the time to store a profile goes here. id 0: empty.
struct symbols_slot {
    uint32_t parent, location, id;
};

// A cached stack: a hash of its locations, and its node; 0: empty.
struct symbols_stack {
    uint64_t a, b;
    uint32_t node;
};

struct symbols_counts {
    uint32_t strings, functions, mappings, locations, lines, nodes;
};

struct symbols {
    struct arena *arena;
    // symbols_add collects new symbols in a stage first, whose ids continue those of its base.
    const struct symbols *base; // of a stage; else NULL
    size_t limit;               // maximum weight for symbols_add; 0: no limit
    size_t read_limit;          // maximum weight for symbols_unpack
    size_t text;                // bytes of all strings
    struct symbols_counts n, saved;
    struct str *strings; // 0: the empty string
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
    struct symbols_stack *stacks; // a cache: each stack has two slots, next to each other
    uint32_t n_stacks, stack_mask;
    uint64_t seed[4];      // of the stack hashes
    int64_t chunk;         // the last chunk that was read or saved
    struct budget *budget; // of the current reader: cancels symbols_unpack; may be NULL
    size_t steps;          // since the last check of budget
};

// limit: of its arena; 0: none. Returns NULL if there is no memory.
struct symbols *symbols_new(size_t limit);
// Copies the symbols without their hash tables. Returns NULL if there is no memory.
struct symbols *symbols_copy(const struct symbols *s, size_t limit);
void symbols_free(struct symbols *s);
size_t symbols_size(const struct symbols *s);
// Estimates the memory that a writer needs for the symbols. Depends on the symbols alone, so saving
// and reading them again does not change it.
size_t symbols_weight(const struct symbols_counts *n, size_t text);

// symbols_unsaved: whether there are items that no chunk has yet. symbols_pack: appends the items
// after from as a chunk.
bool symbols_unsaved(const struct symbols *s);
void symbols_pack(const struct symbols *s, struct symbols_counts from, ZSTD_CCtx *zstd, int level,
                  struct pack *to);
// Appends a chunk. Returns 0; 1 if the chunk does not continue s; SYMBOLS_CANCELED if the budget
// ended, with s unchanged. After other results s is unusable: STORE_BUSY if memory ran out,
// STORE_CORRUPT if the chunk is damaged.
enum { SYMBOLS_CANCELED = 2 };
int symbols_unpack(struct symbols *s, struct str chunk, ZSTD_DCtx *zstd, struct err *e);

// Maps a profile's items to ids in symbols, plus one; 0: not used so far. Kept for the next profile
// with the same tables, so that a part of store_split costs only what it uses. Start zeroed. The
// owner sets of to NULL before symbols or profile are freed.
struct symbols_ids {
    const struct symbols *of; // NULL: none
    const void *tables[5];    // of the profile
    uint32_t *all;            // strings, functions, mappings and locations
    size_t n, cap;
};
void symbols_ids_fini(struct symbols_ids *ids);

// symbols_add converts a profile to values at the nodes of its stacks, in arena scratch. They are
// sorted by span and trace, then node; equal entries are added up. Returns false if s with the new
// symbols would exceed its limit; then, and after a jump out of scratch, s is unchanged. A jump out
// of the arena of s leaves s half-updated.
struct symbols_values {
    uint32_t n, k;
    uint32_t *nodes;
    int64_t *values;            // values[column * n + row]
    uint64_t *spans;            // NULL: no sample has a span; 0: this one has none
    struct store_trace *traces; // like spans; only together with spans
};
bool symbols_add(struct symbols *s, const struct model_profile *p, struct symbols_ids *ids,
                 struct arena *scratch, struct symbols_values *values);

// The samples of a profile with a non-zero value, and the requests they belong to: from the labels
// span_id and trace_id, of up to 16 and 32 hexadecimal digits.
struct symbols_samples {
    uint32_t n;
    uint32_t *samples;          // sample indexes
    uint64_t *spans;            // one per entry of samples; NULL: no sample has a span or a trace
    struct store_trace *traces; // indexed by sample; NULL: no sample has one
};
void symbols_samples(const struct model_profile *p, struct arena *arena, struct symbols_samples *s);
