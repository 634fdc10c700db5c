// Internal declarations of the flame graph files.
#pragma once

#include "report/flame.h"

enum {
    FLAME_HUES = 8,
    FLAME_SHADES = 3,
    // Indices into the palette: hues and shades, then the muted shades, then "other".
    FLAME_MUTED = FLAME_HUES * FLAME_SHADES,
    FLAME_GREY = FLAME_MUTED + FLAME_SHADES,
    FLAME_COLOURS,
    FLAME_DIFF_STEPS = 9,
    FLAME_BLUE_STEPS = 4,
    // Deeper frames are merged into "other".
    FLAME_MAX_DEPTH = 2000,
};

// 0xrrggbb, for a light and a dark page.
extern const uint32_t flame_palette[2][FLAME_COLOURS];
extern const uint32_t flame_diff_palette[2][FLAME_DIFF_STEPS];
// Replaces the greens for users who cannot distinguish them from the reds.
extern const uint32_t flame_blue_palette[2][FLAME_BLUE_STEPS];

// The color of a node: an index into the palette, or into the diff palette.
uint32_t flame_colour(const struct report_flame *flame, uint32_t node);
uint32_t flame_shade(struct str name);

// The stacks of a profile and of its base as sequences of keys, one key per name. Keys are indices
// into `keys`, shared by both sides.
struct flame_side {
    const struct model_profile *p;
    uint32_t *first_step; // start of each location's steps; n_locations + 1 entries
    uint32_t *steps;      // key << 1 | inlined, outermost call first
    uint32_t *value;      // for each drawn type, the index of the sample value
    uint32_t column;      // of the first type
};

struct flame_stacks {
    struct flame_side sides[2]; // the profile, its base
    uint32_t n_sides, n_types, n_columns;
    struct report_flame_frame *keys;
    uint32_t n_keys;
    int64_t *sums;     // of each column, the sum of positive values
    int64_t *negative; // of each type
};

// Returns false and fills e if the base lacks the type or the sums overflow. Allocates in arena,
// except names of unknown frames, which are in names.
bool flame_stacks_init(struct flame_stacks *stacks, struct arena *arena, struct arena *names,
                       const struct model_profile *p, const struct report_flame_options *options,
                       struct err *e);
// Computes self and total of every key, n_columns each; a total counts a sample once.
void flame_stacks_count(const struct flame_stacks *stacks, struct arena *arena, int64_t *self,
                        int64_t *total);

static inline bool flame_add_sample(const struct flame_side *side, uint32_t n_types,
                                    uint32_t stride, size_t sample, int64_t *totals)
{
    const int64_t *values = model_values(side->p, sample);
    bool any = false;
    for (uint32_t t = 0, c = side->column; t < n_types; t++, c += stride) {
        int64_t v = values[side->value[t]];
        if (v > 0) {
            totals[c] += v;
            any = true;
        }
    }
    return any;
}

struct flame_group_name {
    struct str name;
    bool muted;
};
// The package in a function's name, else its module.
struct flame_group_name flame_group_of(struct str function, struct str module, bool by_module);
uint32_t flame_short_name(struct str function);
struct str flame_basename(struct str path);

// Removes the next code point of s, which must not be empty. Invalid UTF-8 and control characters
// become U+FFFD.
uint32_t flame_next_char(struct str *s);
// Escapes s for text and attributes in XML and HTML.
void flame_write_xml(struct out *out, struct str s);
// Writes a quoted string, safe inside a script element of HTML and XML.
void flame_write_json(struct out *out, struct str s);

// Writes the custom properties --c0 .., --d0 .. of one theme (0 light, 1 dark).
void flame_write_css_colours(struct out *out, int theme);

// Computes the boxes: visits the nodes in order and returns each one's left edge and width as
// shares of the root.
struct flame_walk {
    double next[FLAME_MAX_DEPTH + 3]; // left edge of the next box of each level
    double all;
};
void flame_walk_start(struct flame_walk *walk, const struct report_flame *flame);
void flame_walk_next(struct flame_walk *walk, const struct report_flame *flame, uint32_t node,
                     double *left, double *width);

// Writes a sentence about what is not drawn; empty if everything is.
void flame_omissions(const struct report_flame *flame, const struct report_flame_style *style,
                     char *text, size_t n);

const char *flame_title(const struct report_flame *flame, const struct report_flame_style *style);
void flame_format(const struct report_flame *flame, const struct report_flame_style *style,
                  int64_t value, char *text, size_t n);
// "12.3%", with significant digits only.
void flame_percent(double share, char *text, size_t n);
