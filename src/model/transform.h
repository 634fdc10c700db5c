// Transforms of profiles. Only functions named _take change their inputs. The others return a
// profile in arena that shares unchanged columns with the input. All of them fail through the arena
// if memory or budget run out.
#pragma once

#include "model/profile.h"
#include "model/regex.h"

// --- combining ---

// Keeps the sample types that all profiles have, in the order of the first profile. Scales values
// to the finest unit that occurs. Replaces the pointers in profiles. Returns -1 with e filled on
// failure.
int model_make_compatible(struct model_profile **profiles, size_t n, struct arena *arena,
                          struct err *e);
// Returns 0 if two profiles have the same sample types and period type, else -1 with e filled.
int model_check_equal_types(const struct model_profile *a, const struct model_profile *b,
                            struct err *e);
// Merges profiles: adds up samples with equal stacks and labels. Drops samples that become zero and
// everything unreferenced. Returns NULL with e filled if the types differ.
struct model_profile *model_merge(struct model_profile *const *profiles, size_t n,
                                  struct arena *arena, struct err *e);
// Like model_merge with less memory: rewrites the stacks in place for the result. Do not use the
// profiles afterwards, even on failure. No two of them may share stacks.
struct model_profile *model_merge_take(struct model_profile *const *profiles, size_t n,
                                       struct arena *arena, struct err *e);
// Like model_merge_take, one profile at a time. n is the expected number of profiles, of which
// first is an example. The caller must ensure equal types.
struct model_merger *model_merger_new(const struct model_profile *first, size_t n,
                                      struct arena *arena);
void model_merger_take(struct model_merger *m, const struct model_profile *p);
struct model_profile *model_merger_finish(struct model_merger *m);
// Takes a profile without its samples: the locations named, in this order, and all strings.
// Returns the merged indices, + 1.
struct model_merged_tables {
    const uint32_t *string_of, *location_of;
};
struct model_merged_tables model_merger_take_tables(struct model_merger *m,
                                                    const struct model_profile *p,
                                                    const uint32_t *locations, size_t n);
// Multiplies each value column by its ratio and rounds. Drops a sample if all of its rescaled
// values are zero; columns with ratio 1 do not count.
struct model_profile *model_scale(const struct model_profile *p, const double *ratios,
                                  struct arena *arena);
// Scales p so that the sum of each column equals that of base. Returns NULL with e filled if the
// types differ.
struct model_profile *model_normalize(const struct model_profile *p,
                                      const struct model_profile *base, struct arena *arena,
                                      struct err *e);

// --- filtering ---

// Keeps samples with a frame that matches focus and none that matches ignore. Then keeps only
// frames that do not match hide and do match show. Each may be NULL. matched (4 entries: focus,
// ignore, hide, show) tells which expressions matched anything.
struct model_profile *model_filter_frames(const struct model_profile *p, struct model_regex *focus,
                                          struct model_regex *ignore, struct model_regex *hide,
                                          struct model_regex *show, bool *matched,
                                          struct arena *arena);
// Removes the frames above the outermost match in each stack. Drops samples without a match.
struct model_profile *model_show_from(const struct model_profile *p, struct model_regex *regex,
                                      bool *matched, struct arena *arena);
// Removes the frames below the innermost match in each stack.
struct model_profile *model_prune_from(const struct model_profile *p, struct model_regex *regex,
                                       struct arena *arena);
// Applies the profile's own drop_frames and keep_frames.
struct model_profile *model_drop_uninteresting(const struct model_profile *p, struct arena *arena);
// Keeps the samples for which keep[] is set.
struct model_profile *model_select_samples(const struct model_profile *p, const bool *keep,
                                           struct arena *arena);

// --- labels ---

// A filter for tagfocus or tagignore: `[key=]regex,regex` or a range of numbers (`1kb:2mb`).
struct model_tag_filter;
// Parses a filter. name identifies the option in errors. Sets *numeric_range (may be NULL) to
// whether the text is a range. Returns NULL with e filled if an expression is invalid.
struct model_tag_filter *model_tag_filter_new(struct arena *arena, const char *name,
                                              struct str text, bool *numeric_range, struct err *e);
// Keeps samples whose labels match focus and do not match ignore. Either may be NULL. units comes
// from model_label_units.
struct model_profile *model_filter_tags(const struct model_profile *p,
                                        struct model_tag_filter *focus,
                                        struct model_tag_filter *ignore, const uint32_t *units,
                                        bool *focus_matched, bool *ignore_matched,
                                        struct arena *arena);
// Keeps labels whose key matches show and does not match hide. Either may be NULL.
struct model_profile *model_filter_label_keys(const struct model_profile *p,
                                              struct model_regex *show, struct model_regex *hide,
                                              bool *show_matched, bool *hide_matched,
                                              struct arena *arena);
// Adds pseudo frames made of label values. Keys are comma-separated. Frames of root_keys go above
// each stack, frames of leaf_keys below. unit is the output unit of numeric values.
struct model_profile *model_add_label_frames(const struct model_profile *p, struct str root_keys,
                                             struct str leaf_keys, struct str unit,
                                             bool *root_matched, bool *leaf_matched,
                                             struct arena *arena);
// Sets the string label key to value on every sample, or removes it if value.p is NULL.
struct model_profile *model_set_label(const struct model_profile *p, struct str key,
                                      struct str value, struct arena *arena);

// Returns the unit of each numeric label key, indexed by string id; MODEL_NONE for other strings.
// The first unit that occurs is used. Without any, the key itself is the unit, or bytes for
// "alignment" and "request". conflict (may be NULL) is called for each key with several units.
uint32_t *model_label_units(const struct model_profile *p, struct arena *arena,
                            void (*conflict)(void *ctx, struct str key, struct str used,
                                             struct str others),
                            void *ctx);

// --- granularity ---

struct model_detail {
    bool inlines, functions, filenames, lines, columns, addresses;
};
// Clears what detail does not name.
struct model_profile *model_aggregate(const struct model_profile *p, struct model_detail detail,
                                      struct arena *arena);
