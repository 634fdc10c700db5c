// Reports: turns a profile into text. Each format prints exactly what google/pprof prints.
#pragma once

#include "base/out.h"
#include "model/profile.h"
#include "model/regex.h"
#include "symbol/symbol.h"

enum report_format {
    REPORT_TEXT,
    REPORT_TREE, // also peek, which sets symbol
    REPORT_TRACES,
    REPORT_TAGS,
    REPORT_RAW,
    REPORT_COMMENTS,
    REPORT_DOT,
    REPORT_CALLGRIND,
    REPORT_PROTO,
    REPORT_TOPPROTO,
    REPORT_LIST,
    REPORT_DISASM,
    REPORT_WEBLIST,
};

struct report_options {
    enum report_format format;
    bool cum_sort, call_tree, drop_negative, compact_labels;
    bool mean;      // divide by the first value
    double ratio;   // applied to every printed value
    int node_count; // 0: all
    double node_fraction, edge_fraction;
    uint32_t type;          // index of the displayed sample type
    struct str type_name;   // as printed
    struct str unit;        // of the values
    struct str output_unit; // "minimum", "auto" or a unit
    struct str title;
    const struct str *filters; // shown in the header
    size_t n_filters;
    const uint32_t *label_units; // model_label_units
    struct model_regex *symbol;  // peek, list, disasm, weblist
    struct str source_path, trim_path;

    // Of a difference: whether a node is within noise, and gray in a graph. NULL: no node is.
    bool (*is_noise)(const void *context, struct str name);
    const void *noise_context;

    // For disasm and weblist.
    struct symbol_options binaries; // how to open binaries
    const char *tools;              // directory of objdump, like pprof's -tools
    bool intel_syntax;
    bool fragment;                  // weblist: without the surrounding page and style attributes
    void (*note)(const char *text); // reports unreadable binaries with the reason; may be NULL
};

struct report_objects;

struct report {
    const struct model_profile *p;
    struct arena *arena;
    struct report_options o;
    int64_t total;
    struct report_objects *objects; // binaries open while the report is written
};

// The value that percentages refer to: the sum of |value|, for a diff only that of the base.
// Computed before filters, unless percentages are relative.
int64_t report_total(const struct model_profile *p, uint32_t type, bool mean);

// Writes the report incrementally. A report without content (peek without a match) fails before it
// writes; only running out of memory leaves partial output. Allocates in r->arena.
int report_write(struct report *r, struct out *out, struct err *e);

// The header lines of a report: file, build id, comments, type, time, duration. Joined by newlines,
// without a final one.
struct str report_profile_labels(const struct report *r);

// Formats a value as the report prints it, truncated to size - 1. Returns its length.
size_t report_format_value(const struct report *r, int64_t value, char *text, size_t size);

// Writes Graphviz's SVG of REPORT_DOT, modified to fill the window, with panning and zooming.
void report_dot_svg(struct str svg, struct out *out);

// A row of REPORT_TEXT, for tables with another layout.
struct report_row {
    struct str name;
    const char *inline_label; // "", "(inline)", "(partial-inline)"
    int64_t flat, cum;
};
struct report_rows {
    struct report_row *rows;
    size_t n;
    struct str header; // the lines above the table
};
int report_text_rows(struct report *r, struct report_rows *rows, struct err *e);
