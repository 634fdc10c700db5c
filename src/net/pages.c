#include "net/pages.h"

#include <libdeflate.h>
#include <stdlib.h>

#include "codec/compress.h"
#include "report/flame.h"
#include "web_assets.h"

enum { WORTH_COMPRESSING = 1024, LARGE = 4 << 20, FILE_MAX = 16 << 20 };

static const struct web_asset *find_asset(struct str name)
{
    for (const struct web_asset *a = web_assets; a->name; a++)
        if (str_eq(str_from(a->name), name))
            return a;
    return NULL;
}

int pages_available(struct err *e)
{
    if (find_asset(STR("app.js")))
        return 0;
    return err_set(e, "this build has no web pages, because npm was missing; install npm and build "
                      "again, or use `kiln flame -o out.html`");
}

const char pages_policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' "
    "data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

void pages_guard(struct http_answer *a)
{
    http_answer_header(a, "X-Content-Type-Options", "nosniff");
    http_answer_header(a, "Referrer-Policy", "no-referrer");
    http_answer_header(a, "Content-Security-Policy", pages_policy);
}

static bool takes_gzip(const struct http_request *q)
{
    return http_list_has(http_header(q, STR("Accept-Encoding")), STR("gzip"));
}

void pages_compress(const struct http_request *q, struct http_answer *a)
{
    http_answer_header(a, "Vary", "Accept-Encoding");
    if (a->body.n < WORTH_COMPRESSING || a->body.error || !takes_gzip(q))
        return;
    // Compress large answers faster, because the user waits for them.
    struct libdeflate_compressor *c = libdeflate_alloc_compressor(a->body.n > LARGE ? 4 : 6);
    size_t bound = c ? libdeflate_gzip_compress_bound(c, a->body.n) : 0;
    char *packed = malloc(bound + 1);
    size_t n = c && packed ? libdeflate_gzip_compress(c, a->body.p, a->body.n, packed, bound) : 0;
    if (n) {
        a->body.n = 0;
        out_write(&a->body, packed, n);
        http_answer_header(a, "Content-Encoding", "gzip");
    }
    free(packed);
    libdeflate_free_compressor(c);
}

static bool is_generated_asset(struct str name)
{
    return str_eq(name, STR("palette.css"));
}

bool pages_find(struct str name, struct pages_asset *asset)
{
    const struct web_asset *found = find_asset(name);
    *asset = (struct pages_asset){.type = str_ends(name, STR(".css"))
                                              ? "text/css; charset=utf-8"
                                              : "text/javascript; charset=utf-8"};
    if (found)
        asset->gzipped = (struct str){found->data, found->n};
    return found || is_generated_asset(name);
}

int pages_write_file(struct str name, struct out *out, struct err *e)
{
    const struct web_asset *asset = find_asset(name);
    struct compress_bytes plain = {0};
    if (!asset) {
        report_flame_colours(out);
        return 0;
    }
    if (compress_inflate(asset->data, asset->n, FILE_MAX, &plain, e))
        return -1;
    out_write(out, plain.p, plain.n);
    compress_bytes_fini(&plain);
    return 0;
}

bool pages_file(struct str name, const struct http_request *q, struct http_answer *a)
{
    struct err e;
    struct pages_asset asset;
    if (!pages_find(name, &asset))
        return false;
    a->type = asset.type;
    http_answer_header(a, "Cache-Control", "max-age=31536000, immutable");
    if (asset.gzipped.n && takes_gzip(q)) {
        http_answer_header(a, "Vary", "Accept-Encoding");
        http_answer_header(a, "Content-Encoding", "gzip");
        out_str(&a->body, asset.gzipped);
    } else if (pages_write_file(name, &a->body, &e)) {
        http_answer_text(a, 500, "%s", e.message);
    } else {
        pages_compress(q, a);
    }
    return true;
}

static void put_page_text(struct out *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '<')
            out_text(out, "&lt;");
        else if (*text == '&')
            out_text(out, "&amp;");
        else
            out_char(out, *text);
    }
}

// Escapes <, which could end the script element.
static void put_script_json(struct out *out, struct str json)
{
    for (size_t i = 0; i < json.n; i++) {
        if (json.p[i] == '<')
            out_text(out, "\\u003c");
        else
            out_char(out, json.p[i]);
    }
}

void pages_write_document(struct out *out, const char *title, const char *base, struct str meta,
                          const char *first, const char *part)
{
    static const char *const styles[] = {"palette.css", "app.css"};
    out_text(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                  "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                  "<meta name=\"color-scheme\" content=\"light dark\">\n"
                  "<link rel=\"icon\" href=\"data:,\">\n<title>");
    put_page_text(out, title);
    out_text(out, "</title>\n");
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++)
        out_printf(out, "<link rel=\"stylesheet\" href=\"%s%s?v=%s\">\n", base, styles[i],
                   web_assets_version);
    if (first)
        out_printf(out, "<link rel=\"preload\" as=\"fetch\" crossorigin href=\"%s\">\n", first);
    // Preload what app.js imports immediately. Other parts are for pages that may never be opened.
    for (const struct web_asset *asset = web_assets; asset->name; asset++)
        if (str_starts(str_from(asset->name), STR("chunk-")) ||
            (part && str_starts(str_from(asset->name), str_from(part))))
            out_printf(out, "<link rel=\"modulepreload\" href=\"%s%s\">\n", base, asset->name);
    out_printf(out, "<script type=\"module\" src=\"%sapp.js?v=%s\"></script>\n", base,
               web_assets_version);
    out_text(out, "</head>\n<body>\n<div id=\"app\"></div>\n<noscript>These pages are drawn by a "
                  "script; the browser has scripts switched off. `kiln top` shows the same in a "
                  "terminal.</noscript>\n<script type=\"application/json\" id=\"meta\">");
    put_script_json(out, meta);
    out_text(out, "</script>\n</body>\n</html>\n");
}

void pages_document(const struct http_request *q, struct http_answer *a, const char *title,
                    const char *base, struct str meta, const char *first)
{
    a->type = "text/html; charset=utf-8";
    http_answer_header(a, "Cache-Control", "no-store");
    pages_write_document(&a->body, title, base, meta, first, NULL);
    pages_compress(q, a);
}
