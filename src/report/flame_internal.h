// What the files of the flame graph share; not for anyone else.
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
    // Deeper frames become part of "other".
    FLAME_MAX_DEPTH = 2000,
};

// 0xrrggbb, for a light and a dark page.
extern const uint32_t flame_palette[2][FLAME_COLOURS];
extern const uint32_t flame_diff_palette[2][FLAME_DIFF_STEPS];
// In place of the greens, for those who cannot tell them from the reds.
extern const uint32_t flame_blue_palette[2][FLAME_BLUE_STEPS];

// The colour of a node: an index into the palette, or into the diff palette.
uint32_t flame_colour(const struct report_flame *flame, uint32_t node);
uint32_t flame_shade(struct str name);

// The stacks of a profile, and of its base, as sequences of keys: one key a name. Keys are
// the indices of `keys`, shared by both sides.
struct flame_side {
    const struct model_profile *p;
    uint32_t *first_step; // where the steps of a location begin; n_locations + 1 of them
    uint32_t *steps;      // key << 1 | inlined, the outermost call first
    uint32_t *value;      // for each drawn type, which of the sample's values
    uint32_t column;      // of the first type
};

struct flame_stacks {
    struct flame_side sides[2]; // the profile, its base
    uint32_t n_sides, n_types, n_columns;
    struct report_flame_frame *keys;
    uint32_t n_keys;
    int64_t *sums;     // of each column, what is above zero
    int64_t *negative; // of each type
};

// False with e filled if the base has no such type or the sums do not fit. Lives in arena,
// but for the names of unknown frames, which are made in names.
bool flame_stacks_init(struct flame_stacks *stacks, struct arena *arena, struct arena *names,
                       const struct model_profile *p, const struct report_flame_options *options,
                       struct err *e);
// Self and total of every key, n_columns each; a total counts a sample once.
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
// The package that a function's name tells, else its module.
struct flame_group_name flame_group_of(struct str function, struct str module, bool by_module);
uint32_t flame_short_name(struct str function);
struct str flame_basename(struct str path);

// The next code point of s, which must not be empty; what is not UTF-8, or a control
// character, comes as U+FFFD.
uint32_t flame_next_char(struct str *s);
// As text or attribute of XML and HTML.
void flame_write_xml(struct out *out, struct str s);
// In quotes, safe inside a script element of HTML and XML.
void flame_write_json(struct out *out, struct str s);

// The custom properties --c0 .., --d0 .. for one theme (0 light, 1 dark).
void flame_write_css_colours(struct out *out, int theme);

// Where boxes stand: walks the nodes in their order and yields each one's left edge and
// width as shares of the root.
struct flame_walk {
    double next[FLAME_MAX_DEPTH + 3]; // where the next box of a level begins
    double all;
};
void flame_walk_start(struct flame_walk *walk, const struct report_flame *flame);
void flame_walk_next(struct flame_walk *walk, const struct report_flame *flame, uint32_t node,
                     double *left, double *width);

// The sentence about what is not drawn; empty if everything is.
void flame_omissions(const struct report_flame *flame, const struct report_flame_style *style,
                     char *text, size_t n);

const char *flame_title(const struct report_flame *flame, const struct report_flame_style *style);
void flame_format(const struct report_flame *flame, const struct report_flame_style *style,
                  int64_t value, char *text, size_t n);
// "12.3%"; as many digits as matter.
void flame_percent(double share, char *text, size_t n);
