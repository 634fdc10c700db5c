// Label sets as bytes and as the outside sees them, and profile type ids.
#pragma once

#include "store/pack.h"
#include "store/store.h"

// The labels that are made from the sample type.
bool labels_is_own(struct str name);
struct str labels_get(const struct store_label *labels, size_t n, struct str name);
int labels_compare(const struct store_label *a, size_t n_a, const struct store_label *b,
                   size_t n_b);

void labels_pack(struct pack *to, const struct store_label *labels, size_t n);
// The texts are copied into arena. false: damaged.
bool labels_unpack(struct str bytes, struct arena *arena, struct store_label **labels, size_t *n);

// What profiles of one kind have in common besides labels. The strings are borrowed.
struct kind {
    struct str period_type, period_unit, default_type;
    int64_t period;
    uint32_t k;
    struct {
        struct str type, unit;
    } types[62];
};
enum { KIND_MAX_TYPES = 62 };

// Of a profile with KIND_MAX_TYPES at the most.
void kind_of_profile(const struct model_profile *p, struct kind *kind);
void kind_pack(struct pack *to, const struct kind *kind);
bool kind_unpack(struct str bytes, struct kind *kind);

// name:type:unit:period_type:period_unit
struct type_id {
    struct str name, type, unit, period_type, period_unit;
};
bool type_id_parse(struct str text, struct type_id *id);
// The column of a kind that a type id (without its name) means; -1: none.
int type_id_column(const struct type_id *id, const struct kind *kind);

// A series of one sample type: labels and those that are made.
struct store_series labels_series(const struct store_label *labels, size_t n,
                                  const struct kind *kind, uint32_t column, struct arena *arena);
// Whether all matchers hold. May jump out of the arena of a regular expression.
bool labels_match(const struct store_series *series, const struct store_matcher *matchers,
                  size_t n);
