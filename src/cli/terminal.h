// Output for people: colors, and tables that fit the window.
#pragma once

#include "base/out.h"

struct terminal {
    bool pretty; // laid out for people, not for programs
    bool colour, true_colour;
    size_t columns, rows; // 0: unlimited
};

enum style { STYLE_NONE, STYLE_BOLD, STYLE_DIM, STYLE_HOT, STYLE_WARM, STYLE_LESS, STYLE_MORE };

// The properties of standard output; when is "auto", "always" or "never".
struct terminal terminal_stdout(const char *when);

// The number of columns of text.
size_t terminal_width(struct str text);
// Writes text in a style, at most columns wide (0: unlimited), truncated in the middle with an
// ellipsis. Control characters become "?". Returns its width.
size_t terminal_put(const struct terminal *t, struct out *out, struct str text, enum style style,
                    size_t columns);
// Like terminal_put, right-aligned in exactly width columns.
void terminal_put_right(const struct terminal *t, struct out *out, struct str text,
                        enum style style, size_t width);
// Begins a style; STYLE_NONE ends it.
void terminal_style(const struct terminal *t, struct out *out, enum style style);
