// Flame graphs: merges the stacks of a profile into one tree, and renders it as a self-contained
// SVG, a self-contained HTML page, or text for a terminal.
//
// The tree is bounded. It keeps the branches with the largest share of the profile (the largest
// max_nodes of those above min_share). A frame's other branches are merged into one child named
// "other". So for every node and every column `total == self + sum of the children's totals`.
//
// A node is a function name under its parent. A frame without a name is an address within a module,
// `[libfoo.so] +0x1234`, relative to the start of the file, so that runs can be compared. An
// inlined call is a frame of its own. Siblings are sorted by name, so that two runs, and the two
// sides of a diff, look alike.
//
// Negative values (from a subtracted base) have no width: only positive sample values are drawn,
// and `negative` has the sum of the rest.
//
// A diff has two columns per sample type: left, the base, and right, the profile. A frame is as
// wide as both together, so that removed frames stay visible. If normalized, the left side is first
// scaled to the total of the right one. The color shows the change relative to the larger side:
// green is less, red is more. Changes within noise are gray.
#pragma once

#include "base/out.h"
#include "model/profile.h"

enum {
    REPORT_FLAME_SVG_NODES = 20000,
    REPORT_FLAME_HTML_NODES = 50000,
    REPORT_FLAME_WIDTH = 1200,
};

enum report_flame_by {
    REPORT_FLAME_FUNCTIONS,
    REPORT_FLAME_FILES,
    REPORT_FLAME_LINES,
    REPORT_FLAME_ADDRESSES,
};

struct report_flame_options {
    uint32_t type;                    // the sample type to draw (first)
    bool all_types;                   // include the other types: HTML can switch between them
    bool functions;                   // count functions exactly, for the table in HTML
    bool reverse;                     // from the leaves to their callers
    bool by_module;                   // color by module even if a name has a package
    const struct model_profile *base; // for a diff; NULL: none
    bool normalize;                   // a diff of shares instead of absolute values
    // Of a diff: the average weight of an event; 0: from the profiles. Profiles with blocks
    // (model/blocks.h) are compared by their blocks.
    double event_weights[2];
    double min_share;        // 0: the share of 0.1 px in REPORT_FLAME_WIDTH
    uint32_t max_nodes;      // not counting "other"; 0: REPORT_FLAME_HTML_NODES
    enum report_flame_by by; // what a frame is
    // Show only the subtree that these frames lead to from the root. It becomes the root that
    // shares refer to. Used to look into "other".
    const struct str *path;
    size_t n_path;
};

enum report_flame_flag {
    REPORT_FLAME_INLINED = 1, // in every sample
    REPORT_FLAME_PARTLY = 2,  // inlined in some samples only
    REPORT_FLAME_OTHER = 4,
};

// Shared by all nodes with one name. Frame 0 is "all", frame 1 is "other".
struct report_flame_frame {
    struct str name, file, module; // module: the basename; empty if unknown
    int64_t line;                  // start line of the function, or the first line seen; 0: unknown
    uint32_t short_at;             // offset of the significant end of name, for narrow boxes
    uint32_t group;
    uint32_t file_text, module_text; // file and module as indices into texts
};

struct report_flame_group {
    struct str name;
    bool muted;     // a runtime or a system library
    uint8_t colour; // hue of the palette
    int64_t self;   // sum over its nodes in the first type; both sides of a diff
};

struct report_flame_type {
    struct str type, unit;
    int64_t negative; // sum of the negative values, as a positive number; both sides of a diff
};

// Parameters to distinguish changes from noise (docs/explanation/diff.md); all 0: not possible.
struct report_flame_noise {
    double weight[2];   // of an event, by side
    double scale;       // of unchanged parts, right by left
    double dispersion;  // between the sides, beyond sampling: a squared coefficient of variation
    double uncertainty; // variance of the scale's logarithm
};

// Nodes are in depth-first order, starting with the root.
struct report_flame {
    bool diff, reverse, normalize;

    uint32_t n_nodes;
    uint32_t *frame, *parent, *depth, *end; // end: the first node after the subtree
    uint8_t *flags;
    int64_t *self, *total; // n_columns per node
    uint32_t max_depth;

    uint32_t n_types, n_columns; // n_columns: n_types, or in a diff twice as many: left, right
    struct report_flame_type *types;

    struct report_flame_noise *noise; // by type; NULL unless diff
    // In a diff, for the first type: which nodes changed beyond noise, and which frames in self and
    // total, if these were counted; NULL: unknown.
    bool *changed, *frame_self_changed, *frame_total_changed;

    struct report_flame_frame *frames;
    uint32_t n_frames;
    struct report_flame_group *groups;
    uint32_t n_groups;
    struct str *texts; // distinct files and modules; the first is empty
    uint32_t n_texts;

    // Exact values, independent of "other"; NULL unless options.functions.
    int64_t *frame_self, *frame_total; // n_columns per frame

    uint32_t merged;      // number of branches merged into an "other"
    double *merged_share; // of each column
};

// Builds the tree in arena; it borrows names from p and options->base. Returns NULL and fills e on
// failure.
struct report_flame *report_flame_new(struct arena *arena, const struct model_profile *p,
                                      const struct report_flame_options *options, struct err *e);

// The weight of a node in the first type: its total; in a diff, that of both sides, with the left
// one scaled if normalized. Widths are proportional to it.
double report_flame_weight(const struct report_flame *flame, uint32_t node);
// The change in the first type of a diff: -1 (gone) .. 0 (equal) .. 1 (new).
double report_flame_change(const struct report_flame *flame, uint32_t node);

struct report_flame_style {
    const char *title;    // NULL: "Flame graph" or "Flame graph diff"
    const char *subtitle; // source of the data: a file name, a query; NULL: none
    int width;            // of the SVG in pixels; 0: REPORT_FLAME_WIDTH
    bool flip;            // root at the bottom
    // Formats a value of the first type; NULL: scales its unit.
    void (*format)(void *context, int64_t value, char *text, size_t n);
    void *context;
};

// Writes the tree as the JSON object that the scripts read (src/report/flame/core.js), and the
// style sheet with their colors for light and dark pages.
void report_flame_json(const struct report_flame *flame, const struct report_flame_style *style,
                       struct out *out);
void report_flame_colours(struct out *out);
void report_flame_svg(const struct report_flame *flame, const struct report_flame_style *style,
                      struct out *out);
void report_flame_html(const struct report_flame *flame, const struct report_flame_style *style,
                       struct out *out);

enum report_flame_colour {
    REPORT_FLAME_PLAIN,
    REPORT_FLAME_256,
    REPORT_FLAME_TRUE_COLOUR,
};

// columns below 20 mean 80; rows of 0: unlimited. If there are more levels than rows, the frames at
// the root that hold (nearly) the whole profile are folded into one line. If that does not suffice,
// the deepest levels are cut, with a note.
void report_flame_term(const struct report_flame *flame, const struct report_flame_style *style,
                       int columns, int rows, enum report_flame_colour colour, struct out *out);
