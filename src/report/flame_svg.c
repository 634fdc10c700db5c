#include "report/flame_assets.h"
#include "report/flame_internal.h"

#include <stdio.h>

// src/report/flame/svg.js uses the same dimensions.
enum {
    ROW = 18,
    PAD = 10,
    HEAD = 60,
    FOOT = 34,
    MIN_HEIGHT = 260, // room for a tooltip
    LEGEND = 6,       // groups shown
};

struct canvas {
    const struct report_flame *flame;
    const struct report_flame_style *style;
    struct out *out;
    int width, height;
};

// Widths of Helvetica in thousandths of the font size, from space to tilde: close enough to any
// sans-serif substitute.
static const uint16_t char_widths[] = {
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333,  278, 278, 556, 556, 556,
    556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667,
    611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667,  611, 722, 667, 944, 667,
    667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278,  556, 556, 222, 222, 500,
    222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500,  500, 334, 260, 334, 584};

static double char_width(uint32_t c)
{
    if (c >= ' ' && c <= '~')
        return 0.012 * char_widths[c - ' '];
    return c < 0x1100 ? 7.5 : 12;
}

static double text_width(struct str s)
{
    double width = 0;
    while (s.n)
        width += char_width(flame_next_char(&s));
    return width;
}

// The part of s that fits into room, without the ellipsis if cut. Returns false if nothing fits.
static bool fit_text(struct str s, double room, struct str *part, bool *cut)
{
    *cut = false;
    *part = s;
    if (text_width(s) <= room)
        return true;
    double width = char_width('m'); // the ellipsis
    size_t n = 0, chars = 0;
    for (struct str rest = s; rest.n; chars++) {
        struct str before = rest;
        width += char_width(flame_next_char(&rest));
        if (width > room)
            break;
        n += before.n - rest.n;
    }
    *part = str_from_to(s, 0, n);
    *cut = true;
    return chars > 1;
}

static void write_svg_label(struct canvas *c, struct str name, uint32_t short_at, double room)
{
    struct str part;
    bool cut;
    if (text_width(name) > room && short_at)
        name = str_from_to(name, short_at, name.n);
    if (!fit_text(name, room, &part, &cut))
        return;
    flame_write_xml(c->out, part);
    if (cut)
        out_text(c->out, "\xe2\x80\xa6");
}

// Writes tenths, without a trailing zero: half of the file is such numbers.
static void write_tenths(struct out *out, double value)
{
    int64_t tenths = (int64_t)(value * 10 + 0.5);
    out_i64(out, tenths / 10);
    if (tenths % 10)
        out_printf(out, ".%d", (int)(tenths % 10));
}

static void write_svg_values(struct canvas *c, uint32_t node)
{
    char text[64], share[32];
    const int64_t *total = c->flame->total + (size_t)node * c->flame->n_columns;
    double all = report_flame_weight(c->flame, 0);
    flame_format(c->flame, c->style, total[0], text, sizeof text);
    flame_write_xml(c->out, str_from(text));
    if (c->flame->diff) {
        flame_format(c->flame, c->style, total[1], text, sizeof text);
        out_text(c->out, " \xe2\x86\x92 ");
        flame_write_xml(c->out, str_from(text));
        return;
    }
    flame_percent(all > 0 ? report_flame_weight(c->flame, node) / all : 0, share, sizeof share);
    out_printf(c->out, ", %s", share);
}

static void write_node(struct canvas *c, uint32_t node, double left, double width)
{
    const struct report_flame *f = c->flame;
    const struct report_flame_frame *frame = &f->frames[f->frame[node]];
    uint32_t level = c->style->flip ? f->max_depth - f->depth[node] : f->depth[node];
    int y = HEAD + (int)level * ROW;
    uint32_t colour = flame_colour(f, node);
    const char *inlined = f->flags[node] & REPORT_FLAME_INLINED ? " i" : "";
    out_text(c->out, "<g><title>");
    flame_write_xml(c->out, frame->name);
    out_text(c->out, "\n");
    write_svg_values(c, node);
    out_printf(c->out, "</title><rect class=\"%c%u%s\" x=\"", f->diff ? 'd' : 'c', colour, inlined);
    write_tenths(c->out, PAD + left);
    out_printf(c->out, "\" y=\"%d\" width=\"", y);
    write_tenths(c->out, width > 3 ? width - 0.6 : width > 0.1 ? width : 0.1);
    out_printf(c->out, "\" height=\"%d\"/>", ROW - 1);
    if (width > 19) {
        out_printf(c->out, "<text%s x=\"", inlined[0] ? " class=\"i\"" : "");
        write_tenths(c->out, PAD + left + 4);
        out_printf(c->out, "\" y=\"%d\">", y + 13);
        write_svg_label(c, frame->name, frame->short_at, width - 7);
        out_text(c->out, "</text>");
    }
    out_text(c->out, "</g>\n");
}

static void write_nodes(struct canvas *c)
{
    const struct report_flame *f = c->flame;
    struct flame_walk walk;
    double inner = c->width - 2 * PAD;
    flame_walk_start(&walk, f);
    out_printf(c->out, "<g id=\"body\" data-top=\"%d\">\n", HEAD);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        double left, width;
        flame_walk_next(&walk, f, i, &left, &width);
        if (width * inner >= 0.3)
            write_node(c, i, left * inner, width * inner);
    }
    out_text(c->out, "</g>\n");
}

static void write_style(struct canvas *c)
{
    struct out *out = c->out;
    char prefix = c->flame->diff ? 'd' : 'c';
    int n = c->flame->diff ? FLAME_DIFF_STEPS : FLAME_COLOURS;
    const uint32_t *colours = c->flame->diff ? flame_diff_palette[0] : flame_palette[0];
    out_text(out, "<style>\n");
    // Viewers without custom properties use the first of each pair.
    for (int i = 0; i < n; i++)
        out_printf(out, ".%c%d{fill:#%06x}.%c%d{fill:var(--%c%d)}.i.%c%d{fill:url(#h%d)}\n", prefix,
                   i, colours[i], prefix, i, prefix, i, prefix, i, i);
    out_text(out, "svg{");
    out_text(out, flame_theme_css);
    flame_write_css_colours(out, 0);
    out_text(out, "}\n@media(prefers-color-scheme:dark){svg{");
    out_text(out, flame_theme_dark_css);
    flame_write_css_colours(out, 1);
    out_text(out, "}}\n");
    out_text(out, flame_svg_css);
    out_text(out, "</style>\n<defs>");
    for (int i = 0; i < n; i++)
        out_printf(out,
                   "<pattern id=\"h%d\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
                   "patternTransform=\"rotate(45)\"><rect class=\"%c%d\" width=\"6\" height=\"6\"/>"
                   "<path class=\"hatch\" d=\"M1 0V6\"/></pattern>\n",
                   i, prefix, i);
    out_text(out, "</defs>\n");
}

static void write_head(struct canvas *c)
{
    const struct report_flame *f = c->flame;
    struct out *out = c->out;
    char text[64];
    out_printf(out, "<text class=\"title\" x=\"%d\" y=\"28\">", PAD);
    write_svg_label(c, str_from(flame_title(f, c->style)), 0, c->width * 0.36);
    out_printf(out, "</text>\n<text class=\"faint\" x=\"%d\" y=\"48\">", PAD);
    if (c->style->subtitle && c->style->subtitle[0]) {
        flame_write_xml(out, str_from(c->style->subtitle));
        out_text(out, " \xc2\xb7 ");
    }
    flame_write_xml(out, f->types[0].type);
    out_text(out, f->diff ? " left " : " ");
    flame_format(f, c->style, f->total[0], text, sizeof text);
    flame_write_xml(out, str_from(text));
    if (f->diff) {
        flame_format(f, c->style, f->total[1], text, sizeof text);
        out_text(out, " \xe2\x86\x92 right ");
        flame_write_xml(out, str_from(text));
        if (f->normalize)
            out_text(out, ", left scaled to the total of the right");
    }
    out_printf(out, " \xc2\xb7 %u frame%s%s</text>\n", f->n_nodes - 1, str_plural(f->n_nodes - 1),
               f->reverse ? ", from the leaves to their callers" : "");
}

static double write_swatch(struct canvas *c, double x, int y, const char *classes)
{
    out_printf(c->out,
               "<rect class=\"%s\" x=\"%.1f\" y=\"%d\" width=\"12\" height=\"12\" rx=\"3\"/>",
               classes, x, y - 10);
    return x + 18;
}

static double write_words(struct canvas *c, double x, int y, struct str words)
{
    out_printf(c->out, "<text class=\"faint\" x=\"%.1f\" y=\"%d\">", x, y);
    flame_write_xml(c->out, words);
    out_text(c->out, "</text>\n");
    return x + text_width(words) + 16;
}

// The groups with the largest self value.
static double write_groups(struct canvas *c, double x, int y, double limit)
{
    const struct report_flame *f = c->flame;
    uint32_t shown[LEGEND];
    for (int k = 0; k < LEGEND; k++) {
        int64_t most = 0;
        uint32_t best = MODEL_NONE;
        for (uint32_t g = 0; g < f->n_groups; g++) {
            bool seen = f->groups[g].name.n == 0;
            for (int j = 0; j < k; j++)
                seen |= shown[j] == g;
            int64_t self = seen ? 0 : f->groups[g].self;
            if (self > most) {
                most = self;
                best = g;
            }
        }
        if (best == MODEL_NONE)
            return x;
        shown[k] = best;
        const struct report_flame_group *group = &f->groups[best];
        char colour[16], share[32], words[160];
        flame_percent((double)most / (double)f->total[0], share, sizeof share);
        // Shorten long paths at the front.
        struct str name = group->name;
        size_t cut = name.n > 32 ? name.n - 31 : 0;
        while (cut && cut < name.n && ((unsigned char)name.p[cut] & 0xc0) == 0x80)
            cut++;
        snprintf(words, sizeof words, "%s%.*s %s", cut ? "\xe2\x80\xa6" : "", (int)(name.n - cut),
                 name.p + cut, share);
        if (x + 30 + text_width(str_from(words)) > limit)
            return x;
        snprintf(colour, sizeof colour, "c%d",
                 (group->muted ? FLAME_MUTED : group->colour * FLAME_SHADES) + 1);
        x = write_words(c, write_swatch(c, x, y, colour), y, str_from(words));
    }
    return x;
}

static void write_foot(struct canvas *c)
{
    const struct report_flame *f = c->flame;
    int y = c->height - 14;
    double x = PAD;
    char notes[256];
    flame_omissions(f, c->style, notes, sizeof notes);
    double limit = c->width - PAD - text_width(str_from(notes));
    if (f->diff) {
        x = write_words(c, x, y, STR("less")) - 8;
        for (int i = 0; i < FLAME_DIFF_STEPS; i++) {
            char colour[16];
            snprintf(colour, sizeof colour, "d%d", i);
            x = write_swatch(c, x, y, colour) - 4;
        }
        x = write_words(c, x + 6, y, STR("more"));
    } else {
        x = write_groups(c, x, y, limit - 70);
    }
    bool inlined = false;
    for (uint32_t i = 0; i < f->n_nodes; i++)
        inlined |= f->flags[i] & REPORT_FLAME_INLINED;
    if (inlined)
        write_words(c, write_swatch(c, x, y, f->diff ? "d4 i" : "c25 i"), y, STR("inlined"));
    if (notes[0]) {
        out_printf(c->out, "<text class=\"faint\" text-anchor=\"end\" x=\"%d\" y=\"%d\">",
                   c->width - PAD, y);
        flame_write_xml(c->out, str_from(notes));
        out_text(c->out, "</text>\n");
    }
}

void report_flame_svg(const struct report_flame *flame, const struct report_flame_style *style,
                      struct out *out)
{
    struct canvas c = {.flame = flame, .style = style, .out = out};
    c.width = style->width > 0 ? style->width : REPORT_FLAME_WIDTH;
    if (c.width < 200)
        c.width = 200;
    c.height = HEAD + (int)(flame->max_depth + 1) * ROW + FOOT;
    if (c.height < MIN_HEIGHT)
        c.height = MIN_HEIGHT;
    out_printf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
        "viewBox=\"0 0 %d %d\" font-family=\"Helvetica Neue,Arial,Liberation Sans,sans-serif\" "
        "font-size=\"12\">\n<title>",
        c.width, c.height, c.width, c.height);
    flame_write_xml(out, str_from(flame_title(flame, style)));
    out_text(out, "</title>\n");
    write_style(&c);
    out_text(out,
             "<rect width=\"100%\" height=\"100%\" fill=\"#fff\" style=\"fill:var(--bg)\"/>\n");
    write_head(&c);
    write_nodes(&c);
    write_foot(&c);
    out_text(out, "<script type=\"application/json\" id=\"data\">");
    report_flame_json(flame, style, out);
    out_text(out, "</script>\n<script><![CDATA[\n(() => {\n\"use strict\";\n");
    out_text(out, flame_core_js);
    out_text(out, flame_svg_js);
    out_text(out, "})();\n]]></script>\n</svg>\n");
}
