// Label sets, packed and as clients see them, and profile type ids.
#pragma once

#include "model/events.h"
#include "store/pack.h"
#include "store/store.h"

// Whether the store derives this label from the sample type.
bool labels_is_own(struct str name);
struct str labels_get(const struct store_label *labels, size_t n, struct str name);
int labels_compare(const struct store_label *a, size_t n_a, const struct store_label *b,
                   size_t n_b);

void labels_pack(struct pack *to, const struct store_label *labels, size_t n);
// Copies the texts into arena. Returns false if bytes is damaged.
bool labels_unpack(struct str bytes, struct arena *arena, struct store_label **labels, size_t *n);

// What profiles of one kind have in common besides labels. Strings are borrowed.
struct kind {
    struct str period_type, period_unit, default_type;
    int64_t period;
    uint32_t k; // columns
    // The last column is the sum of the squared event weights (struct model_profile, squares). It
    // is stored and added up like the others, but is no sample type outside the store.
    bool is_weighed;
    struct {
        struct str type, unit;
    } types[62];
};
enum { KIND_MAX_TYPES = 62 };

// The type of the squared-weights column. No profile may have it.
#define KIND_SQUARES_TYPE "__squared_weights__"
#define KIND_SQUARES_UNIT "periods"
// Maximum per sample: a weight of a million periods. A client's values cannot overflow sums of less
// than eight million samples.
#define KIND_MOST_SQUARES 0x1p40

// p has at most KIND_MAX_TYPES types.
void kind_of_profile(const struct model_profile *p, struct kind *kind);
// The number of columns of a profile, and a sample's value in one of them.
uint32_t kind_columns(const struct model_profile *p);
int64_t kind_value(const struct model_profile *p, size_t sample, uint32_t column);

static inline uint32_t kind_types(const struct kind *kind)
{
    return kind->k - kind->is_weighed;
}

// How to derive the variance of a type's values from another column.
struct kind_events {
    bool has_other;
    uint32_t other;  // the other column
    bool is_weighed; // it has squared weights
    double unit;     // if is_weighed: value per period
    bool is_bytes;   // the other column has bytes, else counts
    struct model_events events;
};
// Of the values of a column. arena is scratch memory.
struct kind_events kind_events(const struct kind *kind, uint32_t column, struct arena *arena);
// Caches the result for consecutive series, most of which are of one kind. Start zeroed. body: of
// the kind; it must stay valid.
struct kind_events_cache {
    struct str body;
    uint32_t column;
    struct kind_events events;
};
struct kind_events kind_events_of(struct kind_events_cache *cache, struct str body,
                                  const struct kind *kind, uint32_t column, struct arena *arena);
// value and other are sums over any number of samples.
double kind_variance(const struct kind_events *ev, double value, double other);

void kind_pack(struct pack *to, const struct kind *kind);
bool kind_unpack(struct str bytes, struct kind *kind);

// name:type:unit:period_type:period_unit
struct type_id {
    struct str name, type, unit, period_type, period_unit;
};
bool type_id_parse(struct str text, struct type_id *id);
// The column of a kind that a type id selects (its name is ignored), or -1.
int type_id_column(const struct type_id *id, const struct kind *kind);

// Builds the series of one sample type: labels plus the derived ones.
struct store_series labels_series(const struct store_label *labels, size_t n,
                                  const struct kind *kind, uint32_t column, struct arena *arena);
// The service that a select names, so that other services can be skipped; empty: none.
struct str labels_one_service(const struct store_select *select);
// Whether all matchers match. May jump out of the arena of a regular expression.
bool labels_match(const struct store_series *series, const struct store_matcher *matchers,
                  size_t n);
