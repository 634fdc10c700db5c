// Files that somebody looks at: read, drawn, forgotten.
#include "codec/codec.h"
#include "codec/json.h"
#include "model/events.h"
#include "net/multipart.h"
#include "report/flame.h"
#include "server/query_api.h"

enum { MOST_PATH = 2048 };

struct upload {
    struct str profile, base, type;
    struct str path[MOST_PATH];
    size_t n_path;
};

static int read_parts(struct call *c, struct str body, struct upload *u, struct err *e)
{
    struct multipart m;
    struct str name, content, type = web_header(c->x, "Content-Type");
    int more = multipart_begin(&m, type.p ? type : STR(""), body, e);
    while (!more && (more = multipart_next(&m, &name, &content, e)) == 1) {
        more = 0;
        if (str_eq(name, STR("profile")))
            u->profile = content;
        else if (str_eq(name, STR("base")))
            u->base = content;
        else if (str_eq(name, STR("type")))
            u->type = content;
        else if (str_eq(name, STR("path")) && u->n_path < MOST_PATH)
            u->path[u->n_path++] = content;
        else
            return err_set(e, "part \"%.*s\": expected profile, base, type or path",
                           name.n < 64 ? (int)name.n : 64, name.p);
    }
    if (more < 0)
        return -1;
    return u->profile.n ? 0 : err_set(e, "part \"profile\", a file, is missing or empty");
}

static struct model_profile *read_file(struct call *c, struct str content, const char *which,
                                       struct err *e)
{
    struct codec_limits limits = {.inflated = c->server->config->limits.profile};
    struct err why = {""};
    struct model_profile *p =
        codec_read(c->arena, (const uint8_t *)content.p, content.n, &limits, NULL, &why);
    if (!p)
        err_set(e, "the %s: %s", which, why.message);
    return p;
}

// Types of the profile, the one that is shown, and how much an event weighs on both sides of it.
static int write_about(struct out *out, const struct model_profile *const sides[2], uint32_t type,
                       struct err *e)
{
    const struct model_profile *p = sides[1];
    out_text(out, "{\"types\":[");
    for (uint32_t i = 0; i < p->n_types; i++) {
        out_text(out, i ? ",[" : "[");
        json_write_string(out, model_str(p, p->types[i].type));
        out_char(out, ',');
        json_write_string(out, model_str(p, p->types[i].unit));
        out_char(out, ']');
    }
    out_printf(out, "],\"type\":%u,\"events\":[", type);
    if (sides[0]) {
        int base = model_type_index(sides[0], model_str(p, p->types[type].type), e);
        if (base < 0)
            return -1;
        out_printf(out, "[%.9g,%.9g]", model_event_weight(sides[0], (uint32_t)base),
                   model_event_weight(p, type));
    }
    out_text(out, "],\"flame\":");
    return 0;
}

static int draw(struct call *c, const struct upload *u, struct err *e)
{
    const struct model_profile *sides[2] = {NULL, read_file(c, u->profile, "profile", e)};
    if (!sides[1] || (u->base.n && !(sides[0] = read_file(c, u->base, "base", e))))
        return -1;
    int type = model_type_index(sides[1], u->type, e);
    if (type < 0 || write_about(&c->x->body_out, sides, (uint32_t)type, e))
        return -1;
    struct report_flame_options o = {
        .type = (uint32_t)type, .base = sides[0], .path = u->path, .n_path = u->n_path};
    struct report_flame *flame = report_flame_new(c->arena, sides[1], &o, e);
    if (!flame)
        return -1;
    report_flame_json(flame, &(struct report_flame_style){.title = "kiln"}, &c->x->body_out);
    out_char(&c->x->body_out, '}');
    return 0;
}

void api_flame(struct call *c)
{
    struct str body;
    struct err e = {""};
    if (!str_eq(c->x->method, STR("POST"))) {
        web_answer_header(c->x, "Allow", "POST");
        call_empty(c, 405);
        return;
    }
    if (call_body(c, &body))
        return;
    struct upload *u = arena_alloc(c->arena, sizeof *u);
    *u = (struct upload){0};
    if (read_parts(c, body, u, &e) || draw(c, u, &e)) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "%s", e.message);
        return;
    }
    c->x->type = "application/json";
    call_finish(c);
}
