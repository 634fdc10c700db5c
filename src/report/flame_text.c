// Escapes untrusted names for XML and JSON, and formats numbers.
#include "report/flame_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { REPLACEMENT = 0xfffd };

uint32_t flame_next_char(struct str *s)
{
    const unsigned char *p = (const unsigned char *)s->p;
    size_t n = 1, left = s->n;
    uint32_t c = p[0], least = 0;
    if (c >= 0xf0 && c < 0xf8) {
        n = 4, c &= 0x07, least = 0x10000;
    } else if (c >= 0xe0 && c < 0xf0) {
        n = 3, c &= 0x0f, least = 0x800;
    } else if (c >= 0xc0 && c < 0xe0) {
        n = 2, c &= 0x1f, least = 0x80;
    } else if (c >= 0x80) {
        c = REPLACEMENT;
    }
    for (size_t i = 1; i < n; i++) {
        if (i >= left || (p[i] & 0xc0) != 0x80) {
            n = 1;
            c = REPLACEMENT;
            break;
        }
        c = c << 6 | (p[i] & 0x3f);
    }
    s->p += n;
    s->n -= n;
    bool bad = c < least || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) || c < 0x20 ||
               (c >= 0x7f && c < 0xa0) || (c & 0xfffe) == 0xfffe;
    return bad ? REPLACEMENT : c;
}

static void write_utf8(struct out *out, uint32_t c)
{
    if (c < 0x80) {
        out_char(out, (char)c);
    } else if (c < 0x800) {
        out_char(out, (char)(0xc0 | c >> 6));
        out_char(out, (char)(0x80 | (c & 0x3f)));
    } else if (c < 0x10000) {
        out_char(out, (char)(0xe0 | c >> 12));
        out_char(out, (char)(0x80 | (c >> 6 & 0x3f)));
        out_char(out, (char)(0x80 | (c & 0x3f)));
    } else {
        out_char(out, (char)(0xf0 | c >> 18));
        out_char(out, (char)(0x80 | (c >> 12 & 0x3f)));
        out_char(out, (char)(0x80 | (c >> 6 & 0x3f)));
        out_char(out, (char)(0x80 | (c & 0x3f)));
    }
}

void flame_write_xml(struct out *out, struct str s)
{
    while (s.n) {
        uint32_t c = flame_next_char(&s);
        if (c == '<')
            out_text(out, "&lt;");
        else if (c == '>')
            out_text(out, "&gt;");
        else if (c == '&')
            out_text(out, "&amp;");
        else if (c == '"')
            out_text(out, "&quot;");
        else if (c == '\'')
            out_text(out, "&#39;");
        else
            write_utf8(out, c);
    }
}

void flame_write_json(struct out *out, struct str s)
{
    out_char(out, '"');
    while (s.n) {
        uint32_t c = flame_next_char(&s);
        if (c == '"' || c == '\\') {
            out_char(out, '\\');
            out_char(out, (char)c);
        } else if (c == '<' || c == '>' || c == '&' || c == 0x2028 || c == 0x2029) {
            // Characters that could end a script element, a CDATA section or, in old engines, a
            // line.
            out_printf(out, "\\u%04x", c);
        } else {
            write_utf8(out, c);
        }
    }
    out_char(out, '"');
}

void flame_percent(double share, char *text, size_t n)
{
    double percent = 100 * share, size = fabs(percent);
    int digits = size == 0 || size >= 99.995 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : 3;
    if (size > 0 && size < 0.0005)
        snprintf(text, n, "<0.001%%");
    else
        snprintf(text, n, "%.*f%%", digits, percent);
}

struct scale {
    const char *unit, *label;
    double factor; // in the first unit of its family
};

static const struct scale time_scales[] = {{"nanoseconds", "ns", 1},    {"microseconds", "us", 1e3},
                                           {"milliseconds", "ms", 1e6}, {"seconds", "s", 1e9},
                                           {"hours", "hrs", 3.6e12},    {NULL, NULL, 0}};
static const struct scale byte_scales[] = {{"bytes", "B", 1},
                                           {"kilobytes", "kB", 1024.0},
                                           {"megabytes", "MB", 1048576.0},
                                           {"gigabytes", "GB", 1073741824.0},
                                           {"terabytes", "TB", 1099511627776.0},
                                           {NULL, NULL, 0}};

static bool format_scaled(const struct scale *scales, struct str unit, int64_t value, char *text,
                          size_t n)
{
    const struct scale *own = scales;
    for (; own->unit; own++) {
        struct str name = str_from(own->unit);
        // The singular is accepted too.
        if (str_eq(unit, name) || str_eq(unit, str_from_to(name, 0, name.n - 1)) ||
            str_eq(unit, str_from(own->label)))
            break;
    }
    if (!own->unit)
        return false;
    double base = (double)value * own->factor;
    const struct scale *best = scales;
    while (best[1].unit && fabs(base) >= best[1].factor)
        best++;
    double scaled = base / best->factor;
    int digits = scaled == floor(scaled) ? 0 : 2;
    snprintf(text, n, "%.*f%s", digits, scaled, best->label);
    return true;
}

void flame_format(const struct report_flame *flame, const struct report_flame_style *style,
                  int64_t value, char *text, size_t n)
{
    struct str unit = flame->types[0].unit;
    if (style->format) {
        style->format(style->context, value, text, n);
        return;
    }
    if (format_scaled(time_scales, unit, value, text, n) ||
        format_scaled(byte_scales, unit, value, text, n))
        return;
    if (!unit.n || str_eq(unit, STR("count")))
        snprintf(text, n, "%" PRId64, value);
    else
        snprintf(text, n, "%" PRId64 " %.*s", value, (int)(unit.n < 40 ? unit.n : 40), unit.p);
}

const char *flame_title(const struct report_flame *flame, const struct report_flame_style *style)
{
    if (style->title && style->title[0])
        return style->title;
    return flame->diff      ? "Flame graph diff"
           : flame->reverse ? "Flame graph of callers"
                            : "Flame graph";
}

void flame_walk_start(struct flame_walk *walk, const struct report_flame *flame)
{
    walk->all = report_flame_weight(flame, 0);
    walk->next[0] = 0;
}

void flame_walk_next(struct flame_walk *walk, const struct report_flame *flame, uint32_t node,
                     double *left, double *width)
{
    uint32_t depth = flame->depth[node];
    *width = walk->all > 0 ? report_flame_weight(flame, node) / walk->all : node == 0;
    *left = walk->next[depth];
    walk->next[depth] += *width;
    walk->next[depth + 1] = *left;
}

void flame_omissions(const struct report_flame *flame, const struct report_flame_style *style,
                     char *text, size_t n)
{
    char share[32], value[64];
    size_t at = 0;
    text[0] = '\0';
    if (report_flame_weight(flame, 0) <= 0)
        at = (size_t)snprintf(text, n, "no sample has a value above zero");
    if (flame->merged) {
        double sum = 0;
        for (uint32_t i = 1; i < flame->n_nodes; i++)
            if (flame->flags[i] & REPORT_FLAME_OTHER)
                sum += report_flame_weight(flame, i);
        double all = report_flame_weight(flame, 0);
        flame_percent(all > 0 ? sum / all : 0, share, sizeof share);
        at = (size_t)snprintf(text, n, "%u small branch%s (%s) merged into \"other\"",
                              flame->merged, flame->merged == 1 ? "" : "es", share);
    }
    if (flame->types[0].negative && at < n) {
        flame_format(flame, style, flame->types[0].negative, value, sizeof value);
        snprintf(text + at, n - at, "%svalues below zero (-%s) not drawn", at ? "; " : "", value);
    }
}
