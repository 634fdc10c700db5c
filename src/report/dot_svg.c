// Makes Graphviz's SVG fill the window and adds panning and zooming.
#include "report/formats.h"

#include "dot_assets.h"

// Replaces the width and height of the first <svg> tag.
static struct str put_svg_tag(struct str svg, struct out *out)
{
    size_t tag = str_find(svg, STR("<svg "), 0), box = str_find(svg, STR("viewBox="), 0);
    if (tag == SIZE_MAX || box == SIZE_MAX || box < tag)
        return svg;
    out_write(out, svg.p, tag);
    out_text(out, "<svg width=\"100%\" height=\"100%\" ");
    return str_from_to(svg, box, svg.n);
}

void report_dot_svg(struct str svg, struct out *out)
{
    struct str rest = put_svg_tag(svg, out);
    // Graphviz writes some ampersands as "&;".
    for (size_t at; (at = str_find(rest, STR("&;"), 0)) != SIZE_MAX;) {
        out_write(out, rest.p, at);
        out_text(out, "&amp;;");
        rest = str_from_to(rest, at + 2, rest.n);
    }
    size_t end = str_find(rest, STR("</svg>"), 0);
    if (end == SIZE_MAX)
        end = rest.n;
    out_write(out, rest.p, end);
    out_text(out, "<script><![CDATA[\n");
    out_text(out, dot_pan_js);
    out_text(out, "]]></script>\n");
    out_str(out, str_from_to(rest, end, rest.n));
}
