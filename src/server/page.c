#include "server/page.h"

#include "net/pages.h"

static void put_security_headers(struct call *c, const char *cache)
{
    web_answer_header(c->x, "X-Content-Type-Options", "nosniff");
    web_answer_header(c->x, "Content-Security-Policy", pages_policy);
    web_answer_header(c->x, "Cache-Control", cache);
}

void page_document(struct call *c)
{
    struct err e = {""};
    put_security_headers(c, "no-store");
    if (pages_available(&e)) {
        c->x->status = 404;
        c->x->type = "text/plain; charset=utf-8";
        out_text(&c->x->body_out, e.message);
        out_char(&c->x->body_out, '\n');
    } else {
        c->x->type = "text/html; charset=utf-8";
        pages_write_document(&c->x->body_out, "kiln", "ui/", STR("{\"home\":\"server\"}"), NULL,
                             "main-");
    }
    call_finish(c);
}

bool page_file(struct call *c, struct str path)
{
    struct pages_asset asset;
    struct err e;
    if (!str_starts(path, STR("/ui/")) || !pages_find(str_from_to(path, 4, path.n), &asset))
        return false;
    c->x->type = asset.type;
    put_security_headers(c, "max-age=31536000, immutable");
    if (asset.gzipped.n && c->x->may_gzip) {
        c->x->may_gzip = false; // it is
        web_answer_header(c->x, "Content-Encoding", "gzip");
        web_answer_header(c->x, "Vary", "Accept-Encoding");
        out_str(&c->x->body_out, asset.gzipped);
    } else if (pages_write_file(str_from_to(path, 4, path.n), &c->x->body_out, &e)) {
        call_fail(c, CALL_UNKNOWN, 0, "%s", e.message);
        return true;
    }
    call_finish(c);
    return true;
}
