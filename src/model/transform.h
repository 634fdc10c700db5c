// Profiles from profiles. Nothing here changes its input but what is called _take: each function
// returns a profile in arena that shares with the input what did not change.
#pragma once

#include "model/profile.h"
#include "model/regex.h"

// --- combining ---

// Keeps the sample types that all profiles have, in the order of the first; scales
// units to the finest that occurs. Replaces the pointers in profiles.
int model_make_compatible(struct model_profile **profiles, size_t n, struct arena *arena,
                          struct err *e);
// Whether two profiles have the same sample types and period type; -1 with e filled if not.
int model_check_equal_types(const struct model_profile *a, const struct model_profile *b,
                            struct err *e);
// One profile with the samples of all: equal stacks with equal labels are added up, what
// becomes zero and what nothing refers to is left out. The types must be equal.
struct model_profile *model_merge(struct model_profile *const *profiles, size_t n,
                                  struct arena *arena, struct err *e);
// The same in less memory: the stacks are rewritten where they stand and become the result's.
// The profiles are used up, also when it fails, and no two of them may share stacks.
struct model_profile *model_merge_take(struct model_profile *const *profiles, size_t n,
                                       struct arena *arena, struct err *e);
// The same one by one, where profiles come one by one: some n of them, the first of which is
// known. It is for the caller to make sure that the types are equal.
struct model_merger *model_merger_new(const struct model_profile *first, size_t n,
                                      struct arena *arena);
void model_merger_take(struct model_merger *m, const struct model_profile *p);
struct model_profile *model_merger_finish(struct model_merger *m);
// Multiplies each value column by its ratio, rounding. A sample whose scaled values are
// all zero is dropped.
struct model_profile *model_scale(const struct model_profile *p, const double *ratios,
                                  struct arena *arena);
// Scales p so that the sum of each column equals that of base.
struct model_profile *model_normalize(const struct model_profile *p,
                                      const struct model_profile *base, struct arena *arena,
                                      struct err *e);

// --- filtering ---

// Samples with a frame that matches focus and none that matches ignore; of those, only
// frames that do not match hide and do match show. Any of them may be NULL. matched (4
// entries) tells which expressions matched anything.
struct model_profile *model_filter_frames(const struct model_profile *p, struct model_regex *focus,
                                          struct model_regex *ignore, struct model_regex *hide,
                                          struct model_regex *show, bool *matched,
                                          struct arena *arena);
// Cuts each stack above its outermost frame that matches; drops samples without one.
struct model_profile *model_show_from(const struct model_profile *p, struct model_regex *regex,
                                      bool *matched, struct arena *arena);
// Cuts each stack below its innermost frame that matches.
struct model_profile *model_prune_from(const struct model_profile *p, struct model_regex *regex,
                                       struct arena *arena);
// Applies the profile's own drop_frames and keep_frames.
struct model_profile *model_drop_uninteresting(const struct model_profile *p, struct arena *arena);
// Keeps the samples for which keep[] is set.
struct model_profile *model_select_samples(const struct model_profile *p, const bool *keep,
                                           struct arena *arena);

// --- labels ---

// tagfocus and tagignore: `[key=]regex,regex` or a range of numbers (`1kb:2mb`).
struct model_tag_filter;
// numeric_range (may be NULL) is set when the text was understood as a range.
struct model_tag_filter *model_tag_filter_new(struct arena *arena, const char *name,
                                              struct str text, bool *numeric_range, struct err *e);
// Either filter may be NULL; units are those of model_label_units.
struct model_profile *model_filter_tags(const struct model_profile *p,
                                        struct model_tag_filter *focus,
                                        struct model_tag_filter *ignore, const uint32_t *units,
                                        bool *focus_matched, bool *ignore_matched,
                                        struct arena *arena);
// Keeps labels whose key matches show and does not match hide; either may be NULL.
struct model_profile *model_filter_label_keys(const struct model_profile *p,
                                              struct model_regex *show, struct model_regex *hide,
                                              bool *show_matched, bool *hide_matched,
                                              struct arena *arena);
// Pseudo frames made of label values: keys are comma-separated; root keys go above each
// stack, leaf keys below.
struct model_profile *model_add_label_frames(const struct model_profile *p, struct str root_keys,
                                             struct str leaf_keys, struct str unit,
                                             bool *root_matched, bool *leaf_matched,
                                             struct arena *arena);
// Sets the string label key to value on every sample, or removes it (value.p NULL).
struct model_profile *model_set_label(const struct model_profile *p, struct str key,
                                      struct str value, struct arena *arena);

// The unit of each numeric label key: the first one met; without any, the key itself, or
// bytes for "alignment" and "request". Indexed by string id; MODEL_NONE for what is no
// key. conflicts is called for a key that was met with several units.
uint32_t *model_label_units(const struct model_profile *p, struct arena *arena,
                            void (*conflict)(void *ctx, struct str key, struct str used,
                                             struct str others),
                            void *ctx);

// --- granularity ---

struct model_detail {
    bool inlines, functions, filenames, lines, columns, addresses;
};
// Forgets what detail does not name.
struct model_profile *model_aggregate(const struct model_profile *p, struct model_detail detail,
                                      struct arena *arena);
