// A flame graph in a terminal: one line per level, root on top. Siblings are sorted by size:
// terminals cannot zoom, and narrow boxes would separate the wide ones.
#include "report/flame_internal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_COLUMNS = 1000 };

struct screen {
    const struct report_flame *flame;
    const struct report_flame_style *style;
    struct out *out;
    int columns;
    enum report_flame_colour colour;
    uint32_t root;   // fills the line: the profile, or the frame below a folded trunk
    uint32_t *order; // nodes as drawn: depth first, siblings by size
    double *left;    // of each node, in shares of the profile
};

// The nearest of the 256 colors: the 6x6x6 cube and the grays.
static int nearest_256(uint32_t rgb)
{
    static const int levels[] = {0, 95, 135, 175, 215, 255};
    int part[3] = {(int)(rgb >> 16), (int)(rgb >> 8 & 255), (int)(rgb & 255)}, cube = 0,
        distance = 0;
    for (int i = 0; i < 3; i++) {
        int best = 0;
        for (int k = 1; k < 6; k++)
            if (abs(levels[k] - part[i]) < abs(levels[best] - part[i]))
                best = k;
        cube = cube * 6 + best;
        distance += (levels[best] - part[i]) * (levels[best] - part[i]);
    }
    int grey = ((part[0] + part[1] + part[2]) / 3 - 3) / 10, grey_distance = 0;
    grey = grey < 0 ? 0 : grey > 23 ? 23 : grey;
    for (int i = 0; i < 3; i++)
        grey_distance += (8 + 10 * grey - part[i]) * (8 + 10 * grey - part[i]);
    return grey_distance < distance ? 232 + grey : 16 + cube;
}

static void set_colours(struct screen *s, uint32_t node)
{
    uint32_t index = flame_colour(s->flame, node);
    uint32_t rgb = s->flame->diff ? flame_diff_palette[0][index] : flame_palette[0][index];
    const char *italic = s->flame->flags[node] & REPORT_FLAME_INLINED ? "3;" : "";
    if (s->colour == REPORT_FLAME_TRUE_COLOUR)
        out_printf(s->out, "\x1b[%s38;2;27;31;36;48;2;%u;%u;%um", italic, rgb >> 16, rgb >> 8 & 255,
                   rgb & 255);
    else
        out_printf(s->out, "\x1b[%s38;5;234;48;5;%dm", italic, nearest_256(rgb));
}

// The columns of a character: wide scripts take two, as most terminals agree.
static int char_columns(uint32_t c)
{
    return (c >= 0x1100 && c <= 0x115f) || (c >= 0x2e80 && c <= 0xa4cf) ||
                   (c >= 0xac00 && c <= 0xd7a3) || (c >= 0xf900 && c <= 0xfaff) ||
                   (c >= 0xfe30 && c <= 0xfe6f) || (c >= 0xff00 && c <= 0xff60) ||
                   (c >= 0x1f300 && c <= 0x1faff) || (c >= 0x20000 && c <= 0x3fffd)
               ? 2
               : 1;
}

static int text_columns(struct str s)
{
    int n = 0;
    while (s.n)
        n += char_columns(flame_next_char(&s));
    return n;
}

// Writes exactly room columns: the text, cut or padded. Control characters are replaced, so that
// the text cannot control the terminal.
static void write_padded(struct out *out, struct str s, int room)
{
    bool fits = text_columns(s) <= room;
    int left = fits || room < 5 ? room : room - 2;
    while (s.n) {
        struct str before = s;
        uint32_t c = flame_next_char(&s);
        if (char_columns(c) > left)
            break;
        left -= char_columns(c);
        if (c == 0xfffd)
            out_char(out, '?');
        else
            out_write(out, before.p, before.n - s.n);
    }
    out_spaces(out, (size_t)left);
    if (!fits && room >= 5)
        out_text(out, "..");
}

static void write_box(struct screen *s, uint32_t node, int width)
{
    const struct report_flame_frame *frame = &s->flame->frames[s->flame->frame[node]];
    double all = report_flame_weight(s->flame, 0);
    char share[40] = "";
    struct str name = frame->name;
    if (s->colour)
        set_colours(s, node);
    else
        out_char(s->out, width == 1 ? '.' : '|');
    // Boxes are separated by a bar, or by a blank in the color of the left one.
    int room = width - 1;
    if (text_columns(name) > room)
        name = str_from_to(name, frame->short_at, name.n);
    if (s->flame->diff) {
        // Relative to the left side, as users expect.
        double change = report_flame_change(s->flame, node);
        double relative = change > 0 ? change / (1 - change) : change;
        if (change >= 1 || change <= -1)
            snprintf(share, sizeof share, change > 0 ? " new" : " gone");
        else
            snprintf(share, sizeof share, " %+.0f%%", 100 * relative);
    } else {
        char percent[32];
        flame_percent(all > 0 ? report_flame_weight(s->flame, node) / all : 0, percent,
                      sizeof percent);
        snprintf(share, sizeof share, " %s", percent);
    }
    int share_room = (int)strlen(share);
    if (room < text_columns(name) + share_room)
        share_room = 0;
    write_padded(s->out, name, room - share_room);
    if (share_room)
        out_text(s->out, share);
    if (s->colour)
        out_text(s->out, " \x1b[0m");
}

static int compare_sizes(const void *a, const void *b, void *context)
{
    const struct report_flame *f = context;
    const uint32_t *x = a, *y = b;
    bool x_other = f->flags[*x] & REPORT_FLAME_OTHER, y_other = f->flags[*y] & REPORT_FLAME_OTHER;
    if (x_other != y_other)
        return x_other - y_other;
    double v = report_flame_weight(f, *x), w = report_flame_weight(f, *y);
    return v != w ? (v < w) - (v > w) : (*x > *y) - (*x < *y);
}

// order is initially used as a stack: pending nodes at its end, finished nodes at its start.
// Together they never exceed the number of nodes.
static void order_nodes(struct screen *s)
{
    const struct report_flame *f = s->flame;
    double all = report_flame_weight(f, 0);
    uint32_t done = 0, waiting = f->n_nodes - 1;
    s->order[waiting] = 0;
    while (waiting < f->n_nodes) {
        uint32_t node = s->order[waiting++], first = waiting;
        s->order[done++] = node;
        for (uint32_t i = node + 1; i < f->end[node]; i = f->end[i])
            s->order[--first] = i;
        qsort_r(s->order + first, waiting - first, sizeof *s->order, compare_sizes, (void *)f);
        double left = s->left[node];
        for (uint32_t i = first; i < waiting; i++) {
            s->left[s->order[i]] = left;
            left += all > 0 ? report_flame_weight(f, s->order[i]) / all : 0;
        }
        waiting = first;
    }
}

static void write_level(struct screen *s, uint32_t depth)
{
    const struct report_flame *f = s->flame;
    double all = report_flame_weight(f, 0), whole = report_flame_weight(f, s->root);
    // One column is for the last bar.
    double scale = whole > 0 ? (s->columns - !s->colour) * all / whole : s->columns;
    int at = 0;
    bool open = false; // the last box still needs its right bar
    for (uint32_t k = 0; k < f->n_nodes; k++) {
        uint32_t i = s->order[k];
        if (f->depth[i] != depth || i < s->root || i >= f->end[s->root])
            continue;
        double width = all > 0 ? report_flame_weight(f, i) / all : 1;
        int from = (int)lround((s->left[i] - s->left[s->root]) * scale);
        int to = (int)lround((s->left[i] + width - s->left[s->root]) * scale);
        if (to <= from)
            continue;
        if (from > at && open) {
            out_char(s->out, '|');
            at++;
        }
        if (from > at)
            out_spaces(s->out, (size_t)(from - at));
        write_box(s, i, to - from);
        at = to;
        open = !s->colour;
    }
    if (open)
        out_char(s->out, '|');
    out_char(s->out, '\n');
}

static void write_term_header(struct screen *s)
{
    const struct report_flame *f = s->flame;
    char value[64];
    const char *bold = s->colour ? "\x1b[1m" : "", *plain = s->colour ? "\x1b[0m" : "";
    out_text(s->out, bold);
    struct str title = str_from(flame_title(f, s->style));
    int width = text_columns(title);
    write_padded(s->out, title, width < s->columns ? width : s->columns);
    out_printf(s->out, "%s\n", plain);
    struct str type = f->types[0].type;
    write_padded(s->out, type, text_columns(type));
    flame_format(f, s->style, f->total[0], value, sizeof value);
    if (f->diff) {
        out_printf(s->out, ": left %s", value);
        flame_format(f, s->style, f->total[1], value, sizeof value);
        out_printf(s->out, ", right %s; boxes show the change of %s", value,
                   f->normalize ? "their share" : "their value");
    } else {
        out_printf(s->out, ": %s%s", value, f->reverse ? ", from the leaves to their callers" : "");
    }
    out_char(s->out, '\n');
}

// Folds the frames at the root that hold at least 98% of their parent: a service spends its time
// below the same frames of its runtime.
static uint32_t fold_trunk(struct screen *s, uint32_t levels)
{
    const struct report_flame *f = s->flame;
    uint32_t folded = 0;
    while (f->max_depth - f->depth[s->root] + 1 > levels) {
        uint32_t child = s->root + 1;
        double whole = report_flame_weight(f, s->root);
        uint32_t widest = child;
        for (uint32_t i = child; i < f->end[s->root]; i = f->end[i])
            if (report_flame_weight(f, i) > report_flame_weight(f, widest))
                widest = i;
        if (child >= f->end[s->root] || report_flame_weight(f, widest) < 0.98 * whole)
            break;
        s->root = widest;
        folded++;
    }
    return folded;
}

static void write_trunk(struct screen *s)
{
    const struct report_flame *f = s->flame;
    uint32_t path[FLAME_MAX_DEPTH + 2], n = 0;
    for (uint32_t i = f->parent[s->root]; i != MODEL_NONE && i; i = f->parent[i])
        path[n++] = i;
    char share[32];
    flame_percent(report_flame_weight(f, s->root) / report_flame_weight(f, 0), share, sizeof share);
    out_printf(s->out, "%s below", share);
    int room = s->columns - (int)strlen(share) - 6;
    while (n-- > 0) {
        const struct report_flame_frame *frame = &f->frames[f->frame[path[n]]];
        struct str name = str_from_to(frame->name, frame->short_at, frame->name.n);
        int width = text_columns(name);
        if (width + 8 > room && n) {
            out_printf(s->out, " > .. %u", n + 1);
            break;
        }
        out_text(s->out, " > ");
        write_padded(s->out, name, width < room - 3 ? width : room > 4 ? room - 3 : 1);
        room -= width + 3;
    }
    out_char(s->out, '\n');
}

void report_flame_term(const struct report_flame *flame, const struct report_flame_style *style,
                       int columns, int rows, enum report_flame_colour colour, struct out *out)
{
    struct screen s = {.flame = flame, .style = style, .out = out, .colour = colour};
    s.columns = columns < 20 ? 80 : columns > MAX_COLUMNS ? MAX_COLUMNS : columns;
    char notes[256];
    flame_omissions(flame, style, notes, sizeof notes);
    s.order = calloc(flame->n_nodes, sizeof *s.order);
    s.left = calloc(flame->n_nodes, sizeof *s.left);
    if (!s.order || !s.left) {
        out->error = ENOMEM;
        goto done;
    }
    order_nodes(&s);
    write_term_header(&s);

    // Two lines of header, one of notes, one for the next prompt.
    uint32_t levels = rows <= 0 ? UINT32_MAX : rows > 8 ? (uint32_t)rows - 4 : 4;
    if (flame->max_depth + 1 > levels) {
        levels--; // for the trunk
        if (fold_trunk(&s, levels))
            write_trunk(&s);
        else
            levels++;
    }
    uint32_t first = flame->depth[s.root], last = flame->max_depth;
    if (last - first + 1 > levels)
        last = first + levels - 1;
    for (uint32_t depth = first; depth <= last; depth++)
        write_level(&s, depth);
    if (last < flame->max_depth)
        out_printf(out, ".. %u deeper level%s not shown%s", flame->max_depth - last,
                   flame->max_depth - last == 1 ? "" : "s", notes[0] ? "; " : "");
    write_padded(out, str_from(notes), text_columns(str_from(notes)));
    if (last < flame->max_depth || notes[0])
        out_char(out, '\n');
done:
    free(s.order);
    free(s.left);
}
