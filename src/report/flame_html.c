#include "report/flame_assets.h"
#include "report/flame_internal.h"

void report_flame_html(const struct report_flame *flame, const struct report_flame_style *style,
                       struct out *out)
{
    // The policy guarantees that the page makes no requests.
    out_text(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                  "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                  "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                  "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n"
                  "<meta name=\"color-scheme\" content=\"light dark\">\n<title>");
    flame_write_xml(out, str_from(flame_title(flame, style)));
    out_text(out, "</title>\n<style>\n");
    report_flame_colours(out);
    out_text(out, flame_css);
    out_text(out, flame_page_css);
    out_text(out, "</style>\n</head>\n<body>\n");
    out_text(out, flame_page_html);
    out_text(out, "<script type=\"application/json\" id=\"data\">");
    report_flame_json(flame, style, out);
    out_text(out, "</script>\n<script>\n(() => {\n\"use strict\";\n");
    out_text(out, flame_core_js);
    out_text(out, flame_transform_js);
    out_text(out, flame_canvas_js);
    out_text(out, flame_graph_js);
    out_text(out, flame_table_js);
    out_text(out, flame_page_js);
    out_text(out, "})();\n</script>\n</body>\n</html>\n");
}
