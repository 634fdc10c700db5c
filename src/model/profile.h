// A profile in memory: columnar, arena-owned, and after it was built read-only.
//
// Strings are interned to u32; everything refers to everything by index. The
// frames of all samples stand in one column of location indices, leaf first; a
// sample is a range of it, a row of values and an interned label set. Transforms
// (filter, aggregate, merge, scale) do not change a profile: they make another one
// that shares whatever did not change, so a shell or a web page parses once.
// A derived profile lives no longer than the arena of the one it came from.
#pragma once

#include "base/arena.h"
#include "base/hash.h"
#include "base/str.h"

enum { MODEL_NONE = UINT32_MAX };

// Append-only and shared by a profile and everything derived from it.
// Id 0 is the empty string.
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
    // Of a kernel's mapping that perf wrote: start is where _text is, by its name; else perhaps
    // where _stext is. Kept when the name gives way to that of a local file.
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

// lines[first_line .. first_line + n_lines): the innermost inlined call first.
struct model_location {
    uint64_t id, address;
    uint32_t mapping; // index into mappings, or MODEL_NONE
    uint32_t first_line, n_lines;
    bool is_folded;
};

struct model_label {
    uint32_t key;
    uint32_t str;  // of a string label
    uint32_t unit; // of a numeric one; 0: none given
    bool is_number;
    int64_t number;
};

// labels[first .. first + n): string labels sorted by key, then numeric ones sorted by
// key; several values of one key keep their order. Set 0 is the empty set. Two sets may
// be equal: readers merge what is cheap to merge.
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

    // One entry a sample.
    size_t n_samples;
    int64_t *values;   // n_types each
    uint32_t **stacks; // location indices, leaf first
    uint32_t *stack_len;
    uint32_t *label_set; // NULL: no sample has labels

    // What the profiler knows about the events behind the values; see model/events.h. squares is
    // the sum of the squared weights of each sample's events, in periods; NULL with is_weighed:
    // every event weighs one period. Without is_weighed nothing is known.
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

struct model_strings *model_strings_new(struct arena *arena);
// Room for n strings in all, so that their index does not grow step by step.
void model_strings_expect(struct model_strings *strings, size_t n);
// Copies the text if it is new.
uint32_t model_intern(struct model_strings *strings, struct str text);
// The same for text that lives at least as long as the arena: not copied.
uint32_t model_intern_borrowed(struct model_strings *strings, struct str text);
// MODEL_NONE if the text was never interned.
uint32_t model_find_string(const struct model_strings *strings, struct str text);

// A new profile with no content in arena, which stays the caller's.
struct model_profile *model_profile_new(struct arena *arena);
// A shallow copy to derive from: it shares every column.
struct model_profile *model_profile_derive(const struct model_profile *p, struct arena *arena);

// The index of the sample type that text names: a number, a type's name, with or without
// an `inuse_` in front; empty: the profile's default, else the last. -1 with e filled.
int model_type_index(const struct model_profile *p, struct str text, struct err *e);

// Into the order that label sets have.
void model_sort_labels(const struct model_strings *strings, struct model_label *labels, size_t n);
uint64_t model_hash_labels(const struct model_label *labels, size_t n);
bool model_same_labels(const struct model_label *a, const struct model_label *b, size_t n);

// Consistency: ids nonzero and unique, at least one type if there are samples.
// References are indices and checked where they are made.
int model_check(const struct model_profile *p, struct err *e);
