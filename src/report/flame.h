// Flame graphs: the stacks of a profile merged into one tree, and that tree as a
// self-contained SVG, a self-contained HTML page, or text for a terminal.
//
// The tree is bounded. The branches with the largest share of the profile are kept
// (exactly the largest max_nodes of those above min_share); whatever else leaves a
// frame is gathered in one child of it named "other", so that for every node and
// every column `total == self + sum of the children's totals`.
//
// A node is a function's name under its parent; frames without a name are an
// address within a module, `[libfoo.so] +0x1234`, counted from the start of the file so
// that runs can be compared. An inlined call is a frame of its own. Siblings stand in the
// order of their names, so that two runs, and the two sides of a diff, look alike.
//
// Values below zero (a profile from which a base was taken away) have no width:
// only what is above zero is drawn, sample by sample, and `negative` says how much was not.
//
// A diff has two columns for each sample type: left, the base, and right, the profile. A
// frame is as wide as both together, so that what vanished remains visible; normalized, the
// left side is first scaled to the total of the right one. Its colour is the change
// relative to the larger side: green less, red more. Changes within noise are grey.
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
    uint32_t type;                    // the sample type that is drawn (first)
    bool all_types;                   // carry the other types too: HTML can switch between them
    bool functions;                   // count functions exactly, for the table in HTML
    bool reverse;                     // from the leaves to their callers
    bool by_module;                   // colour by module even where a name tells its package
    const struct model_profile *base; // for a diff; NULL: none
    bool normalize;                   // a diff of shares instead of absolute values
    // Of a diff: the average weight of an event; 0: from the profiles. Profiles that have blocks
    // (model/blocks.h) are compared by those.
    double event_weights[2];
    double min_share;        // 0: what would be 0.1 px of REPORT_FLAME_WIDTH
    uint32_t max_nodes;      // not counting "other"; 0: REPORT_FLAME_HTML_NODES
    enum report_flame_by by; // what a frame is
    // Only what is below the node that these frames lead to from the root, which then is the
    // root and what shares refer to: for what was merged into "other".
    const struct str *path;
    size_t n_path;
};

enum report_flame_flag {
    REPORT_FLAME_INLINED = 1, // in every sample
    REPORT_FLAME_PARTLY = 2,  // inlined in some samples only
    REPORT_FLAME_OTHER = 4,
};

// What all nodes with one name share. Frame 0 is "all", frame 1 is "other".
struct report_flame_frame {
    struct str name, file, module; // module: the basename; empty if unknown
    int64_t line;                  // where the function starts, or the first line seen; 0: unknown
    uint32_t short_at;             // where in name its telling end begins, for narrow boxes
    uint32_t group;
    uint32_t file_text, module_text; // the same as indices into texts
};

struct report_flame_group {
    struct str name;
    bool muted;     // a runtime or a system library
    uint8_t colour; // a hue of the palette
    int64_t self;   // of its nodes, in the first type; both sides of a diff
};

struct report_flame_type {
    struct str type, unit;
    int64_t negative; // what was not drawn, as a value above zero; both sides of a diff
};

// What is needed to tell a change from noise (docs/diff.md); all 0: it cannot be told.
struct report_flame_noise {
    double weight[2];   // of an event, by side
    double scale;       // of what did not change, right by left
    double dispersion;  // between the sides, beyond sampling: a squared coefficient of variation
    double uncertainty; // the variance of the scale's logarithm
};

// Nodes are in depth-first order, the root first; a node's children follow it.
struct report_flame {
    bool diff, reverse, normalize;

    uint32_t n_nodes;
    uint32_t *frame, *parent, *depth, *end; // end: the first node after the subtree
    uint8_t *flags;
    int64_t *self, *total; // n_columns for each node
    uint32_t max_depth;

    uint32_t n_types, n_columns; // n_columns: n_types, or twice as many in a diff: left, right
    struct report_flame_type *types;

    struct report_flame_noise *noise; // by type; NULL unless diff
    // Which nodes of a diff changed beyond noise, in the first type, and which frames in self and
    // total, if those were counted; NULL: unknown.
    bool *changed, *frame_self_changed, *frame_total_changed;

    struct report_flame_frame *frames;
    uint32_t n_frames;
    struct report_flame_group *groups;
    uint32_t n_groups;
    struct str *texts; // the distinct files and modules; the first is empty
    uint32_t n_texts;

    // Exact, whatever was merged into "other"; NULL unless options.functions.
    int64_t *frame_self, *frame_total; // n_columns for each frame

    uint32_t merged;      // branches that became part of an "other"
    double *merged_share; // of each column
};

// The tree lives in arena and borrows names from p and options->base. NULL with e filled.
struct report_flame *report_flame_new(struct arena *arena, const struct model_profile *p,
                                      const struct report_flame_options *options, struct err *e);

// The weight of a node in the first type: its total, or both sides of a diff, the left
// one scaled if the diff is normalized. This is what widths are proportional to.
double report_flame_weight(const struct report_flame *flame, uint32_t node);
// -1 (gone) .. 0 (the same) .. 1 (new) in the first type of a diff.
double report_flame_change(const struct report_flame *flame, uint32_t node);

struct report_flame_style {
    const char *title;    // NULL: "Flame graph" or "Flame graph diff"
    const char *subtitle; // of what: a file's name, a query; NULL: none
    int width;            // of the SVG in pixels; 0: REPORT_FLAME_WIDTH
    bool flip;            // root at the bottom
    // How values of the first type read; NULL: a plain scaling of its unit.
    void (*format)(void *context, int64_t value, char *text, size_t n);
    void *context;
};

// The tree as the JSON object that the scripts read (src/report/flame/core.js), and the style
// sheet with the colours that they use, for light and dark pages.
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

// columns below 20 count as 80; rows of 0: as many as it takes. Frames that hold the whole
// profile are folded into one line when there are more levels than rows; the deepest levels
// are cut, with a note, when that does not suffice.
void report_flame_term(const struct report_flame *flame, const struct report_flame_style *style,
                       int columns, int rows, enum report_flame_colour colour, struct out *out);
