#include "cli/terminal.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "codec/json.h"

struct terminal terminal_stdout(const char *when)
{
    bool tty = isatty(STDOUT_FILENO), always = strcmp(when, "always") == 0;
    const char *kind = getenv("COLORTERM"), *none = getenv("NO_COLOR"), *term = getenv("TERM");
    bool dumb = term && strcmp(term, "dumb") == 0;
    struct terminal t = {.pretty = tty || always};
    t.colour = always || (tty && strcmp(when, "auto") == 0 && !(none && *none) && !dumb);
    t.true_colour =
        t.colour && kind && (strcmp(kind, "truecolor") == 0 || strcmp(kind, "24bit") == 0);
    struct winsize size = {0};
    int64_t columns;
    if (tty) {
        ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
        t.columns = size.ws_col >= 20 ? size.ws_col : 80;
        t.rows = size.ws_row >= 5 ? size.ws_row : 24;
    } else if (getenv("COLUMNS") && str_to_i64(str_from(getenv("COLUMNS")), &columns) &&
               columns >= 20 && columns < 10000) {
        t.columns = (size_t)columns;
    }
    return t;
}

// Decodes the character at p; *n is its length, *width its columns.
static uint32_t decode_char(const unsigned char *p, size_t left, size_t *n, size_t *width)
{
    static const struct {
        uint32_t from, to;
    } wide[] = {{0x1100, 0x115f}, {0x2e80, 0xa4cf},   {0xac00, 0xd7a3},
                {0xf900, 0xfaff}, {0xfe30, 0xfe6f},   {0xff00, 0xff60},
                {0xffe0, 0xffe6}, {0x1f300, 0x1faff}, {0x20000, 0x3fffd}};
    uint32_t c = p[0];
    *n = json_utf8_length(p, left);
    *width = 1;
    if (!*n) {
        *n = 1;
        return 0; // not UTF-8
    }
    if (*n > 1)
        c &= 0xffu >> (*n + 1);
    for (size_t i = 1; i < *n; i++)
        c = c << 6 | (p[i] & 0x3f);
    if ((c >= 0x300 && c < 0x370) || (c >= 0x200b && c <= 0x200f))
        *width = 0;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        if (c >= wide[i].from && c <= wide[i].to)
            *width = 2;
    return c;
}

size_t terminal_width(struct str text)
{
    size_t total = 0, n, width;
    for (size_t i = 0; i < text.n; i += n) {
        decode_char((const unsigned char *)text.p + i, text.n - i, &n, &width);
        total += width;
    }
    return total;
}

void terminal_style(const struct terminal *t, struct out *out, enum style style)
{
    static const char *const codes[] = {
        [STYLE_NONE] = "\033[0m",   [STYLE_BOLD] = "\033[1m",  [STYLE_DIM] = "\033[2m",
        [STYLE_HOT] = "\033[1;31m", [STYLE_WARM] = "\033[33m", [STYLE_LESS] = "\033[32m",
        [STYLE_MORE] = "\033[31m",
    };
    if (t->colour)
        out_text(out, codes[style]);
}

// Writes the columns [from, to) of text.
static void put_columns(struct out *out, struct str text, size_t from, size_t to)
{
    size_t at = 0, n, width;
    for (size_t i = 0; i < text.n; i += n) {
        const unsigned char *p = (const unsigned char *)text.p + i;
        uint32_t c = decode_char(p, text.n - i, &n, &width);
        if (at >= from && at + width <= to) {
            if (c < 0x20 || (c >= 0x7f && c < 0xa0))
                out_char(out, '?');
            else
                out_write(out, p, n);
        } else if (at < to && at + width > from) {
            out_char(out, ' '); // half of a wide character
        }
        at += width;
    }
}

size_t terminal_put(const struct terminal *t, struct out *out, struct str text, enum style style,
                    size_t columns)
{
    size_t width = terminal_width(text);
    if (style)
        terminal_style(t, out, style);
    if (columns == 0 || width <= columns) {
        put_columns(out, text, 0, SIZE_MAX);
    } else {
        // The end of a name is more significant than its beginning.
        size_t tail = columns * 3 / 5, head = columns - tail - 1;
        put_columns(out, text, 0, head);
        out_text(out, "…");
        put_columns(out, text, width - tail, SIZE_MAX);
        width = columns;
    }
    if (style)
        terminal_style(t, out, STYLE_NONE);
    return width;
}

void terminal_put_right(const struct terminal *t, struct out *out, struct str text,
                        enum style style, size_t width)
{
    size_t used = terminal_width(text);
    if (used < width)
        out_spaces(out, width - used);
    terminal_put(t, out, text, style, 0);
}
