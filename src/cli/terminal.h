// Output for a person: colours, and tables that fit the window.
#pragma once

#include "base/out.h"

struct terminal {
    bool pretty; // laid out for a person, not for a program
    bool colour, true_colour;
    size_t columns, rows; // 0: as many as it takes
};

enum style { STYLE_NONE, STYLE_BOLD, STYLE_DIM, STYLE_HOT, STYLE_WARM, STYLE_LESS, STYLE_MORE };

// Standard output as it is; when is "auto", "always" or "never".
struct terminal terminal_stdout(const char *when);

// How many columns text takes.
size_t terminal_width(struct str text);
// Text in a style, at most columns wide (0: any) and cut in its middle with an ellipsis;
// what could control the terminal is shown as "?". Returns its width.
size_t terminal_put(const struct terminal *t, struct out *out, struct str text, enum style style,
                    size_t columns);
// The same at the right end of exactly width columns.
void terminal_put_right(const struct terminal *t, struct out *out, struct str text,
                        enum style style, size_t width);
// Begins a style; STYLE_NONE ends it.
void terminal_style(const struct terminal *t, struct out *out, enum style style);
