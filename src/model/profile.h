// A profile in memory: columnar, owned by an arena, and read-only once it is built.
//
// Strings are interned to u32. All references are indices. A sample is a stack of location indices
// (leaf first), a row of values and an interned label set. Transforms (filter, aggregate, merge,
// scale) do not change a profile. They derive a new one that shares unchanged columns, so a shell
// or a web page parses once. A derived profile must not outlive the arena of its source.
//
// Threads may read a profile concurrently. Interning changes its string table and needs exclusive
// access.
#pragma once

#include "base/arena.h"
#include "base/hash.h"
#include "base/str.h"

enum { MODEL_NONE = UINT32_MAX };

// Append-only. Shared by a profile and everything derived from it. Id 0 is the empty string.
struct model_strings {
    struct arena *arena;
    struct str *items;
    size_t n, cap;
    struct hash_table index;
};

struct model_value_type {
    uint32_t type, unit;
};

struct model_mapping {
    uint64_t id, start, limit, offset;
    uint32_t file, build_id;
    bool has_functions, has_filenames, has_line_numbers, has_inline_frames;
    // For a kernel mapping written by perf: start is the address of _text, according to the
    // mapping's name (otherwise perhaps of _stext). Kept when the name is replaced by that of a
    // local file.
    bool starts_at_text;
};

struct model_function {
    uint64_t id;
    int64_t start_line;
    uint32_t name, system_name, filename;
};

struct model_line {
    int64_t line, column;
    uint32_t function; // index into functions
};

// Its lines are lines[first_line .. first_line + n_lines), innermost inlined call first.
struct model_location {
    uint64_t id, address;
    uint32_t mapping; // index into mappings, or MODEL_NONE
    uint32_t first_line, n_lines;
    bool is_folded;
};

struct model_label {
    uint32_t key;
    uint32_t str;  // of a string label
    uint32_t unit; // of a numeric label; 0: no unit
    bool is_number;
    int64_t number;
};

// Its labels are labels[first .. first + n): string labels sorted by key, then numeric ones sorted
// by key. Several values of one key keep their order. Set 0 is the empty set. Two sets may be
// equal, because readers only merge sets where that is cheap.
struct model_label_set {
    uint32_t first, n;
};

struct model_profile {
    struct arena *arena;
    struct model_strings *strings;

    struct model_value_type *types;
    struct model_mapping *mappings;
    struct model_function *functions;
    struct model_location *locations;
    struct model_line *lines;
    struct model_label_set *label_sets;
    struct model_label *labels;
    uint32_t *comments; // string ids
    uint32_t n_types, n_mappings, n_functions, n_locations, n_lines, n_label_sets, n_labels,
        n_comments;

    // The samples, if they are still encoded (model/stream.h); the columns below are then NULL. The
    // usual NULL: they are decoded.
    const struct model_stream *stream;

    // One entry per sample.
    size_t n_samples;
    int64_t *values;   // n_types per sample
    uint32_t **stacks; // location indices, leaf first
    uint32_t *stack_len;
    uint32_t *label_set; // NULL: no sample has labels

    // What the profiler knows about the events behind the values; see model/events.h. squares is
    // the sum of the squared weights of a sample's events, in periods. If is_weighed is set and
    // squares is NULL, every event weighs one period. If is_weighed is not set, nothing is known.
    bool is_weighed;
    double *squares;

    uint32_t drop_frames, keep_frames, default_type, doc_url;
    struct model_value_type period_type;
    int64_t time_nanos, duration_nanos, period;
};

static inline struct str model_str(const struct model_profile *p, uint32_t id)
{
    return p->strings->items[id];
}

static inline const uint32_t *model_stack(const struct model_profile *p, size_t sample)
{
    return p->stacks[sample];
}

static inline const int64_t *model_values(const struct model_profile *p, size_t sample)
{
    return p->values + sample * p->n_types;
}

static inline const struct model_label *model_labels(const struct model_profile *p, size_t sample,
                                                     uint32_t *n)
{
    if (!p->label_set) {
        *n = 0;
        return NULL;
    }
    const struct model_label_set *set = &p->label_sets[p->label_set[sample]];
    *n = set->n;
    return p->labels + set->first;
}

// Returns a table in arena that contains only the empty string.
struct model_strings *model_strings_new(struct arena *arena);
// Makes room for n strings in total, so that the index need not grow repeatedly.
void model_strings_expect(struct model_strings *strings, size_t n);
// Returns the id of the text. Copies it if it is new.
uint32_t model_intern(struct model_strings *strings, struct str text);
// Like model_intern, without copying: the text must live as long as the arena.
uint32_t model_intern_borrowed(struct model_strings *strings, struct str text);
// Returns MODEL_NONE if the text was never interned.
uint32_t model_find_string(const struct model_strings *strings, struct str text);

// Returns an empty profile in arena.
struct model_profile *model_profile_new(struct arena *arena);
// Returns a shallow copy that shares every column, as the start of a derived profile.
struct model_profile *model_profile_derive(const struct model_profile *p, struct arena *arena);

// Returns the index of the sample type that text names: a number, or a type's name, optionally with
// the prefix `inuse_`. Empty text means the profile's default, else the last type. Returns -1 with
// e filled on failure.
int model_type_index(const struct model_profile *p, struct str text, struct err *e);

// Sorts labels into the order of label sets. Allocates scratch memory in arena if there are many.
void model_sort_labels(const struct model_strings *strings, struct model_label *labels, size_t n,
                       struct arena *arena);
uint64_t model_hash_labels(const struct model_label *labels, size_t n);
bool model_same_labels(const struct model_label *a, const struct model_label *b, size_t n);

// Checks that ids are nonzero and unique, and that there is a type if there are samples. References
// are indices and are checked where they are created. Returns -1 with e filled on failure.
int model_check(const struct model_profile *p, struct err *e);
